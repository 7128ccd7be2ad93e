package plan

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// fetch is a region with one step.
func fetch(t testing.TB, name, spec string, pages int) jobs.Region {
	t.Helper()
	schedule, err := jobs.ParseSchedule(spec, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return jobs.Region{Name: name, Schedule: schedule, Steps: []jobs.Step{{Kind: jobs.Trending, Pages: pages}}}
}

// input is two days of regions against one budget.
func input(b quota.Budget, regions ...jobs.Region) *Input {
	b.Account, b.Name = "a", "all"
	from := time.Date(2026, 11, 20, 0, 30, 0, 0, time.UTC)
	return &Input{Regions: regions, Budgets: []quota.Budget{b}, From: from, To: from.AddDate(0, 0, 2),
		Price: func(method string) (quota.Call, error) {
			return quota.Call{Account: "a", Method: method, Units: 1}, nil
		},
		Open: func(now func() time.Time) quota.Ledger { return memledger.Open(&memledger.Options{Now: now}) }}
}

// TestSearchMatchesBruteForce compares the search with brute force over every
// lighter schedule and number of pages of two regions. The search finds a
// variant if and only if there is one. The variant fits, leaves each region a
// tick, and keeps at least three fifths of the calls of the best one.
func TestSearchMatchesBruteForce(t *testing.T) {
	if testing.Short() {
		t.Skip("searches thousands of schedules")
	}
	specs := []string{"0 */2 * * *", "15 9,12,15 * * *", "0 0 * * *", "@every 3h"}
	found, none := 0, 0
	for i, spec := range specs {
		for _, other := range specs[i:] {
			for _, limit := range []quota.Units{1, 2, 3, 7, 33} {
				floor := map[bool]map[string]quota.Units{true: {"IN": 2}}[limit == 7]
				in := input(quota.Budget{Limit: limit, Window: quota.Sliding(24 * time.Hour), Floor: floor},
					fetch(t, "US", spec, 3), fetch(t, "IN", other, 2))
				s, v, err := in.searchSchedules(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if s.originalScore.excess == 0 {
					continue
				}
				most := bruteForce(s, spec, other)
				name := fmt.Sprintf("%s and %s, limit %d", spec, other, limit)
				if (v == nil) != (most < 0) {
					t.Errorf("%s: found %v; the most calls of any variant that fits are %d", name, v, most)
				}
				if v == nil {
					none++
					continue
				}
				found++
				if m := s.measure(v); m.excess != 0 || 5*m.calls < 3*most {
					t.Errorf("%s: %v with %d calls, too many by %g; want one that fits, with three fifths of %d at "+
						"least", name, v, m.calls, m.excess, most)
				}
			}
		}
	}
	if found < 15 || none < 3 {
		t.Errorf("%d found, %d not; try others", found, none)
	}
}

// bruteForce returns the most calls of any variant that fits, or -1 if
// none does.
func bruteForce(s *scheduleSearch, spec, other string) int {
	most := -1
	for _, us := range append(lighterSpecs(spec), spec) {
		for _, in := range append(lighterSpecs(other), other) {
			for pages := range 6 {
				v := variant{{us, []int{1 + pages/2}}, {in, []int{1 + pages%2}}}
				if m := s.measure(v); m.excess == 0 {
					most = max(most, m.calls)
				}
			}
		}
	}
	return most
}

// TestTheBestVariantFavoursThePoorestRegion checks the criteria and their
// order.
func TestTheBestVariantFavoursThePoorestRegion(t *testing.T) {
	original := choice{"0 * * * *", []int{4, 2}}
	fewer, seldom, both := choice{"0 * * * *", []int{3, 2}}, choice{"0 */2 * * *", []int{4, 2}},
		choice{"0 */2 * * *", []int{3, 1}}
	s := &scheduleSearch{original: variant{original, original}}
	some := func(calls int, left float64, choices ...choice) candidate {
		return candidate{variant: choices, score: score{calls: calls}, share: left}
	}
	for name, c := range map[string]struct {
		tried []candidate
		want  int
	}{
		"the poorest region keeps more": {[]candidate{some(100, 0.4, fewer, original),
			some(80, 0.5, original, both)}, 1},
		"but not for more than a fifth of calls": {[]candidate{some(100, 0.4, fewer, original),
			some(79, 0.5, original, both)}, 0},
		"then the calls": {[]candidate{some(90, 0.4, fewer, original),
			some(91, 0.4, original, both)}, 1},
		"then fewer changes": {[]candidate{some(90, 0.4, both, original),
			some(90, 0.4, original, seldom)}, 1},
		"of pages as well": {[]candidate{some(90, 0.4, fewer, original),
			some(90, 0.4, both, original)}, 0},
	} {
		want := c.tried[c.want].variant
		for range 2 { // in either order
			if got := s.chooseBest(slices.Clone(c.tried)); !slices.EqualFunc(got, want, equal) {
				t.Errorf("%s: %v; want %v", name, got, want)
			}
			slices.Reverse(c.tried)
		}
	}
	if s.chooseBest(nil) != nil {
		t.Error("of none there is a best one")
	}
	for want, v := range []variant{{original, original}, {fewer, original}, {fewer, seldom}, {original, both},
		{both, seldom}} {
		if want = []int{0, 1, 2, 3, 4}[want]; s.countChanges(v) != want {
			t.Errorf("%v has %d changes; want %d", v, s.countChanges(v), want)
		}
	}
}

func equal(a, b choice) bool { return a.spec == b.spec && slices.Equal(a.pages, b.pages) }

// TestShareKeptCountsTicksAndPages checks the share of one region and the
// smallest of all.
func TestShareKeptCountsTicksAndPages(t *testing.T) {
	in := input(quota.Budget{Limit: 1000, Window: quota.Sliding(24 * time.Hour)}, fetch(t, "US", "0 * * * *", 4),
		fetch(t, "IN", "0 * * * *", 2), fetch(t, "BR", "0 0 29 2 *", 2))
	s, err := newSearch(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	s.measure(variant{{"0 */2 * * *", []int{3}}, {"0 */4 * * *", []int{2}}, s.original[2]})
	if us, in := s.shareKept(0), s.shareKept(1); us != 0.375 || in != 0.25 || s.poorestShare() != 0.25 {
		t.Errorf("left %g and %g, the poorest %g; want 3/8, 1/4 and 1/4", us, in, s.poorestShare())
	}
	if m := s.measure(s.original); m.calls != 48*6 || m.excess != 0 || s.poorestShare() != 1 {
		t.Errorf("the original asks for %d calls and leaves %g; want %d and all", m.calls, s.poorestShare(), 48*6)
	}
	if m := s.measure(variant{s.original[0], {"0 0 29 2 *", []int{2}}, s.original[2]}); !math.IsInf(m.excess, 1) {
		t.Errorf("a region without a tick: too much by %g; want an infinite excess", m.excess)
	}
}

// canceling is a context that is cancelled after n calls of Err.
type canceling struct {
	context.Context
	n int
}

func (c *canceling) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

// TestSuggestStopsWithItsContext: whenever the context ends, Suggest returns
// its error and no suggestion.
func TestSuggestStopsWithItsContext(t *testing.T) {
	in := input(quota.Budget{Limit: 20, Window: quota.Sliding(24 * time.Hour)}, fetch(t, "US", "0 */2 * * *", 3),
		fetch(t, "IN", "0 */3 * * *", 2))
	report, err := Play(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n += 1 + n/3 {
		s, err := Suggest(&canceling{t.Context(), n}, in, report)
		if err == nil {
			if n < 100 || s.Report == nil || !s.Report.Fits {
				t.Errorf("a suggestion %+v after %d looks at the context; want one that fits, after a hundred at least",
					s, n)
			}
			return
		}
		if !errors.Is(err, context.Canceled) || s != nil {
			t.Fatalf("ended after %d looks at the context: %v, %v; want the context's error alone", n, s, err)
		}
	}
}

// TestRevertNeedlessRevertsStepByStep: by a page or a step of the schedule at
// a time.
func TestRevertNeedlessRevertsStepByStep(t *testing.T) {
	in := input(quota.Budget{Limit: 7, Window: quota.Sliding(5 * time.Hour)}, fetch(t, "US", "0 * * * *", 9))
	s, err := newSearch(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, want choice }{
		{choice{"0 */6 * * *", []int{4}}, choice{"0 */6 * * *", []int{7}}}, // the whole nine are too many
		{choice{"0 0 * * *", []int{7}}, choice{"0 */6 * * *", []int{7}}},
		{choice{"0 0 * * 1", []int{1}}, choice{"0 * * * *", []int{1}}},
	} {
		got, err := s.revertNeedless(variant{c.from})
		if err != nil || !equal(got[0], c.want) {
			t.Errorf("%v is restored to %v, %v; want %v", c.from, got, err, c.want)
		}
	}
}

// TestAPlanIsBoundedByTheCallsOfAllRegions: a plan is bounded by the calls of
// all its regions, to the last one.
func TestAPlanIsBoundedByTheCallsOfAllRegions(t *testing.T) {
	for _, c := range []struct {
		pages []int // of each region, in a thousand ticks
		fits  bool
	}{
		{[]int{1000}, true}, {[]int{1001}, false},
		{[]int{600, 400}, true}, {[]int{600, 401}, false}, {[]int{600, 600}, false}, {[]int{1, 1, 999}, false},
	} {
		in := input(quota.Budget{Limit: 1, Window: quota.Sliding(time.Hour)})
		in.To = in.From.Add(1000 * time.Minute)
		for i, pages := range c.pages {
			in.Regions = append(in.Regions, fetch(t, fmt.Sprint(i), "* * * * *", pages))
		}
		if _, err := newDemand(in); (err == nil) != c.fits || err != nil && !errors.Is(err, ErrTooLong) {
			t.Errorf("%d pages a minute: %v; want it to fit %t", c.pages, err, c.fits)
		}
	}
}

package plan_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
)

// failing is a ledger that fails at one of its appends.
type failing struct {
	quota.Ledger
	append int // that fails, from 1
	closed *int
}

var errLedger = errors.New("the ledger fails")

func (l *failing) Append(ctx context.Context, account string, a *quota.Append) (*quota.Tail, error) {
	if l.append--; l.append == 0 {
		return nil, errLedger
	}
	return l.Ledger.Append(ctx, account, a)
}

func (l *failing) RealTime() bool { return engine.RealTime(l.Ledger) }

func (l *failing) Close() error {
	*l.closed++
	return l.Ledger.Close()
}

// TestPlayReturnsErrors checks that a failing Play returns an error instead of
// a partial report, and closes its ledger.
func TestPlayReturnsErrors(t *testing.T) {
	for name, c := range map[string]struct {
		append int // that fails
		change func(in *plan.Input)
		want   error // nil: none
		opened int
	}{
		"nothing fails":    {opened: 1},
		"an entry":         {append: 1, want: errLedger, opened: 1},
		"a cooldown":       {append: 3, want: errLedger, opened: 1},
		"the first call":   {append: 4, want: errLedger, opened: 1},
		"the last call":    {append: 3 + 2*4*3, want: errLedger, opened: 1},
		"no further calls": {append: 3 + 2*4*3 + 1, opened: 1},
		"a price": {change: func(in *plan.Input) {
			in.Price = func(string) (quota.Call, error) { return quota.Call{}, errLedger }
		}, want: errLedger},
		"a budget": {change: func(in *plan.Input) { in.Budgets[0].Limit = 0 }, want: errAny, opened: 1},
	} {
		t.Run(name, func(t *testing.T) {
			closed, opened := 0, 0
			from := at(t, "2026-11-20T12:00:00Z")
			entry := quota.Entry{At: from.Add(-time.Hour), Method: "videos.list", Units: 1, Calls: 1,
				Caller: quota.Caller{Region: "US"}}
			later := entry
			later.At = from.Add(-time.Minute)
			in := &plan.Input{From: from, To: from.AddDate(0, 0, 1),
				Regions: parse(t,
					"schedule: '@every 6h'\nfetch: [{trending: {pages: 3}}]\nregions: {US: {}, IN: {}}\n"),
				Price: prices,
				Budgets: []quota.Budget{{Account: "my-project", Name: "units", Limit: 100,
					Window: quota.Sliding(24 * time.Hour)}},
				State: stateOf(entry, later),
				Open: func(now func() time.Time) quota.Ledger {
					opened++
					return &failing{open(now), c.append, &closed}
				}}
			in.State.Cooldowns = []quota.Cooldown{{Account: "my-project", Until: from.Add(-time.Second)}}
			if c.change != nil {
				c.change(in)
			}
			report, err := plan.Play(t.Context(), in)
			if c.want == nil && (err != nil || !report.Fits || report.Calls != 24) {
				t.Errorf("%+v, %v; want 24 calls that fit", report, err)
			}
			if c.want != nil && (err == nil || report != nil || !strings.HasPrefix(err.Error(), "plan: ") ||
				c.want != errAny && !errors.Is(err, c.want)) {
				t.Errorf("%+v, %v; want %v alone", report, err, c.want)
			}
			if opened != c.opened || closed != opened {
				t.Errorf("%d ledgers opened and %d closed; want %d", opened, closed, c.opened)
			}
		})
	}
}

// errAny stands for any error.
var errAny = errors.New("any")

func TestPlayStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	from := at(t, "2026-11-20T12:00:00Z")
	in := &plan.Input{From: from, To: from.AddDate(0, 0, 1),
		Regions: parse(t, "schedule: '@every 6h'\nfetch: [categories]\nregions: {US: {}}\n"), Price: prices, Open: open,
		Budgets: []quota.Budget{{Account: "my-project", Name: "units", Limit: 100,
			Window: quota.Sliding(24 * time.Hour)}}}
	if report, err := plan.Play(ctx, in); !errors.Is(err, context.Canceled) || report != nil {
		t.Errorf("%v, %v; want the context's error alone", report, err)
	}
}

// TestSuggestReturnsErrors: errors of Price, and of playing the suggestion.
func TestSuggestReturnsErrors(t *testing.T) {
	from := at(t, "2026-11-20T00:30:00Z")
	in := &plan.Input{From: from, To: from.AddDate(0, 0, 1),
		Regions: parse(t, "schedule: '@hourly'\nfetch: [{trending: {pages: 3}}]\nregions: {US: {}}\n"),
		Budgets: []quota.Budget{{Account: "my-project", Name: "units", Limit: 30,
			Window: quota.Sliding(24 * time.Hour)}}}
	report := play(t, in)
	closed := 0
	in.Open = func(now func() time.Time) quota.Ledger { return &failing{open(now), 5, &closed} }
	if s, err := plan.Suggest(t.Context(), in, report); !errors.Is(err, errLedger) || s != nil {
		t.Errorf("%+v, %v; want the error of the play alone", s, err)
	}
	in.Open = open
	in.Price = func(string) (quota.Call, error) { return quota.Call{}, errLedger }
	if s, err := plan.Suggest(t.Context(), in, report); !errors.Is(err, errLedger) || s != nil {
		t.Errorf("%+v, %v; want the error of the price alone", s, err)
	}
}

// TestUnusedMeanIsAsComputedByHand compares with means computed by hand.
func TestUnusedMeanIsAsComputedByHand(t *testing.T) {
	regions := "schedule: '0 0 * * *'\nfetch: [{trending: {pages: 60}}]\nregions: {US: {}}\n"
	for name, c := range map[string]struct {
		window quota.Window
		from   string
		hours  int
		held   time.Duration // how long before from an entry of 60 units was made
		want   quota.Units   // of 1000
	}{
		"all day, from midnight":    {quota.Sliding(24 * time.Hour), "2026-11-20T00:00:00Z", 24, 0, 940},
		"half of the time":          {quota.Sliding(12 * time.Hour), "2026-11-20T00:00:00Z", 24, 0, 970},
		"until the end of the play": {quota.Sliding(24 * time.Hour), "2026-11-20T12:00:00Z", 24, 0, 970},
		"with an entry of before":   {quota.Sliding(24 * time.Hour), "2026-11-20T00:00:00Z", 24, 12 * time.Hour, 910},
		"an entry that is gone":     {quota.Sliding(24 * time.Hour), "2026-11-20T00:00:00Z", 24, 24 * time.Hour, 940},
		"by the day":                {quota.Daily(time.UTC).WithMargin(0), "2026-11-20T00:00:00Z", 24, 0, 940},
		// it counts for both days
		"at the day's margin": {quota.Daily(time.UTC).WithMargin(time.Hour), "2026-11-20T00:00:00Z", 24, 0, 940},
		"by the day, from its middle": {quota.Daily(time.UTC).WithMargin(0), "2026-11-20T12:00:00Z", 24, 6 * time.Hour,
			940},
		"more than the limit": {quota.Sliding(24 * time.Hour), "2026-11-20T00:00:00Z", 1, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			from := at(t, c.from)
			in := &plan.Input{From: from, To: from.Add(time.Duration(c.hours) * time.Hour), Regions: parse(t, regions),
				Budgets: []quota.Budget{{Account: "my-project", Name: "b", Limit: 1000, Window: c.window}}}
			entry := quota.Entry{At: from.Add(-c.held), Method: "videos.list", Units: 60, Calls: 1}
			if c.held < 0 {
				entry.At, entry.Units = from.Add(-time.Second), 1500
			}
			if c.held != 0 {
				in.State = stateOf(entry)
			}
			if got := play(t, in).Budgets[0].UnusedMean; got != c.want {
				t.Errorf("%d unused on average; want %d", got, c.want)
			}
		})
	}
}

// TestRefusedUnitsArePriced: RefusedUnits counts units, not calls.
func TestRefusedUnitsArePriced(t *testing.T) {
	from := at(t, "2026-11-20T00:30:00Z")
	report := play(t, &plan.Input{From: from, To: from.AddDate(0, 0, 1),
		Regions: parse(t, "schedule: '0 1 * * *'\nfetch: [{search: {queries: [a], pages: 5}}]\nregions: {US: {}}\n"),
		Budgets: []quota.Budget{{Account: "my-project", Name: "all", Limit: 250,
			Window: quota.Sliding(24 * time.Hour)}}})
	if us := report.Regions[0]; us.Planned != 5 || us.Units != 500 || us.Refused != 3 || us.RefusedUnits != 300 ||
		us.Hit != 1 || report.Budgets[0].Refused != 3 {
		t.Errorf("%+v; want 3 of 5 calls refused, with 300 of 500 units", us)
	}
}

// TestNeedCountsRegionsThatStart: floors of other regions count when a region
// starts, not when another one does.
func TestNeedCountsRegionsThatStart(t *testing.T) {
	from := at(t, "2026-11-20T00:30:00Z")
	report := play(t, &plan.Input{From: from, To: from.AddDate(0, 0, 1),
		Regions: parse(t,
			"schedule: '0 1 * * *'\nfetch: [{trending: {pages: 1}}]\n"+
				"regions: {US: {schedule: '0 0 29 2 *'}, IN: {}}\n"),
		Budgets: []quota.Budget{{Account: "my-project", Name: "all", Limit: 50, Window: quota.Sliding(24 * time.Hour),
			Floor: map[string]quota.Units{"US": 2, "IN": 9}}}})
	if b := report.Budgets[0]; b.PeakLate != 1 || b.Need != 3 {
		t.Errorf("peak %d, need %d; want the call of IN, and with it the 2 that are kept for US", b.PeakLate, b.Need)
	}
}

// everyFourMinutes is one region with three ticks of one page.
func everyFourMinutes(t *testing.T, floor map[string]quota.Units) *plan.Input {
	from := at(t, "2026-11-20T23:50:00Z")
	return &plan.Input{From: from, To: from.Add(12 * time.Minute),
		Regions: parse(t, "schedule: '@every 4m'\nfetch: [{trending: {pages: 1}}]\nregions: {US: {}}\n"),
		Budgets: []quota.Budget{{Account: "my-project", Name: "one", Limit: 4, Window: quota.Sliding(time.Minute),
			Methods: []string{"videos.list"}, Floor: floor}}}
}

// TestTheLeastPlanHasTheFirstPages: whatever a chart holds, its first page is
// fetched at every tick.
func TestTheLeastPlanHasTheFirstPages(t *testing.T) {
	if r := play(t, everyFourMinutes(t, nil)); r.Ticks != 3 || r.Calls != 3 || r.Units != 3 || r.Least != 3 {
		t.Errorf("%d ticks, %d calls, %d units, %d at least; want 3 of each", r.Ticks, r.Calls, r.Units, r.Least)
	}
}

// TestNeedCountsARegionsOwnFloor: a floor is kept from other regions only.
func TestNeedCountsARegionsOwnFloor(t *testing.T) {
	if b := play(t, everyFourMinutes(t, map[string]quota.Units{"US": 2})).Budgets[0]; b.Need != 1 || b.Over {
		t.Errorf("need %d, over %t; want the one call", b.Need, b.Over)
	}
}

// TestUnreadableLedgerIsNotEmpty: a plan does not begin from an empty ledger
// because the ledger could not be read.
func TestUnreadableLedgerIsNotEmpty(t *testing.T) {
	from := at(t, "2026-11-20T12:00:00Z")
	budgets := []quota.Budget{{Account: "my-project", Name: "day", Limit: 100, Window: quota.Sliding(24 * time.Hour)}}
	shared := open(func() time.Time { return from })
	for name, fails := range map[string]int{"readable": 10, "the first read": 2, "the next": 3} {
		reads := 0
		guard, err := quota.NewGuard(testledger.Before(shared, func(op string) error {
			if op == "read" {
				reads++
			}
			if reads == fails {
				return errLedger
			}
			return nil
		}), budgets, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Spend(t.Context(),
			quota.Call{Account: "my-project", Method: "videos.list", Units: 1}); err != nil {
			t.Fatal(err)
		}
		read, state, err := plan.ReadState(t.Context(), guard, from.Add(time.Hour))
		switch {
		case name != "readable" && !errors.Is(err, errLedger):
			t.Errorf("%s: %v; want the ledger's error", name, err)
		case name == "readable" && (err != nil || !read.Equal(from) || len(state.Entries["my-project"]) == 0):
			t.Errorf("%+v at %s, %v; want the calls of the last day", state, read, err)
		}
	}
}

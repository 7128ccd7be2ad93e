package plan_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/command"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// due is a pass of the brute force: when it is due, or when it starts.
type due struct {
	region int
	minute int // after the start
}

// TestPlanMatchesBruteForce compares plans with brute force on a small grid of
// minutes. Peaks equal the largest plain sum over every lateness of every
// start. A plan fits if and only if the real guard refuses nothing for any
// lateness. The refusals are those of plain sums with every start on time.
func TestPlanMatchesBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		dues := comes(in)
		if len(dues) > 5 {
			t.Skip("too many ticks to try all")
		}
		report, err := plan.Play(t.Context(), in)
		if err != nil {
			if _, ok := errors.AsType[*quota.NeverFitsError](err); ok {
				t.Skip("a cost above what floors leave")
			}
			t.Fatal(err)
		}
		checkAsked(t, in, report, dues)
		late := int(in.Jitter / time.Minute)
		fits := true
		peaks, needs := make([]quota.Units, len(in.Budgets)), make([]quota.Units, len(in.Budgets))
		forEveryLateness(dues, late, func(starts []due) {
			for i := range in.Budgets {
				peak, _ := naivePeak(in, &in.Budgets[i], starts)
				peaks[i] = max(peaks[i], peak)
				needs[i] = max(needs[i], peaks[i], naiveNeed(in, &in.Budgets[i], starts))
			}
			fits = fits && granted(t, in, starts)
		})
		for i := range report.Budgets {
			b := &report.Budgets[i]
			if want, at := naivePeak(in, &in.Budgets[i], dues); b.Peak != want || !b.PeakAt.Equal(at) {
				t.Errorf("%s: peak %d at %s; plain sums have %d at %s", describe(in, i), b.Peak, b.PeakAt, want, at)
			}
			checkColumns(t, in, report, i, dues)
			if b.PeakLate != peaks[i] {
				t.Errorf("%s: peak late %d; over all lateness %d", describe(in, i), b.PeakLate, peaks[i])
			}
			if b.Need != needs[i] {
				t.Errorf("%s: need %d; over all lateness %d", describe(in, i), b.Need, needs[i])
			}
			if want := max(0, b.Budget.Limit-b.PeakLate); b.Unused != want {
				t.Errorf("%s: unused %d; want %d", describe(in, i), b.Unused, want)
			}
		}
		if report.Fits != fits {
			t.Errorf("fits: %t; over all lateness %t: %s", report.Fits, fits, describe(in, 0))
		}
		if report.Fits != (len(over(report)) == 0) {
			t.Errorf("fits: %t, and over its limit is %q", report.Fits, over(report))
		}
		if hasFloors(in) {
			return
		}
		checkPlay(t, in, report, dues)
	})
}

// checkAsked compares the numbers of requested calls with a plain count.
func checkAsked(t *rapid.T, in *plan.Input, report *plan.Report, dues []due) {
	ticks, calls, least := make([]int, len(in.Regions)), make([]int, len(in.Regions)), 0
	for _, d := range dues {
		ticks[d.region]++
		for _, step := range in.Regions[d.region].Steps {
			calls[d.region] += len(methods([]jobs.Step{step}))
			if step.Kind != jobs.Command {
				least++ // each chart ends on its first page
			}
		}
	}
	all := 0
	for i, region := range report.Regions {
		all += calls[i]
		if region.Region != in.Regions[i].Name || region.Ticks != ticks[i] || region.Planned != calls[i] ||
			region.Units != quota.Units(calls[i]) {
			t.Errorf("%+v; want %d ticks and %d calls of %s", region, ticks[i], calls[i], in.Regions[i].Name)
		}
	}
	if report.Ticks != len(dues) || report.Calls != all || report.Units != quota.Units(all) ||
		report.Least != quota.Units(least) {
		t.Errorf("%d ticks, %d calls, %d units, %d at least; want %d, %d and %d at least", report.Ticks, report.Calls,
			report.Units, report.Least, len(dues), all, least)
	}
}

// checkColumns compares columns of a minute, and a single column, with
// plain sums.
func checkColumns(t *rapid.T, in *plan.Input, report *plan.Report, i int, dues []due) {
	b := &in.Budgets[i]
	all := amounts(in, b, dues)
	for minute, c := range report.Columns(i, int(in.To.Sub(in.From)/time.Minute)) {
		total, regions := c.Held, quota.Units(0)
		for _, units := range c.Regions {
			total, regions = total+units, regions+units
		}
		held := naiveUsed(in, b, amounts(in, b, nil), minute)
		if want := naiveUsed(in, b, all, minute); c.Total != want || total != want || c.Held != held {
			t.Errorf("%s: the column of minute %d is %+v; want %d, %d of them held", describe(in, i), minute, c, want,
				held)
		}
	}
	peak, _ := naivePeak(in, b, dues)
	if c := report.Columns(i, 1)[0]; c.Total != peak {
		t.Errorf("%s: the one column is %+v; want the peak, %d", describe(in, i), c, peak)
	}
}

// over returns the names of the budgets that may refuse a call.
func over(report *plan.Report) (names []string) {
	for _, b := range report.Budgets {
		if b.Over || b.Refused > 0 {
			names = append(names, b.Budget.Name)
		}
	}
	return names
}

func describe(in *plan.Input, i int) string {
	b := in.Budgets[i]
	var text strings.Builder
	fmt.Fprintf(&text, "%s: limit %d, %s, floors %v until %s; from %s, jitter %s; held", b.Name, b.Limit, b.Window,
		b.Floor, b.FloorUntil, in.From.Format("15:04"), in.Jitter)
	for _, e := range in.State.Entries["my-project"] {
		fmt.Fprintf(&text, " %s %s %d", e.At.Format("15:04"), e.Caller.Region, e.Units)
	}
	for _, r := range in.Regions {
		fmt.Fprintf(&text, "; %s %s %v", r.Name, r.Schedule, r.Steps)
	}
	return text.String()
}

// drawInput draws a few passes within minutes around midnight.
func drawInput(t *rapid.T) *plan.Input {
	from := time.Date(2026, 11, 20, 23, 50, 0, 0,
		time.UTC).Add(time.Duration(rapid.IntRange(0, 14).Draw(t, "from")) * time.Minute)
	in := &plan.Input{From: from, To: from.Add(12 * time.Minute), Price: prices, Open: open,
		Jitter: time.Duration(rapid.IntRange(0, 3).Draw(t, "jitter")) * time.Minute}
	names := []string{"US", "IN", "BR"}
	for _, name := range names[:rapid.IntRange(1, 3).Draw(t, "regions")] {
		schedule, err := jobs.ParseSchedule(rapid.SampledFrom([]string{"@every 4m", "@every 5m", "@every 7m",
			"55,0,1 * * * *", "*/6 * * * *", "58 * * * *"}).Draw(t, "schedule"), time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		steps := []jobs.Step{{Kind: jobs.Trending, Pages: rapid.IntRange(1, 3).Draw(t, "pages")}}
		if rapid.Bool().Draw(t, "two steps") {
			steps = append(steps, jobs.Step{Kind: jobs.Categories, Pages: 1})
		}
		if rapid.Bool().Draw(t, "a program") {
			program := &command.Program{Job: "market", Calls: []command.Calls{
				{Method: "videos.list", Most: rapid.IntRange(1, 3).Draw(t, "charts")},
				{Method: "videoCategories.list", Most: rapid.IntRange(1, 2).Draw(t, "categories")}}}
			steps = append(steps, jobs.Step{Kind: jobs.Command, Pages: 1, Program: program})
		}
		in.Regions = append(in.Regions, jobs.Region{Name: name, Schedule: schedule, Steps: steps})
	}
	in.Budgets = []quota.Budget{drawBudget(t, "one"), drawBudget(t, "two")}
	stamps := rapid.SliceOfNDistinct(rapid.IntRange(1, 12), 0, 3, rapid.ID).Draw(t, "held")
	slices.Sort(stamps)
	slices.Reverse(stamps)
	for _, minutes := range stamps {
		in.State.Add("my-project", &quota.Entry{
			At: from.Add(-time.Duration(minutes) * time.Minute), Method: "videos.list",
			Calls:  quota.Units(rapid.IntRange(0, 1).Draw(t, "calls")),
			Units:  quota.Units(rapid.IntRange(0, 4).Draw(t, "units")),
			Caller: quota.Caller{Region: rapid.SampledFrom([]string{"US", "IN", ""}).Draw(t, "of")}})
	}
	return in
}

func drawBudget(t *rapid.T, name string) quota.Budget {
	b := quota.Budget{Account: "my-project", Name: name, Limit: quota.Units(rapid.IntRange(4, 16).Draw(t, "limit"))}
	minutes := func(least, most int) time.Duration {
		return time.Duration(rapid.IntRange(least, most).Draw(t, "minutes")) * time.Minute
	}
	switch rapid.IntRange(0, 1).Draw(t, "window") {
	case 0:
		b.Window = quota.Sliding(minutes(1, 12))
	case 1:
		b.Window = quota.Daily(time.UTC).WithMargin(minutes(0, 2))
	}
	switch rapid.IntRange(0, 5).Draw(t, "covers") {
	case 0:
		b.Methods = []string{"videos.list"}
	case 1:
		b.Regions = []string{"IN", "BR"}
	case 2:
		b.Measure = quota.Calls
	}
	if len(b.Regions) == 0 && rapid.Bool().Draw(t, "floors") {
		b.Floor = map[string]quota.Units{}
		left := int(b.Limit) - 1
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"US", "IN", "BR", "JP"}), 1, 3,
			rapid.ID).Draw(t, "floors of") {
			floor := rapid.IntRange(0, left).Draw(t, "floor")
			if left -= floor; floor > 0 {
				b.Floor[name] = quota.Units(floor)
			}
		}
		if b.Window.Kind() == engine.Calendar && len(b.Floor) > 0 && rapid.Bool().Draw(t, "floors end") {
			b.FloorUntil = minutes(1, 10)
		}
	}
	return b
}

// comes returns the passes that are due, by time and region.
func comes(in *plan.Input) []due {
	var dues []due
	for minute := range int(in.To.Sub(in.From) / time.Minute) {
		for i, region := range in.Regions {
			if at := in.From.Add(time.Duration(minute) * time.Minute); region.Schedule.Tick(at).Equal(at) {
				dues = append(dues, due{i, minute})
			}
		}
	}
	return dues
}

func forEveryLateness(dues []due, late int, do func(starts []due)) {
	starts := slices.Clone(dues)
	var from func(i int)
	from = func(i int) {
		if i == len(dues) {
			do(starts)
			return
		}
		for by := range late + 1 {
			starts[i].minute = dues[i].minute + by
			from(i + 1)
		}
	}
	from(0)
}

// granted spends the calls of all starts through the real guard, those of the
// same minute in every order, and reports whether all are granted.
func granted(t *rapid.T, in *plan.Input, starts []due) bool {
	floors := hasFloors(in)
	sorted := slices.Clone(starts)
	slices.SortStableFunc(sorted, func(a, b due) int { return cmp.Compare(a.minute, b.minute) })
	all := true
	var from func(i int)
	from = func(i int) {
		if i == len(sorted) {
			all = all && grantedInOrder(t, in, sorted)
			return
		}
		for j := i; j < len(sorted) && sorted[j].minute == sorted[i].minute && all; j++ {
			if j > i && !floors {
				break // a sum does not depend on the order
			}
			sorted[i], sorted[j] = sorted[j], sorted[i]
			from(i + 1)
			sorted[i], sorted[j] = sorted[j], sorted[i]
		}
	}
	from(0)
	return all
}

func grantedInOrder(t *rapid.T, in *plan.Input, starts []due) bool {
	now := in.From
	ledger := open(func() time.Time { return now })
	guard, err := quota.NewGuard(ledger, in.Budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, account := range slices.Sorted(maps.Keys(in.State.Entries)) {
		for _, e := range in.State.Entries[account] {
			now = e.At
			held := quota.Call{Account: account, Method: e.Method, Units: e.Units, Caller: e.Caller}
			if err := guard.Note(t.Context(), quota.Note{Call: held, Calls: e.Calls}); err != nil {
				t.Fatal(err)
			}
		}
	}
	calls := 0
	for _, s := range starts {
		region := in.Regions[s.region]
		for _, method := range methods(region.Steps) {
			now = in.From.Add(time.Duration(s.minute)*time.Minute + time.Duration(calls)*time.Microsecond)
			calls++
			call, _ := prices(method)
			call.Caller = quota.Caller{Lane: "cron", Region: region.Name}
			if _, err := guard.Spend(t.Context(), call); errors.Is(err, quota.ErrRefused) {
				return false
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	return true
}

// checkPlay compares the refusals and what stays unused with a play of
// plain sums.
func checkPlay(t *rapid.T, in *plan.Input, report *plan.Report, dues []due) {
	t.Helper()
	refused, used := naivePlay(in, dues)
	for i, want := range refused {
		if got := report.Regions[i].Refused; got != want {
			t.Errorf("%s is refused %d calls; plain sums refuse %d: %s", in.Regions[i].Name, got, want, describe(in, 0))
		}
	}
	for i := range report.Budgets {
		b := &report.Budgets[i]
		if want := naiveUnusedMean(in, &in.Budgets[i], used[i]); b.UnusedMean != want {
			t.Errorf("%s: unused on average %d; minute by minute %d", describe(in, i), b.UnusedMean, want)
		}
	}
}

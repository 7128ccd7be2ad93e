package plan_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/plan"
	"github.com/ration-dev/ration/quota"
)

// due is a pass of the brute force: when it is due, or when it starts.
type due struct {
	region int
	minute int // after the start
}

// TestAgainstEveryLateness holds a plan to brute force on a small grid: its
// peaks are the most of plain sums, over all lateness of each start by itself; it
// fits if and only if the real guard refuses nothing, whatever the lateness;
// and what it says is refused is what plain sums on the dot refuse.
func TestAgainstEveryLateness(t *testing.T) {
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
		late := int(in.Jitter / time.Minute)
		fits := true
		peaks := make([]quota.Units, len(in.Budgets))
		forEveryLateness(dues, late, func(starts []due) {
			for i := range in.Budgets {
				peaks[i] = max(peaks[i], naivePeak(in, &in.Budgets[i], starts))
			}
			fits = fits && granted(t, in, starts)
		})
		for i := range report.Budgets {
			b := &report.Budgets[i]
			if want := naivePeak(in, &in.Budgets[i], dues); b.Peak != want {
				t.Errorf("%s: peak %d; plain sums have %d", describe(in, i), b.Peak, want)
			}
			if b.PeakLate != peaks[i] {
				t.Errorf("%s: peak late %d; over all lateness %d", describe(in, i), b.PeakLate, peaks[i])
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
		for i, want := range naiveRefused(in, dues) {
			if got := report.Regions[i].Refused; got != want {
				t.Errorf("%s is refused %d calls; plain sums refuse %d: %s", in.Regions[i].Name, got, want, describe(in, 0))
			}
		}
	})
}

// over names the budgets with something to refuse.
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
	fmt.Fprintf(&text, "%s: limit %d, %s, floors %v until %s; from %s, jitter %s; held", b.Name, b.Limit, b.Window, b.Floor, b.FloorUntil, in.From.Format("15:04"), in.Jitter)
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
	from := time.Date(2026, 11, 20, 23, 50, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 14).Draw(t, "from")) * time.Minute)
	in := &plan.Input{From: from, To: from.Add(12 * time.Minute), Price: prices, Open: open,
		Jitter: time.Duration(rapid.IntRange(0, 3).Draw(t, "jitter")) * time.Minute}
	names := []string{"US", "IN", "BR"}
	for _, name := range names[:rapid.IntRange(1, 3).Draw(t, "regions")] {
		schedule, err := jobs.ParseSchedule(rapid.SampledFrom([]string{"@every 4m", "@every 5m", "@every 7m", "55,0,1 * * * *", "*/6 * * * *", "58 * * * *"}).Draw(t, "schedule"), time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		steps := []jobs.Step{{Kind: jobs.Trending, Pages: rapid.IntRange(1, 3).Draw(t, "pages")}}
		if rapid.Bool().Draw(t, "two steps") {
			steps = append(steps, jobs.Step{Kind: jobs.Categories, Pages: 1})
		}
		in.Regions = append(in.Regions, jobs.Region{Name: name, Schedule: schedule, Steps: steps})
	}
	in.Budgets = []quota.Budget{drawBudget(t, "one"), drawBudget(t, "two")}
	stamps := rapid.SliceOfNDistinct(rapid.IntRange(1, 12), 0, 3, rapid.ID).Draw(t, "held")
	slices.Sort(stamps)
	slices.Reverse(stamps)
	for _, minutes := range stamps {
		in.State.Entries = map[string][]quota.Entry{"my-project": append(in.State.Entries["my-project"], quota.Entry{
			At: from.Add(-time.Duration(minutes) * time.Minute), Method: "videos.list", Calls: quota.Units(rapid.IntRange(0, 1).Draw(t, "calls")),
			Units: quota.Units(rapid.IntRange(0, 4).Draw(t, "units")), Caller: quota.Caller{Region: rapid.SampledFrom([]string{"US", "IN", ""}).Draw(t, "of")}})}
	}
	return in
}

func drawBudget(t *rapid.T, name string) quota.Budget {
	b := quota.Budget{Account: "my-project", Name: name, Limit: quota.Units(rapid.IntRange(4, 16).Draw(t, "limit"))}
	minutes := func(least, most int) time.Duration {
		return time.Duration(rapid.IntRange(least, most).Draw(t, "minutes")) * time.Minute
	}
	switch rapid.IntRange(0, 2).Draw(t, "window") {
	case 0:
		b.Window = quota.Sliding(minutes(1, 12))
	case 1:
		b.Window = quota.Daily(time.UTC).WithMargin(minutes(0, 2))
	case 2:
		b.Window = quota.Counter(minutes(2, 12))
	}
	switch rapid.IntRange(0, 5).Draw(t, "covers") {
	case 0:
		b.Methods = []string{"videos.list"}
	case 1:
		b.Regions = []string{"IN", "BR"}
	case 2:
		b.Measure = quota.Calls
	}
	if !b.Window.Estimate() && len(b.Regions) == 0 && rapid.Bool().Draw(t, "floors") {
		b.Floor = map[string]quota.Units{"IN": quota.Units(rapid.IntRange(1, int(b.Limit)-1).Draw(t, "floor"))}
		if b.Window.Kind() == quota.KindDaily && rapid.Bool().Draw(t, "floors end") {
			b.FloorUntil = minutes(1, 10)
		}
	}
	return b
}

// comes returns what is due, in the order of time and regions.
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

// counted is what a start, or an entry, counts for a budget.
type counted struct {
	minute int
	amount quota.Units
}

func amounts(in *plan.Input, b *quota.Budget, starts []due) []counted {
	var all []counted
	for _, e := range in.State.Entries["my-project"] {
		if amount := map[quota.Measure]quota.Units{quota.ByUnits: e.Units, quota.Calls: e.Calls}[b.Measure]; covers(b, e.Method, e.Caller.Region) {
			all = append(all, counted{int(e.At.Sub(in.From) / time.Minute), amount})
		}
	}
	for _, s := range starts {
		region, amount := in.Regions[s.region], quota.Units(0)
		for _, step := range region.Steps {
			if covers(b, step.Method(), region.Name) {
				amount += quota.Units(step.Pages)
			}
		}
		all = append(all, counted{s.minute, amount})
	}
	return all
}

// naivePeak is the most that a budget's window holds at any minute, by plain sums.
func naivePeak(in *plan.Input, b *quota.Budget, starts []due) (most quota.Units) {
	all := amounts(in, b, starts)
	for now := 0; now <= int((in.To.Sub(in.From)+in.Jitter)/time.Minute)+1; now++ {
		most = max(most, naiveUsed(in, b, all, now))
	}
	return most
}

func naiveUsed(in *plan.Input, b *quota.Budget, all []counted, now int) (used quota.Units) {
	epoch := int(in.From.Unix() / 60) // in minutes
	length := int(b.Window.Length() / time.Minute)
	share := quota.Units(0)
	for _, c := range all {
		age := now - c.minute
		switch {
		case age < 0:
		case b.Window.Kind() == quota.KindSliding:
			if age < length {
				used += c.amount
			}
		case b.Window.Kind() == quota.KindDaily:
			margin := marginOf(in, b)
			day := (epoch + now - margin) / 1440 // it opened a margin after its midnight
			if epoch+c.minute >= day*1440-margin {
				used += c.amount
			}
		default:
			switch (epoch+now)/length - (epoch+c.minute)/length {
			case 0:
				used += c.amount
			case 1:
				share += c.amount * quota.Units(length-(epoch+now)%length)
			}
		}
	}
	if share > 0 {
		used += (share + quota.Units(length) - 1) / quota.Units(length)
	}
	return used
}

// marginOf is the margin that a daily window was drawn with.
func marginOf(in *plan.Input, b *quota.Budget) int {
	d := b.Window.Day(in.From)
	return int(d.Opens.Sub(d.Next) / 2 / time.Minute)
}

func hasFloors(in *plan.Input) bool {
	return slices.ContainsFunc(in.Budgets, func(b quota.Budget) bool { return len(b.Floor) > 0 })
}

// naiveRefused plays what is due on the dot by plain sums, the longest-unfetched
// region first, and returns how many calls of each region are refused or dropped.
func naiveRefused(in *plan.Input, dues []due) []int {
	refused, fetched := make([]int, len(in.Regions)), make([]int, len(in.Regions))
	used := make([][]counted, len(in.Budgets))
	for i := range used {
		used[i] = amounts(in, &in.Budgets[i], nil)
	}
	for i := range in.Regions {
		fetched[i] = math.MinInt
		for _, e := range in.State.Entries["my-project"] {
			if e.Caller.Region == in.Regions[i].Name {
				fetched[i] = int(e.At.Sub(in.From) / time.Microsecond)
			}
		}
	}
	calls := 0
	for order := slices.Clone(dues); len(order) > 0; order = order[1:] {
		slices.SortStableFunc(order, func(a, b due) int {
			return cmp.Or(cmp.Compare(a.minute, b.minute), cmp.Compare(fetched[a.region], fetched[b.region]))
		})
		now, region := order[0], in.Regions[order[0].region]
		for _, step := range region.Steps {
			for page := range step.Pages {
				fits := true
				for i := range in.Budgets {
					b := &in.Budgets[i]
					fits = fits && (!covers(b, step.Method(), region.Name) || naiveUsed(in, b, append(slices.Clone(used[i]), counted{now.minute, 1}), now.minute) <= b.Limit)
				}
				if !fits {
					refused[now.region] += step.Pages - page
					break
				}
				for i := range in.Budgets {
					if covers(&in.Budgets[i], step.Method(), region.Name) {
						used[i] = append(used[i], counted{now.minute, 1})
					}
				}
				calls++
				fetched[now.region] = now.minute*60_000_000 + calls
			}
		}
	}
	return refused
}

func covers(b *quota.Budget, method, region string) bool {
	in := func(list []string, word string) bool { return len(list) == 0 || slices.Contains(list, word) }
	return in(b.Methods, method) && in(b.Regions, region)
}

// granted plays starts through the real guard, those of one instant in every
// order, and reports whether it grants all.
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
			answers, err := ledger.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{recorded(&e)}})
			if err != nil || answers[0].Err != nil {
				t.Fatal(err, answers)
			}
		}
	}
	calls := 0
	for _, s := range starts {
		region := in.Regions[s.region]
		for _, step := range region.Steps {
			for range step.Pages {
				now = in.From.Add(time.Duration(s.minute)*time.Minute + time.Duration(calls)*time.Microsecond)
				calls++
				call, _ := prices(step.Method())
				call.Caller = quota.Caller{Lane: "cron", Job: step.Name(), Region: region.Name}
				if _, err := guard.Spend(t.Context(), call); errors.Is(err, quota.ErrRefused) {
					return false
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return true
}

// recorded returns the request that enters what a log holds already.
func recorded(e *quota.Entry) quota.Request {
	r := quota.Request{Method: e.Method, Units: e.Units, Caller: e.Caller, Force: true}
	if e.Calls == 0 {
		r.Kind = quota.EntryNote
	}
	return r
}

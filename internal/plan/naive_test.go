package plan_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// counted is what a start, or an entry, counts for a budget.
type counted struct {
	minute int
	amount quota.Units
	region string
}

func amounts(in *plan.Input, b *quota.Budget, starts []due) []counted {
	var all []counted
	for _, e := range in.State.Entries["my-project"] {
		if amount := map[quota.Measure]quota.Units{quota.ByUnits: e.Units, quota.Calls: e.Calls}[b.Measure]; covers(b,
			e.Method, e.Caller.Region) {
			all = append(all, counted{int(e.At.Sub(in.From) / time.Minute), amount, e.Caller.Region})
		}
	}
	for _, s := range starts {
		region, amount := in.Regions[s.region], quota.Units(0)
		for _, method := range methods(region.Steps) {
			if covers(b, method, region.Name) {
				amount++
			}
		}
		all = append(all, counted{s.minute, amount, region.Name})
	}
	return all
}

// naivePeak is the most that a budget's window holds at any minute, by plain
// sums, and when first; the zero time if it never holds anything.
func naivePeak(in *plan.Input, b *quota.Budget, starts []due) (most quota.Units, at time.Time) {
	all := amounts(in, b, starts)
	for now := 0; now <= int((in.To.Sub(in.From)+in.Jitter)/time.Minute)+1; now++ {
		if used := naiveUsed(in, b, all, now); used > most {
			most, at = used, in.From.Add(time.Duration(now)*time.Minute)
		}
	}
	return most, at
}

func naiveUsed(in *plan.Input, b *quota.Budget, all []counted, now int) (used quota.Units) {
	epoch := int(in.From.Unix() / 60) // in minutes
	length := int(b.Window.Length() / time.Minute)
	for _, c := range all {
		age := now - c.minute
		switch {
		case age < 0:
		case b.Window.Kind() == engine.Sliding:
			if age < length {
				used += c.amount
			}
		default:
			margin := marginOf(in, b)
			day := (epoch + now - margin) / 1440 // it opened a margin after its midnight
			if epoch+c.minute >= day*1440-margin {
				used += c.amount
			}
		}
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

// naivePlay plays what is due on the dot by plain sums, the longest-unfetched
// region first. It returns how many calls of each region are refused or
// dropped, and what is granted or was held, by budget.
func naivePlay(in *plan.Input, dues []due) (refused []int, used [][]counted) {
	fetched := make([]int, len(in.Regions))
	refused, used = make([]int, len(in.Regions)), make([][]counted, len(in.Budgets))
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
	spent := 0
	for order := slices.Clone(dues); len(order) > 0; order = order[1:] {
		slices.SortStableFunc(order, func(a, b due) int {
			return cmp.Or(cmp.Compare(a.minute, b.minute), cmp.Compare(fetched[a.region], fetched[b.region]))
		})
		now, region := order[0], in.Regions[order[0].region]
		for i := range region.Steps {
			calls := methods(region.Steps[i : i+1])
			for done, method := range calls {
				fits := true
				for i := range in.Budgets {
					b := &in.Budgets[i]
					fits = fits && (!covers(b, method, region.Name) ||
						naiveUsed(in, b, append(slices.Clone(used[i]), counted{now.minute, 1, region.Name}),
							now.minute) <= b.Limit)
				}
				if !fits {
					refused[now.region] += len(calls) - done
					break
				}
				for i := range in.Budgets {
					if covers(&in.Budgets[i], method, region.Name) {
						used[i] = append(used[i], counted{now.minute, 1, region.Name})
					}
				}
				spent++
				fetched[now.region] = now.minute*60_000_000 + spent
			}
		}
	}
	return refused, used
}

// methods returns the methods of all calls of some steps, in order.
func methods(steps []jobs.Step) (all []string) {
	for _, step := range steps {
		for range step.Pages {
			for _, calls := range step.Calls() {
				all = append(all, slices.Repeat([]string{calls.Method}, calls.Most)...)
			}
		}
	}
	return all
}

func covers(b *quota.Budget, method, region string) bool {
	in := func(list []string, word string) bool { return len(list) == 0 || slices.Contains(list, word) }
	return in(b.Methods, method) && in(b.Regions, region)
}

// naiveUnusedMean is what of a limit is not used, minute by minute.
func naiveUnusedMean(in *plan.Input, b *quota.Budget, granted []counted) quota.Units {
	sum, minutes := quota.Units(0), int(in.To.Sub(in.From)/time.Minute)
	for now := range minutes {
		sum += naiveUsed(in, b, granted, now)
	}
	mean := math.Floor(float64(sum)/float64(minutes) + 0.5)
	return max(0, b.Limit-quota.Units(mean))
}

// naiveNeed is the most that a start finds taken in any window of a budget that
// it must fit, itself and the floors of other regions included.
func naiveNeed(in *plan.Input, b *quota.Budget, starts []due) (most quota.Units) {
	all := amounts(in, b, starts)
	for _, s := range starts {
		asker := in.Regions[s.region].Name
		for _, w := range windowsAt(in, b, s.minute) {
			need, by := quota.Units(0), map[string]quota.Units{}
			for _, c := range all {
				if c.minute >= w.since && c.minute <= s.minute {
					need += c.amount
					by[c.region] += c.amount
				}
			}
			for region, floor := range b.Floor {
				if region != asker && w.floors {
					need += max(0, floor-by[region])
				}
			}
			most = max(most, need)
		}
	}
	return most
}

// window is one that a call at some minute must fit.
type window struct {
	since  int
	floors bool // they hold
}

func windowsAt(in *plan.Input, b *quota.Budget, now int) []window {
	switch b.Window.Kind() {
	case engine.Sliding:
		return []window{{now - int(b.Window.Length()/time.Minute) + 1, true}}
	case engine.Calendar:
		epoch, margin, until := int(in.From.Unix()/60), marginOf(in, b), int(b.FloorUntil/time.Minute)
		day := (epoch + now - margin) / 1440
		next := (day+1)*1440 - margin - epoch
		windows := []window{{day*1440 - margin - epoch, until == 0 || now < next-until}}
		if now >= next {
			windows = append(windows, window{next, true})
		}
		return windows
	}
	return nil
}

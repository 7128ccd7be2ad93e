package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

// series is what is told apart in a chart.
type series struct{ method, job, region string }

// hours holds what was spent, or will be requested, in each hour since the
// Unix epoch.
type hours map[int64]map[series]quota.Units

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

func (h hours) add(hour int64, s series, units quota.Units) {
	if h[hour] == nil {
		h[hour] = map[series]quota.Units{}
	}
	h[hour][s] += units
}

const (
	shownHours = 24             // of each chart: before now, and after
	keptHours  = 2 * shownHours // with those of the day before
	seed       = 2000           // entries that are read one by one at first, for the runs
	maxRuns    = 100
	rebuild    = time.Hour // until an activity is read anew, for what no update sees
)

// activity is what one account's log says of the last two days. It is kept
// current by reading what is new.
type activity struct {
	account string
	builtAt time.Time // zero: it is to be read anew
	hours   hours
	newest  []quota.Entry // the newest, oldest first: those that can be settled, and one
	runs    map[string]*run
	read    int // entries read by updates
}

// run is what one process spent.
type run struct {
	Name          string
	First, Last   time.Time
	Units, Calls  quota.Units
	jobs, regions map[string]bool
}

// Jobs returns the first names of the jobs, sorted, and how many more
// there are.
func (r *run) Jobs() string { return firstNames(r.jobs) }

// Regions returns the first names of the regions, sorted, and how many more
// there are.
func (r *run) Regions() string { return firstNames(r.regions) }

func firstNames(set map[string]bool) string {
	const most = 3
	names := slices.Sorted(maps.Keys(set))
	if len(names) > most+1 {
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}

func emptyActivity(account string, builtAt time.Time) *activity {
	return &activity{account: account, builtAt: builtAt, hours: hours{}, runs: map[string]*run{}}
}

// newActivity reads the newest entries, and the sums of the hours before them.
func newActivity(ctx context.Context, ledger quota.Ledger, account string, now time.Time) (*activity, error) {
	a := emptyActivity(account, now)
	var newest []quota.Entry
	for e, err := range ledger.Entries(ctx, quota.Query{Account: account, Newest: true}) {
		if err != nil {
			return nil, err
		}
		if newest = append(newest, e); len(newest) == seed {
			break
		}
	}
	slices.Reverse(newest)
	cut := time.Time{}
	if len(newest) == seed {
		cut = newest[0].At
	}
	for hour := hourOf(now) - keptHours + 1; hour*3600 < cut.Unix(); hour++ {
		query := quota.Query{Account: account, Since: time.Unix(hour*3600, 0), Until: time.Unix((hour+1)*3600, 0)}
		if query.Until.After(cut) {
			query.Until = cut
		}
		for sum, err := range ledger.Sums(ctx, query) {
			if err != nil {
				return nil, err
			}
			a.hours.add(hour, series{sum.Method, sum.Caller.Job, sum.Caller.Region}, sum.Units)
		}
	}
	for i := range newest {
		a.add(&newest[i], newest[i].Units, newest[i].Calls)
	}
	a.setNewest(newest)
	return a, nil
}

// setNewest keeps the last of those entries, which are in the order of
// their timestamps.
func (a *activity) setNewest(entries []quota.Entry) {
	a.newest = slices.Clone(entries[max(0, len(entries)-quota.MaxSettle-1):])
}

// add adds units and calls of an entry.
func (a *activity) add(e *quota.Entry, units, calls quota.Units) {
	if hour := hourOf(e.At); hour > hourOf(a.builtAt)-keptHours {
		a.hours.add(hour, series{e.Method, e.Caller.Job, e.Caller.Region}, units)
	}
	r := a.run(usage.Run(e.ID.Client), e.At)
	r.Units += units
	r.Calls += calls
	r.jobs[cmp.Or(e.Caller.Job, usage.Unattributed)] = true
	r.regions[cmp.Or(e.Caller.Region, usage.Unattributed)] = true
	if e.At.After(r.Last) {
		r.Last = e.At
	}
}

// merge adds what another activity of the account has added up.
func (a *activity) merge(more *activity) {
	for hour, sums := range more.hours {
		for s, units := range sums {
			a.hours.add(hour, s, units)
		}
	}
	for _, one := range slices.Backward(more.lastRuns()) { // the oldest first, as it was spent
		r := a.run(one.Name, one.First)
		r.Units += one.Units
		r.Calls += one.Calls
		maps.Copy(r.jobs, one.jobs)
		maps.Copy(r.regions, one.regions)
		if one.Last.After(r.Last) {
			r.Last = one.Last
		}
	}
}

// run returns the run of that name. It is a new one from first on if it is not
// known.
func (a *activity) run(name string, first time.Time) *run {
	r := a.runs[name]
	if r == nil {
		a.dropRun()
		r = &run{Name: name, First: first, jobs: map[string]bool{}, regions: map[string]bool{}}
		a.runs[name] = r
	}
	return r
}

// dropRun makes room for another run.
func (a *activity) dropRun() {
	if len(a.runs) >= maxRuns {
		delete(a.runs, a.lastRuns()[maxRuns-1].Name)
	}
}

// lastRuns returns the runs, the one that spent last first.
func (a *activity) lastRuns() []*run {
	return slices.SortedFunc(maps.Values(a.runs), func(x, y *run) int {
		return cmp.Or(y.Last.Compare(x.Last), cmp.Compare(x.Name, y.Name))
	})
}

// update reads the entries that are new, and those that may have been settled
// since. It reports whether the log goes on from what is known of it. An error
// leaves the activity as it was, so that the next update adds each entry once.
func (a *activity) update(ctx context.Context, ledger quota.Ledger, now time.Time) (goesOn bool, err error) {
	known := make(map[int64]*quota.Entry, len(a.newest))
	query := quota.Query{Account: a.account}
	for i := range a.newest {
		known[a.newest[i].At.UnixMicro()] = &a.newest[i]
		query.Since = a.newest[0].At
	}
	var entries []quota.Entry
	more := emptyActivity(a.account, a.builtAt)
	for e, err := range ledger.Entries(ctx, query) {
		if err != nil {
			return true, err
		}
		a.read++
		if old := known[e.At.UnixMicro()]; old != nil && old.ID == e.ID {
			more.add(&e, e.Units-old.Units, e.Calls-old.Calls)
			delete(known, e.At.UnixMicro())
		} else {
			more.add(&e, e.Units, e.Calls)
		}
		if entries = append(entries, e); len(entries) > 8*quota.MaxSettle {
			entries = append(entries[:0], entries[len(entries)-quota.MaxSettle-1:]...)
		}
	}
	if len(known) > 0 && len(known) == len(a.newest) {
		return false, nil // it is another log: what was read may be counted already
	}
	a.merge(more)
	a.setNewest(entries)
	for hour := range a.hours {
		if hour <= hourOf(now)-keptHours {
			delete(a.hours, hour)
		}
	}
	return len(known) == 0, nil
}

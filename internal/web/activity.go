package web

import (
	"context"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// series is what is told apart in a chart: the names of a Filter, without the
// run.
type series = usage.Filter

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

// total returns what all series of an hour add up to.
func total(of map[series]quota.Units) (sum quota.Units) {
	for _, units := range of {
		sum += units
	}
	return sum
}

const (
	shownHours = 24             // of each chart: before now, and after
	keptHours  = 2 * shownHours // with those of the day before
)

// activity is what one account's log says.
type activity struct {
	hours    hours         // of the last two days
	refused  map[int64]int // refusals, by the hour
	runs     map[string]*runRow
	newest   []usage.Line // of the account, oldest first
	refusals map[refusalID]*refusalGroup
}

// readActivity reads the log of an account, and adds to the passes of a
// snapshot what they spent.
func readActivity(ctx context.Context, log *quota.Guard, account string, s *snapshot) (*activity, error) {
	a := &activity{hours: hours{}, refused: map[int64]int{}, runs: map[string]*runRow{},
		refusals: map[refusalID]*refusalGroup{}}
	passes, cut := newPassIndex(s), hourOf(s.At)-keptHours
	for e, err := range log.Entries(ctx, quota.Query{Account: account}) {
		if err != nil {
			return nil, err
		}
		a.addNewest(account, &e)
		hour := hourOf(e.At)
		if e.Kind == quota.EntryRefused {
			a.refused[hour]++
			a.addRefusal(account, &e)
			continue
		}
		if hour > cut {
			a.hours.add(hour, series{Region: e.Caller.Region, Job: usage.Spender(e.Kind, e.Caller.Job),
				Method: e.Method, Lane: e.Caller.Lane, Host: usage.Spender(e.Kind, e.Host), Key: e.Key}, e.Units)
		}
		if !e.Amounts().IsZero() {
			a.addRun(account, &e)
		}
		passes.add(&e)
	}
	return a, nil
}

// addNewest keeps the entries that the log shows.
func (a *activity) addNewest(account string, e *quota.Entry) {
	if len(a.newest) == 2*shownEntries {
		a.newest = slices.Delete(a.newest, 0, shownEntries)
	}
	a.newest = append(a.newest, usage.Line{Entry: *e, Account: account})
}

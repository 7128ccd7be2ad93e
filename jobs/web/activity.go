package web

import (
	"context"
	"slices"
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

func (h hours) addEntry(e *quota.Entry, units quota.Units) {
	h.add(hourOf(e.At), series{e.Method, usage.JobOf(e.Kind, e.Caller), e.Caller.Region}, units)
}

const (
	shownHours = 24             // of each chart: before now, and after
	keptHours  = 2 * shownHours // with those of the day before
	keptNewest = 2000           // entries
	rebuild    = time.Hour      // until an activity is read anew, for what no update sees
)

// activity is what one account's log says of the last two days. It is kept
// current by reading what is new.
type activity struct {
	account string
	builtAt time.Time // zero: it is to be read anew
	hours   hours
	newest  []quota.Entry // oldest first
}

// newActivity reads the newest entries, and the sums of the hours before them.
func newActivity(ctx context.Context, ledger quota.Log, account string, now time.Time) (*activity, error) {
	a := &activity{account: account, builtAt: now, hours: hours{}}
	for e, err := range ledger.Entries(ctx, quota.Query{Account: account, Newest: true}) {
		if err != nil {
			return nil, err
		}
		if a.newest = append(a.newest, e); len(a.newest) == keptNewest {
			break
		}
	}
	slices.Reverse(a.newest)
	cut := time.Time{}
	if len(a.newest) == keptNewest {
		cut = a.newest[0].At
	}
	for hour := hourOf(now) - keptHours + 1; time.Unix(hour*3600, 0).Before(cut); hour++ {
		query := quota.Query{Account: account, Since: time.Unix(hour*3600, 0), Until: time.Unix((hour+1)*3600, 0)}
		if query.Until.After(cut) {
			query.Until = cut
		}
		for sum, err := range ledger.Sums(ctx, query) {
			if err != nil {
				return nil, err
			}
			a.hours.add(hour, series{sum.Method, usage.JobOf(sum.Kind, sum.Caller), sum.Caller.Region}, sum.Units)
		}
	}
	for i := range a.newest {
		a.hours.addEntry(&a.newest[i], a.newest[i].Units)
	}
	return a, nil
}

// update reads the entries that are new, and those that may have been settled
// since. It reports whether the log goes on from what is known of it. An error
// leaves the activity as it was, so that the next update adds each entry once.
func (a *activity) update(ctx context.Context, ledger quota.Log, now time.Time) (goesOn bool, err error) {
	settled := max(0, len(a.newest)-quota.MaxSettle-1)
	open := a.newest[settled:] // those that can be settled, and one
	known := make(map[int64]*quota.Entry, len(open))
	query := quota.Query{Account: a.account}
	for i := range open {
		known[open[i].At.UnixMicro()] = &open[i]
		query.Since = open[0].At
	}
	entries, more := slices.Clone(a.newest[:settled]), hours{}
	for e, err := range ledger.Entries(ctx, query) {
		if err != nil {
			return true, err
		}
		added := e.Units
		if old := known[e.At.UnixMicro()]; old != nil && old.ID == e.ID {
			added -= old.Units
			delete(known, e.At.UnixMicro())
		}
		more.addEntry(&e, added)
		if entries = append(entries, e); len(entries) == 2*keptNewest {
			entries = append(entries[:0], entries[keptNewest:]...)
		}
	}
	if len(known) > 0 && len(known) == len(open) {
		return false, nil // it is another log: what was read may be counted already
	}
	a.newest = entries[max(0, len(entries)-keptNewest):]
	for hour, sums := range more {
		for s, units := range sums {
			a.hours.add(hour, s, units)
		}
	}
	for hour := range a.hours {
		if hour <= hourOf(now)-keptHours {
			delete(a.hours, hour)
		}
	}
	return len(known) == 0, nil
}

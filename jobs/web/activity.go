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
)

// activity is what one account's log says of the last two days. Each whole
// reading makes a new one, and updates keep it current until then.
type activity struct {
	account string
	builtAt time.Time // when the first one was made; zero: this one is wrong
	hours   hours
	newest  []quota.Entry // oldest first
}

// newActivity reads the newest entries, and the sums of the hours before them.
func newActivity(ctx context.Context, ledger quota.Log, account string, now time.Time) (*activity, error) {
	a := &activity{account: account, builtAt: now, hours: hours{}}
	for e, err := range ledger.Entries(ctx, quota.Query{Account: account, Newest: true, Limit: keptNewest}) {
		if err != nil {
			return nil, err
		}
		a.newest = append(a.newest, e)
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

// update reads the newest entries again, of which any may have been settled
// since, and those after them. What was settled before these is seen by the
// next whole reading. It reports whether the log goes on from what is known of
// it. An error leaves the activity as it was.
func (a *activity) update(ctx context.Context, ledger quota.Log, now time.Time) (goesOn bool, err error) {
	query := quota.Query{Account: a.account}
	if len(a.newest) > 0 {
		query.Since = a.newest[0].At
	}
	var entries []quota.Entry
	for e, err := range ledger.Entries(ctx, query) {
		if err != nil {
			return true, err
		}
		entries = append(entries, e)
	}
	goesOn = len(a.newest) == 0 || len(entries) > 0 && entries[0].ID == a.newest[0].ID
	for i := range a.newest {
		a.hours.addEntry(&a.newest[i], -a.newest[i].Units)
	}
	for i := range entries {
		a.hours.addEntry(&entries[i], entries[i].Units)
	}
	a.newest = slices.Clone(entries[max(0, len(entries)-keptNewest):])
	for hour := range a.hours {
		if hour <= hourOf(now)-keptHours {
			delete(a.hours, hour)
		}
	}
	return goesOn, nil
}

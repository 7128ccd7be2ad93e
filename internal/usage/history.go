// The history keeps the daily sums of what was spent and refused, which outlive
// a ledger's log: catalog.Catalog.History reads them.
//
// FillHistory reads the log and brings the sums up to date. Any process may
// call it, at any time and as often as it likes: the sums come out the same.
// What the log still holds is read anew, so that a call that was settled,
// refunded or restored late is corrected, within an hour if it is older than 48
// hours. What the log has dropped since the last Fill stays as it was read
// last. If the log drops entries between two Fills, these are missing: a log
// keeps entries for at least as long as its longest window, so one Fill in that
// time is enough.
//
// A day is that of the budget's zone if its window is a calendar window, and of
// UTC otherwise. The sums of a whole account are by days of UTC. Logs of keys
// have no history.

package usage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// attempts is how often Fill tries when other processes fill at the same time.
const attempts = 5

// FillHistory brings the history of all accounts up to date. It returns the
// ledger's or the catalogue's error.
func FillHistory(ctx context.Context, store *catalog.Catalog, guard *quota.Guard, accounts []string) error {
	balances, err := guard.Balances(ctx)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	for _, account := range accounts {
		f := &filler{store: store, guard: guard, account: account,
			retention: max(guard.Retention(account), engine.Retention(0))}
		for try := 1; ; try++ {
			err = f.fill(ctx, guard, balances)
			if !errors.Is(err, catalog.ErrMoved) || try == attempts {
				break
			}
		}
		if err != nil && !errors.Is(err, catalog.ErrMoved) { // else others have filled it just now
			return fmt.Errorf("history of %s: %w", account, err)
		}
	}
	return nil
}

// filler fills the history of one account.
type filler struct {
	store     *catalog.Catalog
	guard     *quota.Guard
	account   string
	retention time.Duration

	at     int64 // the ledger's time, in microseconds as all times here
	oldest int64 // the oldest entry; math.MaxInt64 if there is none
	until  int64 // the newest entry, and a microsecond
	series []*series

	peakEntries int // that were read for peaks
}

func (f *filler) fill(ctx context.Context, guard *quota.Guard, balances []quota.Balance) error {
	now, _, err := guard.Now(ctx, f.account)
	if err == nil {
		f.at, f.until = now.UnixMicro(), 0
		err = f.findOldest(ctx)
	}
	if err != nil {
		return err
	}
	f.series = []*series{{coverage: (&quota.Budget{}).Coverage(), days: quota.Window{}.Days(), zone: time.UTC}}
	for i := range balances {
		if b := &balances[i]; b.Budget.Account == f.account {
			w := b.Budget.Window
			f.series = append(f.series, &series{budget: b.Budget.Name, coverage: b.Coverage, window: w, days: w.Days(),
				zone: w.Zone()})
		}
	}
	for _, s := range f.series {
		s.sums, s.peaks = map[catalog.SumKey]catalog.SumAmount{}, map[int64]int64{}
		if s.before, err = f.store.ReadFill(ctx, f.account, s.budget); err != nil {
			return err
		}
		s.begin(f)
	}
	if err := f.readSums(ctx); err != nil {
		return err
	}
	return f.put(ctx)
}

// findOldest finds the oldest entry of the log.
func (f *filler) findOldest(ctx context.Context) error {
	f.oldest = math.MaxInt64
	for e, err := range f.guard.Entries(ctx, quota.Query{Account: f.account, Limit: 1}) {
		if err != nil {
			return err
		}
		f.oldest = e.At.UnixMicro()
	}
	return nil
}

// readSums adds up the log for all series, and what it has dropped since the
// last Fill as far as the host's copy of it goes back.
func (f *filler) readSums(ctx context.Context) error {
	since := int64(math.MaxInt64)
	for _, s := range f.series {
		since = min(since, s.from)
	}
	for e, err := range f.guard.Entries(ctx, quota.Query{Account: f.account, Since: time.UnixMicro(since),
		Past: true}) {
		if err != nil {
			return err
		}
		at := e.At.UnixMicro()
		f.until = max(f.until, at+1)
		labels := labelsOf(&e)
		for _, s := range f.series {
			if at >= s.from {
				s.add(&e, labels)
			}
		}
	}
	return nil
}

// maxPending is about how many sums one transaction writes: a Fill of more that
// is cut short keeps some, and the next one goes on.
const maxPending = 10_000

// put writes what has changed.
func (f *filler) put(ctx context.Context) error {
	var updates []catalog.FillUpdate
	pending := 0
	for _, s := range f.series {
		for k := range s.sums {
			s.peaks[k.Day] = 0
		}
		gone, err := s.leaveChanged(ctx, f)
		if err != nil {
			return err
		}
		until := max(f.until, s.before.Until)
		hasSums := len(s.sums) > 0 || len(gone) > 0 || s.fold != 0
		unchanged := !hasSums && until == s.before.Until
		if unchanged && (!s.whole || f.retention < recent) {
			continue
		}
		if err := s.findPeaks(ctx, f); err != nil {
			return err
		}
		u := catalog.FillUpdate{Account: f.account, Budget: s.budget, Before: s.before, Fold: s.fold, Sums: s.sums,
			Gone:  gone,
			After: catalog.Fill{Live: s.live, Until: until, Width: s.width, Whole: s.before.Whole}}
		if s.whole {
			u.After.Whole = f.at
		}
		for day, peak := range s.peaks {
			u.Days = append(u.Days, catalog.DayPeak{Day: day, Date: date(day, s.zone), Peak: peak})
		}
		updates = append(updates, u)
		if pending += len(u.Sums) + len(u.Gone); pending > maxPending {
			if err := f.store.PutFill(ctx, updates); err != nil {
				return err
			}
			updates, pending = nil, 0
		}
		s.sums = nil // which frees memory for the next
	}
	if len(updates) == 0 {
		return nil
	}
	return f.store.PutFill(ctx, updates)
}

// leaveChanged deletes the sums that are stored already, and returns the keys
// of those that are stored but no longer in the log. What is left of a slice
// that is folded now is new.
func (s *series) leaveChanged(ctx context.Context, f *filler) (gone []catalog.SumKey, err error) {
	err = f.store.LiveSums(ctx, f.account, s.budget, max(s.replaceFrom, s.fold),
		func(k catalog.SumKey, stored catalog.SumAmount) {
			switch amount, found := s.sums[k]; {
			case !found:
				gone = append(gone, k)
			case amount == stored:
				delete(s.sums, k)
			}
		})
	return gone, err
}

// date returns the date of a time in milliseconds.
func date(day int64, zone *time.Location) string {
	return time.UnixMilli(day).In(zone).Format(time.DateOnly)
}

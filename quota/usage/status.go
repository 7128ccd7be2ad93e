package usage

import (
	"context"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// BudgetStatus is the balance of a budget and who spent it.
type BudgetStatus struct {
	quota.Balance
	Attribution
	Drift
	Forecast
	// Returns lists when the next units become free, at most three times,
	// soonest first. It is empty for a Counter window, which frees units
	// gradually.
	Returns []Return
}

// Return says that Units more have become free by At than by the Return before.
type Return struct {
	At    time.Time   `json:"at"`
	Units quota.Units `json:"units"`
}

// maxReturns is the most returns that are listed.
const maxReturns = 3

// returnSpan is the time within which units that become free are one return, or
// a 60th of the window if that is shorter.
const returnSpan = time.Minute

// Status returns the state of every budget of a guard, in the guard's order.
func Status(ctx context.Context, guard *quota.Guard) ([]BudgetStatus, error) {
	balances, err := guard.Balances(ctx)
	if err != nil {
		return nil, err
	}
	statuses := make([]BudgetStatus, len(balances))
	accounts := map[string][]*BudgetStatus{}
	for i, b := range balances {
		statuses[i].Balance = b
		accounts[b.Budget.Account] = append(accounts[b.Budget.Account], &statuses[i])
	}
	for account, budgets := range accounts {
		log := &log{ledger: guard.Log(), account: account}
		if err := log.attribute(ctx, budgets); err != nil {
			return nil, err
		}
		oldest, err := (&LogReader{Ledger: guard.Log()}).edge(ctx, account, false)
		if err != nil {
			return nil, err
		}
		for _, s := range budgets {
			if err := log.forecast(ctx, s, oldest); err != nil {
				return nil, err
			}
			if s.Budget.Window.Kind() != quota.KindSliding {
				continue
			}
			if err := log.findReturns(ctx, s); err != nil {
				return nil, err
			}
		}
	}
	return statuses, nil
}

// attribute sets the Attribution, the Drift and, for calendar windows, the
// Returns of budgets. It splits the log wherever a window begins, so that it
// reads each part once.
func (l *log) attribute(ctx context.Context, budgets []*BudgetStatus) error {
	var splits []time.Time
	for _, s := range budgets {
		splits = append(splits, s.Since)
		if s.Budget.Window.Kind() == quota.KindCalendar {
			splits = append(splits, s.Budget.Window.Day(s.At).Next)
		}
	}
	slices.SortFunc(splits, time.Time.Compare)
	splits = slices.CompactFunc(splits, time.Time.Equal)
	for i, from := range splits {
		var until time.Time
		if i+1 < len(splits) {
			until = splits[i+1]
		}
		sums, err := l.read(ctx, from, until)
		if err != nil {
			return err
		}
		for n := range sums {
			for _, s := range budgets {
				if !from.Before(s.Since) {
					s.add(&sums[n])
				}
			}
		}
	}
	for _, s := range budgets {
		slices.SortFunc(s.Returns, func(x, y Return) int { return x.At.Compare(y.At) })
	}
	return nil
}

// add adds a sum of entries, all on the same side of a calendar window's Next.
func (s *BudgetStatus) add(sum *quota.Sum) {
	n := amount(s.Coverage, sum)
	if n == 0 {
		return
	}
	s.Attribution.add(sum, n)
	s.Drift.add(sum.Kind, n)
	if s.Budget.Window.Kind() == quota.KindCalendar {
		s.addReturn(returnsAt(s.Budget.Window, sum.First), n)
	}
}

// addReturn adds units that become free at a given time.
func (s *BudgetStatus) addReturn(at time.Time, units quota.Units) {
	i := slices.IndexFunc(s.Returns, func(r Return) bool { return r.At.Equal(at) })
	if i < 0 {
		s.Returns = append(s.Returns, Return{at, units})
		return
	}
	s.Returns[i].Units += units
}

// maxGap is how many entries in a row that do not count for a budget are read,
// before sums are used to find the next one that does.
const maxGap = 2000

// findReturns sets the Returns of a sliding window: the sums of the spans that
// begin with the first entry that counts, and with the first one after the last
// of them.
func (l *log) findReturns(ctx context.Context, s *BudgetStatus) error {
	span := min(returnSpan, s.Budget.Window.Length()/60)
	unread := quota.Units(0)
	for _, units := range s.ByMethod {
		unread += units
	}
	for from := s.Since; unread > 0 && len(s.Returns) < maxReturns; {
		first, err := l.firstCounted(ctx, s, from)
		if err != nil || first.IsZero() {
			return err
		}
		from = first.Add(span)
		sums, err := l.read(ctx, first, from)
		if err != nil {
			return err
		}
		r, last := Return{}, first
		for i := range sums {
			if n := amount(s.Coverage, &sums[i]); n > 0 {
				r.Units += n
				last = later(last, sums[i].Last)
			}
		}
		r.At = returnsAt(s.Budget.Window, last)
		s.Returns = append(s.Returns, r)
		unread -= r.Units
	}
	return nil
}

// firstCounted returns the timestamp of the first entry at or after from that
// counts for a budget, or the zero time if there is none.
func (l *log) firstCounted(ctx context.Context, s *BudgetStatus, from time.Time) (first time.Time, err error) {
	gap := 0
	for e, err := range l.from(ctx, from) {
		if err != nil {
			return first, err
		}
		if amount(s.Coverage, &quota.Sum{Method: e.Method, Caller: e.Caller, Units: e.Units, Calls: e.Calls}) > 0 {
			return e.At, nil
		}
		if gap++; gap == maxGap {
			break
		}
	}
	if gap < maxGap {
		return first, nil
	}
	sums, err := l.read(ctx, from, time.Time{})
	for i := range sums {
		if amount(s.Coverage, &sums[i]) > 0 && (first.IsZero() || sums[i].First.Before(first)) {
			first = sums[i].First
		}
	}
	return first, err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// returnsAt returns when an exact window no longer counts an entry with a given
// timestamp.
func returnsAt(window quota.Window, stamp time.Time) time.Time {
	if window.Kind() == quota.KindSliding {
		return stamp.Add(window.Length()).UTC()
	}
	day := window.Day(stamp)
	if stamp.Before(day.Next) {
		return day.Opens
	}
	return day.Reopens // it counts for both days
}

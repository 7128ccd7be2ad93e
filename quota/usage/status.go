package usage

import (
	"context"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Standing is one budget's balance, with who spent it.
type Standing struct {
	quota.Balance
	Attribution
	Drift
	// Returns is when the next units return, soonest first, at most three times.
	// An estimate, which frees its units little by little, has none.
	Returns []Return
}

// Return says that at At Units have returned, not counting those of the Return
// before it.
type Return struct {
	At    time.Time
	Units quota.Units
}

// maxReturns is how many returns are listed. Units that return within a minute of
// each other are one.
const maxReturns = 3

// Status returns how every budget of a guard stands, in the guard's order.
func Status(ctx context.Context, guard *quota.Guard) ([]Standing, error) {
	balances, err := guard.Balances(ctx)
	if err != nil {
		return nil, err
	}
	standings := make([]Standing, len(balances))
	accounts := map[string][]*Standing{}
	for i, b := range balances {
		standings[i].Balance = b
		accounts[b.Budget.Account] = append(accounts[b.Budget.Account], &standings[i])
	}
	for account, budgets := range accounts {
		log := &log{ledger: guard.Ledger(), account: account}
		if err := log.attribute(ctx, budgets); err != nil {
			return nil, err
		}
		for _, s := range budgets {
			if s.Budget.Window.Kind() != quota.KindSliding {
				continue
			}
			if err := log.findReturns(ctx, s); err != nil {
				return nil, err
			}
		}
	}
	return standings, nil
}

// since is when the budget's window begins; for an estimate, the oldest that its
// two counters can hold.
func (s *Standing) since() time.Time {
	if s.Since.IsZero() {
		return s.At.Add(-s.Budget.Window.Horizon())
	}
	return s.Since
}

// log is the log of an account.
type log struct {
	ledger  quota.Ledger
	account string
}

// attribute adds up the windows of budgets. It cuts the log at the times at
// which one of them begins, so that it reads every part once.
func (l *log) attribute(ctx context.Context, budgets []*Standing) error {
	var cuts []time.Time
	for _, s := range budgets {
		cuts = append(cuts, s.since())
		if s.Budget.Window.Kind() == quota.KindDaily {
			cuts = append(cuts, s.Budget.Window.Day(s.At).Next)
		}
	}
	slices.SortFunc(cuts, time.Time.Compare)
	cuts = slices.CompactFunc(cuts, time.Time.Equal)
	for i, from := range cuts {
		part := quota.Query{Account: l.account, Since: from}
		if i+1 < len(cuts) {
			part.Until = cuts[i+1]
		}
		for sum, err := range l.ledger.Sums(ctx, part) {
			if err != nil {
				return err
			}
			for _, s := range budgets {
				if !from.Before(s.since()) {
					s.add(&sum)
				}
			}
		}
	}
	for _, s := range budgets {
		slices.SortFunc(s.Returns, func(x, y Return) int { return x.At.Compare(y.At) })
	}
	return nil
}

// add attributes a sum of entries, all on the same side of a calendar window's Next.
func (s *Standing) add(sum *quota.Sum) {
	n := amount(s.Coverage, sum)
	if n == 0 {
		return
	}
	s.Attribution.add(sum.Method, sum.Caller, n)
	s.Drift.add(sum.Kind, n)
	if s.Budget.Window.Kind() == quota.KindDaily {
		s.addReturn(returnsAt(s.Budget.Window, sum.First), n)
	}
}

// addReturn adds units that return at a time.
func (s *Standing) addReturn(at time.Time, units quota.Units) {
	i := slices.IndexFunc(s.Returns, func(r Return) bool { return r.At.Equal(at) })
	if i < 0 {
		s.Returns = append(s.Returns, Return{at, units})
		return
	}
	s.Returns[i].Units += units
}

// maxGap is how many entries that a budget does not count are read before the
// next one that it does is looked up in sums.
const maxGap = 2000

// findReturns reads the oldest entries of a sliding window until the next
// returns are known.
func (l *log) findReturns(ctx context.Context, s *Standing) error {
	r := returns{Standing: s}
	for _, units := range s.ByMethod {
		r.left += units
	}
	from := s.since()
	for r.left > 0 {
		gap := 0
		for e, err := range l.ledger.Entries(ctx, quota.Query{Account: l.account, Since: from}) {
			if err != nil {
				return err
			}
			from = e.At
			n := amount(s.Coverage, &quota.Sum{Method: e.Method, Caller: e.Caller, Units: e.Units, Calls: e.Calls})
			if n > 0 && r.add(e.At, n) {
				return nil
			}
			if gap++; n > 0 {
				gap = 0
			}
			if gap == maxGap {
				break
			}
		}
		if gap < maxGap {
			return nil
		}
		first, err := l.firstCounted(ctx, s, from)
		if err != nil || first.IsZero() {
			return err
		}
		from = first
	}
	return nil
}

// firstCounted returns the stamp of the first entry from a time on that counts
// for a budget, and the zero time when there is none.
func (l *log) firstCounted(ctx context.Context, s *Standing, from time.Time) (first time.Time, err error) {
	for sum, err := range l.ledger.Sums(ctx, quota.Query{Account: l.account, Since: from}) {
		if err != nil {
			return first, err
		}
		if amount(s.Coverage, &sum) > 0 && (first.IsZero() || sum.First.Before(first)) {
			first = sum.First
		}
	}
	return first, nil
}

// returns finds the returns of a sliding window.
type returns struct {
	*Standing
	left  quota.Units // of what the window holds, not added yet
	began time.Time   // when the first units of the last return come back
}

// add adds an entry, and reports whether all returns are known.
func (r *returns) add(stamp time.Time, units quota.Units) (done bool) {
	at := returnsAt(r.Budget.Window, stamp)
	last := len(r.Returns) - 1
	switch {
	case last >= 0 && at.Sub(r.began) < time.Minute:
		r.Returns[last].At = at // by then all of them are back
		r.Returns[last].Units += units
	case len(r.Returns) == maxReturns:
		return true
	default:
		r.Returns, r.began = append(r.Returns, Return{at, units}), at
	}
	r.left -= units
	return r.left <= 0
}

// returnsAt returns when a window other than an estimate no longer counts what
// was stamped at a time.
func returnsAt(window quota.Window, stamp time.Time) time.Time {
	if window.Kind() == quota.KindSliding {
		return stamp.Add(window.Length()).UTC()
	}
	day := window.Day(stamp)
	if stamp.Before(day.Next) {
		return day.Opens
	}
	return day.Reopens // within the margin of a boundary it counts into both
}

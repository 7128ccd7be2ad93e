package usage

import (
	"cmp"
	"context"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Explanation says why a budget refused a call.
type Explanation struct {
	Window quota.Window // of the budget; invalid when the guard has no such budget
	Since  time.Time    // when the window began at the refusal
	Held   quota.Units  // what the ledger still holds of it; of an estimate, at most what counted
	Attribution
	Most Spender // who spent most of it; its Units are 0 when nothing is held

	// Short is how many units or calls were missing, and LimitNeeded the limit
	// with which the call would have fit. Both are 0 unless the budget was spent.
	Short       quota.Units
	LimitNeeded quota.Units
	// FloorsMattered reports whether the call would have fit without the floors
	// of other regions.
	FloorsMattered bool
}

// Spender is who spent how much: calls of one method for one region.
type Spender struct {
	Method, Region string
	Units          quota.Units
}

// Explain explains a refusal that was given at a time of the ledger's clock, from
// what the ledger holds now. With a nil guard it knows the refusal alone.
func Explain(ctx context.Context, guard *quota.Guard, refused *quota.RefusedError, at time.Time) (*Explanation, error) {
	e := &Explanation{}
	if guard != nil {
		balances, err := guard.Balances(ctx)
		if err != nil {
			return nil, err
		}
		for i := range balances {
			if b := &balances[i]; b.Budget.Account == refused.Account && b.Budget.Name == refused.Budget {
				err = e.read(ctx, guard.Ledger(), b, refused, at)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	e.solve(refused)
	return e, nil
}

// read adds up who had spent a budget's window at the time of the refusal.
func (e *Explanation) read(ctx context.Context, ledger quota.Ledger, b *quota.Balance, refused *quota.RefusedError, at time.Time) error {
	e.Window, e.Since = b.Budget.Window, at.Add(time.Microsecond-b.Budget.Window.Horizon())
	if e.Window.Kind() == quota.KindDaily {
		e.Since = e.Window.Day(at).Since
	}
	spent := map[Spender]quota.Units{}
	for sum, err := range ledger.Sums(ctx, quota.Query{Account: refused.Account, Since: e.Since, Until: at.Add(time.Microsecond)}) {
		if err != nil {
			return err
		}
		n := amount(b.Coverage, &sum)
		if n == 0 {
			continue
		}
		e.Held += n
		e.add(sum.Method, sum.Caller, n)
		region := sum.Caller.Region
		if b.Budget.Floor[region] == 0 || region == refused.Caller.Region { // less of a floor used is more kept
			spent[Spender{Method: name(sum.Method), Region: name(region)}] += n
		}
	}
	for who, units := range spent {
		who.Units = units
		if who.more(&e.Most) {
			e.Most = who
		}
	}
	return nil
}

// more reports whether s spent more than other, or comes first among equals.
func (s *Spender) more(other *Spender) bool {
	return cmp.Or(cmp.Compare(other.Units, s.Units), cmp.Compare(s.Method, other.Method), cmp.Compare(s.Region, other.Region)) < 0
}

// solve finds what would have had to be different.
func (e *Explanation) solve(refused *quota.RefusedError) {
	if refused.Reason != quota.ReasonSpent {
		return
	}
	e.Short = refused.Needed - refused.Remaining
	if refused.Remaining == 0 && !e.Window.Estimate() { // more than the limit may have been used
		e.Short = max(e.Short, e.Held+refused.Kept+refused.Needed-refused.Limit)
	}
	e.LimitNeeded = refused.Limit + e.Short
	e.FloorsMattered = refused.Kept > 0 && refused.Kept >= e.Short
}

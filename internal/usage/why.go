package usage

import (
	"context"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// Explanation says who had spent the window of a budget that refused a call.
type Explanation struct {
	Window quota.Window // the budget's window; invalid if the guard has no such budget
	Since  time.Time    // the beginning of the window at the time of the refusal
	Held   quota.Units  // what the ledger still holds of the window
	Attribution
	Most LargestCaller
}

// Explain explains a refusal that was given at a time on the ledger's clock,
// from what the ledger holds now.
func Explain(ctx context.Context, guard *quota.Guard, refused *quota.RefusedError, at time.Time) (*Explanation, error) {
	e := &Explanation{}
	balances, err := guard.Balances(ctx)
	if err != nil {
		return nil, err
	}
	for i := range balances {
		if b := &balances[i]; b.Budget.Account == refused.Account && b.Budget.Name == refused.Budget {
			err = e.read(ctx, guard, b, refused, at)
		}
	}
	return e, err
}

// read sets what e says about the window of a budget at the time of the
// refusal.
func (e *Explanation) read(ctx context.Context, guard *quota.Guard, b *quota.Balance, refused *quota.RefusedError,
	at time.Time) error {
	e.Window, e.Since = b.Budget.Window, at.Add(time.Microsecond-b.Budget.Horizon())
	if e.Window.Kind() == engine.Calendar {
		e.Since = e.Window.Day(at).Since
	}
	if e.Window.Kind() == engine.InFlight { // calls that have ended do not count
		return nil
	}
	key := ""
	if b.Budget.PerKey {
		key = refused.Key
	}
	spent := spenders{}
	for sum, err := range guard.Sums(ctx, quota.Query{Account: refused.Account, Key: key, Since: e.Since,
		Until: at.Add(time.Microsecond)}) {
		if err != nil {
			return err
		}
		n := amount(b.Coverage, sum.Method, sum.Caller, sum.Amounts())
		isOther := b.Budget.PerKey && sum.OfKeys != (key != "")
		if isOther || n == 0 {
			continue
		}
		e.Held += n
		e.add(&quota.Entry{Kind: sum.Kind, Method: sum.Method, Caller: sum.Caller, Host: sum.Host}, n)
		region := sum.Caller.Region
		// had it not used its floor, more would be reserved
		if b.Budget.Floor[region] == 0 || region == refused.Caller.Region {
			spent.add(sum.Kind, sum.Caller, "", n)
		}
	}
	e.Most = spent.largest()
	return nil
}

package quota

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// Balance is the state of one budget.
type Balance struct {
	Budget    Budget
	Key       string           // whose balance it is; empty for that of calls without a key
	Coverage  *engine.Coverage // which entries count; see Budget.CoverageAmong
	At        time.Time        // the present time on the ledger's clock
	Since     time.Time        // entries with this timestamp or a later one count
	Used      Units            // may exceed the limit if a call cost more than its price
	Open      Units            // the part of Used that calls in flight may give back: see Call.Lease
	Remaining Units            // never negative; a part may be reserved by Floors
	NextFree  time.Time        // when the next units become free; zero if none are used
	Cooldown  *Cooldown        // the cooldown in force, or nil
	Moved     *MovedError      // why the account is closed, or nil
	Floors    []FloorBalance   // sorted by region
	Ahead     time.Duration    // how far the log's newest timestamp is ahead of At; 0 if that is at most two minutes

	// StricterLimit is a limit lower than Budget's that holds because another
	// configuration has asked it within a day, or 0. LimitUntil is when it
	// ends, unless it is asked again.
	StricterLimit Units
	LimitUntil    time.Time
}

// Limit returns the limit that holds.
func (b *Balance) Limit() Units { return cmp.Or(b.StricterLimit, b.Budget.Limit) }

// FloorBalance is the state of one region's floor.
type FloorBalance struct {
	Region string
	Floor  Units
	Used   Units // by calls of the region; may exceed Floor
	Kept   Units // the part of Remaining reserved for the region; 0 after Budget.FloorUntil
}

// Balances returns the balances of all budgets, in the order in which they were
// passed to NewGuard. The budgets of one account are read at one time. Calls
// with a Key are not included; see TopKeys.
func (g *Guard) Balances(ctx context.Context) ([]Balance, error) {
	balances := make([]Balance, len(g.budgets))
	for account, budgets := range g.accounts {
		ofAccount, err := g.AccountBalances(ctx, account)
		if err != nil {
			return nil, err
		}
		for i, b := range budgets {
			balances[b.index] = ofAccount[i]
		}
	}
	return balances, nil
}

// AccountBalances returns the balances of one account's budgets, in the order
// in which they were passed to NewGuard, read at one time. Otherwise it is
// like Balances.
func (g *Guard) AccountBalances(ctx context.Context, account string) ([]Balance, error) {
	budgets := g.accounts[account]
	if len(budgets) == 0 {
		return nil, nil
	}
	states, err := g.states(ctx, account, "", chargesOf(budgets))
	if err != nil {
		return nil, opError("balances of "+account, err)
	}
	balances := make([]Balance, len(budgets))
	for i, b := range budgets {
		balances[i] = b.balance("", &states[i])
	}
	return balances, nil
}

// state is what the window of a charge holds at a time.
type state struct {
	engine.Held
	at       time.Time
	ahead    time.Duration
	moved    *MovedError
	cooldown *Cooldown
	floors   []FloorBalance
}

// states returns the states of charges on one log, all at one time.
func (g *Guard) states(ctx context.Context, account, key string, charges []*charge) (states []state, err error) {
	err = g.Account(account).View(ctx, func(v *engine.View) {
		for _, c := range charges {
			s := state{Held: v.Held(c.engine, key), at: ledgerTime(v.Now()), ahead: micros(v.Ahead()),
				moved: moveOf(account, v.Moved()), cooldown: cooldownIn(v, account, c.Name, key)}
			hasFloors := c.FloorUntil == 0 || s.at.Before(c.Window.Day(s.at).Next.Add(-c.FloorUntil))
			for _, floor := range c.floors {
				b := FloorBalance{Region: floor.coverage.Regions[0], Floor: floor.units,
					Used: Units(v.Held(floor.engine, key).Used)}
				if hasFloors {
					b.Kept = max(0, b.Floor-b.Used)
				}
				s.floors = append(s.floors, b)
			}
			states = append(states, s)
		}
	})
	return states, err
}

// state returns the state of a charge, for calls with a key.
func (g *Guard) state(ctx context.Context, c *charge, key string) (*state, error) {
	states, err := g.states(ctx, c.Account, key, []*charge{c})
	if err != nil {
		return nil, err
	}
	return &states[0], nil
}

// balance returns the balance of a charge in a state, for calls with a key.
func (c *charge) balance(key string, s *state) Balance {
	b := Balance{Budget: *c.Budget, Key: c.keyOf(key), Coverage: c.coverage, At: s.at, Used: Units(s.Used),
		Open:     Units(s.Open),
		NextFree: ledgerTime(s.NextAt), Cooldown: s.cooldown, Moved: s.moved, Floors: s.floors, Ahead: s.ahead}
	b.Budget.Limit = c.LimitOf(key)
	b.Since = c.Window.Since(s.at, b.Budget.Limit)
	if s.Until != 0 {
		b.StricterLimit, b.LimitUntil = Units(s.Limit), ledgerTime(s.Until)
	}
	b.Remaining = max(0, b.Limit()-b.Used)
	return b
}

// Probe checks whether call would be granted now, without charging it. It
// returns nil or the error that Spend would return.
func (g *Guard) Probe(ctx context.Context, call Call) error {
	refusals, err := g.ProbeAll(ctx, call)
	if err != nil || len(refusals) == 0 {
		return err
	}
	if refusals[0].moved != nil {
		return refusals[0].orMoved()
	}
	return slices.MaxFunc(refusals, func(x, y *RefusedError) int { return x.RetryAt.Compare(y.RetryAt) })
}

// ProbeAll is Probe, and returns the refusals of all cooldowns and budgets that
// refuse call, each until call would fit that. For an account that has moved,
// that is one with a Moved. It returns an error if waiting does not help
// otherwise, or if nothing is known.
func (g *Guard) ProbeAll(ctx context.Context, call Call) (refusals []*RefusedError, err error) {
	r := g.request(ctx, call, 1)
	if err := r.check(); err != nil {
		return nil, err
	}
	var others []error
	err = g.Account(r.Account).View(ctx, func(v *engine.View) {
		for _, no := range v.Refusals(g.engineRequest(r)) {
			if no.Moved != nil {
				refusals = append(refusals, moveOf(r.Account, *no.Moved).refusal(&r.Call, ledgerTime(v.Now())))
				continue
			}
			err := r.refusal(no, v.Now())
			if refused, ok := errors.AsType[*RefusedError](err); ok {
				refusals = append(refusals, refused)
			} else {
				others = append(others, err)
			}
		}
	})
	switch {
	case err != nil:
		return nil, opError("probe "+call.Method, err)
	case len(others) > 0:
		return nil, others[0]
	}
	slices.SortStableFunc(refusals, func(x, y *RefusedError) int { return cmp.Compare(x.Reason, y.Reason) })
	return refusals, nil
}

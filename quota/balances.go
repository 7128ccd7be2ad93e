package quota

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// Balance is the state of one budget.
type Balance struct {
	Budget    Budget
	Coverage  *Coverage      // which entries count; see Budget.CoverageAmong
	At        time.Time      // the present time on the ledger's clock
	Since     time.Time      // entries with this timestamp or a later one count
	Used      Units          // may exceed the limit if a call cost more than its price
	Open      Units          // the part of Used that calls in flight may give back: see Call.Lease
	Remaining Units          // never negative; a part may be reserved by Floors
	NextFree  time.Time      // when the next units become free; zero if none are used
	Cooldown  *Cooldown      // the cooldown in force, or nil
	Moved     *Move          // why the account is closed, or nil
	Floors    []FloorBalance // sorted by region
	Ahead     time.Duration  // how far the log's newest timestamp is ahead of At; 0 if that is at most two minutes

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
	charges := make([]*Charge, len(budgets))
	for i, b := range budgets {
		charges[i] = b.charge
	}
	states, err := g.states(ctx, account, "", charges)
	if err != nil {
		return nil, opError("balances of "+account, err)
	}
	balances := make([]Balance, len(budgets))
	for i, b := range budgets {
		balances[i] = g.balance(&b, "", &states[i].WindowUsage)
		balances[i].Floors = states[i].floors
	}
	return balances, nil
}

// balance returns the balance of a budget with a given standing, for calls with
// a key.
func (g *Guard) balance(b *chargedBudget, key string, s *WindowUsage) Balance {
	budget := g.budgets[b.index]
	budget.Limit = budget.LimitOf(key)
	return Balance{Budget: budget, Coverage: b.charge.Coverage, At: s.At,
		Since: s.Since, Used: s.Used, Open: s.Open,
		Remaining: max(0, cmp.Or(s.Limit, budget.Limit)-s.Used), NextFree: s.NextFree, Cooldown: s.Cooldown,
		Moved: s.Moved,
		Ahead: s.Ahead, StricterLimit: s.Limit, LimitUntil: s.LimitUntil}
}

// chargeState is the standing of a charge and of its floors.
type chargeState struct {
	WindowUsage
	floors []FloorBalance
}

// states returns the states of charges on one log, all at one time.
func (g *Guard) states(ctx context.Context, account, key string, charges []*Charge) ([]chargeState, error) {
	var queries []*Charge // each charge, followed by its floors
	for _, c := range charges {
		queries = append(queries, c)
		for _, floor := range c.Floors {
			queries = append(queries, &Charge{Budget: c.Budget, Coverage: floor.Coverage, Limit: c.Limit,
				Window: c.Window})
		}
	}
	standings, err := g.log.WindowUsages(ctx, account, key, queries)
	if err != nil {
		return nil, err
	}
	states := make([]chargeState, len(charges))
	for i, c := range charges {
		states[i] = chargeState{standings[0], c.floorBalances(standings[1:])}
		standings = standings[1+len(c.Floors):]
	}
	return states, nil
}

// floorBalances returns the balances of a charge's floors with given standings.
func (c *Charge) floorBalances(standings []WindowUsage) []FloorBalance {
	var balances []FloorBalance
	for i, floor := range c.Floors {
		s := standings[i]
		b := FloorBalance{Region: floor.Coverage.Regions[0], Floor: floor.Units, Used: s.Used}
		if c.FloorUntil == 0 || s.At.Before(c.Window.Day(s.At).Next.Add(-c.FloorUntil)) {
			b.Kept = max(0, b.Floor-b.Used)
		}
		balances = append(balances, b)
	}
	return balances
}

// Probe checks whether call would be granted now, without charging it. It
// returns nil or the error that Spend would return.
func (g *Guard) Probe(ctx context.Context, call Call) error {
	refusals, err := g.ProbeAll(ctx, call)
	if err != nil || len(refusals) == 0 {
		return err
	}
	if moved := refusals[0].move; moved != nil {
		return moved.orError(refusals[0])
	}
	return slices.MaxFunc(refusals, func(x, y *RefusedError) int { return x.RetryAt.Compare(y.RetryAt) })
}

// ProbeAll is Probe, and returns the refusals of all cooldowns and budgets that
// refuse call, each until call would fit that. For an account that has moved,
// that is one with a Move. It returns an error if waiting does not help
// otherwise, or if nothing is known.
func (g *Guard) ProbeAll(ctx context.Context, call Call) (refusals []*RefusedError, err error) {
	call.Caller = call.Caller.or(CallerFrom(ctx))
	request := requestOf(&call, g.chargesFor(&call).charges, 1)
	if err := request.Check(call.Account, call.Key); err != nil {
		return nil, err
	}
	found, err := g.log.probe(ctx, &Batch{Account: call.Account, Key: call.Key}, &request)
	if err != nil {
		return nil, opError("probe "+call.Method, err)
	}
	for _, err := range found {
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok {
			return nil, err
		}
		refusals = append(refusals, refused)
	}
	slices.SortStableFunc(refusals, func(x, y *RefusedError) int { return cmp.Compare(x.Reason, y.Reason) })
	return refusals, nil
}

// setAmounts sets what a refusal says about the charge that refuses the call.
func (e *RefusedError) setAmounts(call *Call, c *Charge, s *chargeState) {
	request := requestOf(call, nil, 1)
	e.Measure, e.Needed = c.Coverage.Measure, request.needs(c)
	e.Limit, e.Used = c.limitOf(call.Key), s.Used
	if s.Limit > 0 {
		e.Limit = s.Limit
		e.ConfiguredLimit = c.limitOf(call.Key)
		e.LimitUntil = s.LimitUntil
	}
	for _, floor := range s.floors {
		e.Kept += floor.Kept
	}
	e.Remaining = max(0, e.Limit-s.Used-e.Kept)
}

package quota

import (
	"context"
	"time"
)

// Balance is the state of one budget.
type Balance struct {
	Budget    Budget
	Coverage  *Coverage      // which entries count; see Coverages
	At        time.Time      // the present time on the ledger's clock
	Since     time.Time      // entries with this timestamp or a later one count; zero for a Counter window
	Used      Units          // may exceed the limit if a call cost more than its price
	Over      Units          // for a Counter window, by how much Used may be too low
	Remaining Units          // never negative; a part may be reserved by Floors
	NextFree  time.Time      // when the next units become free; zero if none are used
	Cooldown  *Cooldown      // the cooldown in force, or nil
	Floors    []FloorBalance // sorted by region
	Ahead     time.Duration  // how far the log's newest timestamp is ahead of At; 0 if that is at most MaxStepBack; see Guard.Restamp
}

// FloorBalance is the state of one region's floor.
type FloorBalance struct {
	Region string
	Floor  Units
	Used   Units // by calls of the region; may exceed Floor
	Kept   Units // the part of Remaining reserved for the region; 0 after Budget.FloorUntil
}

// Balances returns the balances of all budgets, in the order in which they were
// passed to NewGuard. The budgets of one account are read at one time. Calls
// with a Key are not included; see FullestKeys.
func (g *Guard) Balances(ctx context.Context) ([]Balance, error) {
	balances := make([]Balance, len(g.budgets))
	for account, budgets := range g.accounts {
		charges := make([]*Charge, len(budgets))
		for i, b := range budgets {
			charges[i] = b.charge
		}
		states, err := g.states(ctx, account, "", charges)
		if err != nil {
			return nil, opError("balances of "+account, err)
		}
		for i, b := range budgets {
			balance := g.balance(&b, &states[i].Standing)
			balance.Floors = states[i].floors
			balances[b.budget] = balance
		}
	}
	return balances, nil
}

// balance returns what a standing says of a budget.
func (g *Guard) balance(b *guarded, s *Standing) Balance {
	budget := g.budgets[b.budget]
	return Balance{Budget: budget, Coverage: b.charge.Coverage, At: s.At, Since: s.Since, Used: s.Used, Over: s.Over,
		Remaining: max(0, budget.Limit-s.Used), NextFree: s.NextFree, Cooldown: s.Cooldown, Ahead: s.Ahead}
}

// chargeState is how one charge and its floors stand.
type chargeState struct {
	Standing
	floors []FloorBalance
}

// states reads how charges and their floors stand in one log, at one time.
func (g *Guard) states(ctx context.Context, account, key string, charges []*Charge) ([]chargeState, error) {
	var questions []*Charge // each charge, and behind it its floors
	for _, c := range charges {
		questions = append(questions, c)
		for _, floor := range c.Floors {
			questions = append(questions, &Charge{Budget: c.Budget, Coverage: floor.Coverage, Limit: c.Limit, Window: c.Window})
		}
	}
	standings, err := g.ledger.Standings(ctx, account, key, questions)
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

// floorBalances returns what the standings of a charge's floors say.
func (c *Charge) floorBalances(standings []Standing) []FloorBalance {
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
// returns nil or the error that Spend would return, with two differences: if
// several budgets refuse the call, the *RefusedError names the first, and its
// RetryAt is when the next units become free, which may be too few.
func (g *Guard) Probe(ctx context.Context, call Call) error {
	call.Caller = call.Caller.or(CallerFrom(ctx))
	charges := g.plan(&call).charges
	request := Request{Method: call.Method, Units: call.Units, Caller: call.Caller, Charges: charges}
	if err := request.Check(call.Account); err != nil {
		return err
	}
	whole := &Charge{Coverage: NewCoverage(Coverage{}), Limit: MaxLimit, Window: Sliding(time.Minute)} // of the account, for its cooldown
	charges = append([]*Charge{whole}, charges...)
	states, err := g.states(ctx, call.Account, call.Key, charges)
	if err != nil {
		return opError("probe "+call.Method, err)
	}
	for i, c := range charges {
		if refused := c.refuse(&call, &states[i]); refused != nil {
			return refused
		}
	}
	return nil
}

// refuse returns why a charge would refuse a call, or nil.
func (c *Charge) refuse(call *Call, s *chargeState) error {
	r := &RefusedError{Account: call.Account, Key: call.Key, Budget: c.Budget, Method: call.Method, Units: call.Units, Caller: call.Caller, Reason: ReasonSpent,
		Measure: c.Coverage.Measure, Limit: c.Limit, Used: s.Used, Needed: c.Coverage.Amount(call.Units), RetryAt: s.NextFree, Ahead: s.Ahead}
	for _, floor := range s.floors {
		r.Kept += floor.Kept
	}
	r.Remaining = max(0, c.Limit-s.Used-r.Kept)
	switch cooldown := s.Cooldown; {
	case cooldown != nil:
		r.Reason, r.Detail, r.RetryAt = ReasonCooldown, cooldown.Reason, cooldown.Until
		if r.Budget = cooldown.Budget; r.Budget == "" {
			r.Limit, r.Used, r.Remaining, r.Kept = 0, 0, 0, 0
		}
	case r.Needed <= r.Remaining:
		return nil
	}
	r.RetryAfter = max(0, r.RetryAt.Sub(s.At))
	return r
}

// Now returns the time on the ledger's clock. ahead is how far the newest
// timestamp in the account's log is ahead of it, or 0 if that is at most
// MaxStepBack; see Restamp.
func (g *Guard) Now(ctx context.Context, account string) (now time.Time, ahead time.Duration, err error) {
	standings, err := g.heldBy(ctx, account, "")
	if err != nil {
		return now, 0, opError("time of "+account, err)
	}
	return standings[0].At, standings[0].Ahead, nil
}

// Cooldowns returns the cooldowns of an account that are in force, and the time
// on the ledger's clock. The first is that of the whole account, if any; those
// of its budgets follow in the guard's order, except those that end before that
// of the account.
func (g *Guard) Cooldowns(ctx context.Context, account string) (now time.Time, cooldowns []Cooldown, err error) {
	names := []string{""}
	for _, b := range g.accounts[account] {
		names = append(names, b.charge.Budget)
	}
	standings, err := g.heldBy(ctx, account, names...)
	if err != nil {
		return now, nil, opError("cooldowns of "+account, err)
	}
	for i, s := range standings {
		if s.Cooldown != nil && s.Cooldown.Budget == names[i] {
			cooldowns = append(cooldowns, *s.Cooldown)
		}
	}
	return standings[0].At, cooldowns, nil
}

// heldBy asks which cooldowns hold budgets of an account; the empty name is the
// account itself. Of a budget's own and its account's it is the later one.
func (g *Guard) heldBy(ctx context.Context, account string, budgets ...string) ([]Standing, error) {
	everything := NewCoverage(Coverage{})
	charges := make([]*Charge, len(budgets))
	for i, name := range budgets {
		charges[i] = &Charge{Budget: name, Coverage: everything, Limit: 1, Window: Sliding(time.Minute)}
	}
	return g.ledger.Standings(ctx, account, "", charges)
}

package plan

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// player simulates a demand.
type player struct {
	*demand
	report  *Report
	now     int64 // the ledger's clock
	spent   int64 // number of calls spent
	guard   *quota.Guard
	fetched []int64           // when each region's last call was granted
	budgets map[[2]string]int // index by account and name
	used    []float64         // by budget: sum of amount times the microseconds that it counts
}

func (p *player) play(ctx context.Context) error {
	open := p.in.Open
	if open == nil {
		open = func(now func() time.Time) quota.Ledger { return memledger.Open(&memledger.Options{Now: now}) }
	}
	ledger := open(func() time.Time { return fromMicros(p.now) })
	defer ledger.Close()
	guard, err := quota.NewGuard(ledger, p.in.Budgets, nil)
	if err != nil {
		return err
	}
	p.guard = guard
	p.fetched = make([]int64, len(p.regions))
	p.used = make([]float64, len(p.in.Budgets))
	p.budgets = map[[2]string]int{}
	for i := range p.in.Budgets {
		p.budgets[[2]string{p.in.Budgets[i].Account, p.in.Budgets[i].Name}] = i
	}
	if err := p.restoreState(ctx); err != nil {
		return err
	}
	for i := 0; i < len(p.ticks); {
		n := i + 1
		for n < len(p.ticks) && p.ticks[n].at == p.ticks[i].at {
			n++
		}
		if err := p.playTogether(ctx, p.ticks[i:n]); err != nil {
			return err
		}
		i = n
	}
	p.setUnused()
	return nil
}

// restoreState copies p.in.State to the simulation's ledger, each entry at its
// own timestamp.
func (p *player) restoreState(ctx context.Context) error {
	for account, entries := range p.in.State.Entries {
		for i := range entries {
			e := &entries[i]
			p.now = e.At.UnixMicro()
			held := quota.Call{Account: account, Key: e.Key, Method: e.Method, Units: e.Units, Caller: e.Caller}
			// none is in flight any more
			if err := p.guard.Note(ctx, quota.Note{Call: held, Calls: e.Calls}); err != nil {
				return err
			}
			for region := range p.regions {
				if p.regions[region].region == e.Caller.Region {
					p.fetched[region] = max(p.fetched[region], p.now)
				}
			}
		}
	}
	p.now = p.from
	for _, cooldown := range p.in.State.Cooldowns {
		if err := p.guard.Cool(ctx, cooldown); err != nil {
			return err
		}
	}
	for _, move := range p.in.State.Moves {
		closed := quota.Cooldown{Account: move.Account, Until: p.in.To, Reason: move.Short()}
		if err := p.guard.Cool(ctx, closed); err != nil {
			return err
		}
	}
	return nil
}

// playTogether plays ticks that come at the same time. Like a jobs.Runner, it
// begins with the region that was fetched longest ago.
func (p *player) playTogether(ctx context.Context, ticks []tick) error {
	order := slices.Clone(ticks)
	slices.SortStableFunc(order, func(a, b tick) int { return int(p.fetched[a.region] - p.fetched[b.region]) })
	for _, t := range order {
		if err := p.playTick(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// playTick plays one tick. After a refused call it continues with the
// next step.
func (p *player) playTick(ctx context.Context, t tick) error {
	demand, region := &p.regions[t.region], &p.report.Regions[t.region]
	played := TickResult{At: fromMicros(t.at), Region: demand.region}
	for i := range demand.steps {
		if err := p.playStep(ctx, t, &demand.steps[i], &played); err != nil {
			return err
		}
	}
	if region.Refused += played.Refused; played.Refused > 0 {
		region.Hit++
		p.report.Fits = false
	}
	p.report.TickResults = append(p.report.TickResults, played)
	return nil
}

// playStep spends the calls of one step, up to the first that is refused.
func (p *player) playStep(ctx context.Context, t tick, s *stepDemand, played *TickResult) error {
	calls, units := s.pages*s.calls, quota.Units(s.pages)*s.units // that are left
	for range s.pages {
		for i := range s.page {
			c := &s.page[i]
			for range c.most {
				// Timestamps increase strictly, as in any ledger, and every
				// call is later than what leaves its window at this tick.
				p.now = t.at + p.spent
				p.spent++
				grant, err := p.guard.Spend(ctx, c.Call)
				refused, ok := errors.AsType[*quota.RefusedError](err)
				if never, isNever := errors.AsType[*quota.NeverFitsError](err); isNever && p.in.trying {
					refused, ok = &quota.RefusedError{Account: never.Account, Budget: never.Budget, Caller: c.Caller},
						true
				}
				if ok {
					played.Refused += calls
					p.report.Regions[t.region].RefusedUnits += units
					p.recordRefusal(t, refused, calls)
					return nil
				}
				if err != nil {
					return err
				}
				if err := grant.End(ctx); err != nil {
					return err
				}
				calls--
				units -= c.Units
				played.Calls++
				played.Units += c.Units
				p.fetched[t.region] = p.now
				p.countUse(t.at, c.weights)
			}
		}
	}
	return nil
}

// countUse adds a call that was granted at the given time to what is used.
func (p *player) countUse(at int64, weights []int64) {
	for i, weight := range weights {
		if weight > 0 {
			p.used[i] += float64(weight) * p.countedTime(i, at)
		}
	}
}

func (p *player) recordRefusal(t tick, err *quota.RefusedError, calls int) {
	at, region := fromMicros(t.at), &p.regions[t.region]
	first := &Refusal{At: at, Local: at.In(region.zone), Region: region.region, Step: err.Caller.Job, Err: err}
	if report := &p.report.Regions[t.region]; report.First == nil {
		report.First = first
	}
	if p.report.First == nil {
		p.report.First = first
	}
	if i, ok := p.budgets[[2]string{err.Account, err.Budget}]; ok { // not an account's cooldown
		b := &p.report.Budgets[i]
		if b.Refused == 0 {
			b.First = at
		}
		b.Refused += calls
	}
}

// countedTime returns for how many microseconds of the plan a charge at the
// given time counts for a budget.
func (p *player) countedTime(budget int, at int64) float64 {
	l := p.report.Budgets[budget].load
	end := at + l.budget.Window.Length().Microseconds()
	switch l.budget.Window.Kind() {
	case engine.Bucket:
		end = at + l.budget.Window.UnitTime().Microseconds() // per unit, one after the other
	case engine.Calendar:
		d := l.day(at)
		if at >= d.next { // in the margin: it counts for the next day too
			d = l.day(d.opens)
		}
		end = d.opens
	}
	return float64(max(0, min(end, p.to)-max(at, p.from)))
}

// setUnused sets UnusedMean of every budget.
func (p *player) setUnused() {
	for i := range p.report.Budgets {
		b := &p.report.Budgets[i]
		held := &b.load.held
		for j, at := range held.at {
			p.used[i] += float64(held.total[j+1]-held.total[j]) * p.countedTime(i, at)
		}
		mean := quota.Units(p.used[i]/float64(p.to-p.from) + 0.5)
		b.UnusedMean = max(0, b.Budget.Limit-mean)
	}
}

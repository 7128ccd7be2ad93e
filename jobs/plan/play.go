package plan

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// player spends what a demand asks for.
type player struct {
	*demand
	report  *Report
	now     int64 // the ledger's clock
	spent   int64 // calls
	guard   *quota.Guard
	fetched []int64 // when each region's last call was granted
	budgets map[[2]string]int
	used    []float64 // by budget: what is used, times for how long
}

func (p *player) play(ctx context.Context) error {
	ledger := p.in.Open(func() time.Time { return instant(p.now) })
	defer ledger.Close()
	guard, err := quota.NewGuard(ledger, p.in.Budgets, nil)
	if err != nil {
		return err
	}
	p.guard, p.fetched, p.used = guard, make([]int64, len(p.passes)), make([]float64, len(p.in.Budgets))
	p.budgets = map[[2]string]int{}
	for i := range p.in.Budgets {
		p.budgets[[2]string{p.in.Budgets[i].Account, p.in.Budgets[i].Name}] = i
	}
	if err := p.replay(ctx, ledger); err != nil {
		return err
	}
	for i := 0; i < len(p.ticks); {
		n := i + 1
		for n < len(p.ticks) && p.ticks[n].at == p.ticks[i].at {
			n++
		}
		if err := p.instant(ctx, p.ticks[i:n]); err != nil {
			return err
		}
		i = n
	}
	p.means()
	return nil
}

// replay enters what the ledger holds into the one that is played on, each
// entry at its own stamp.
func (p *player) replay(ctx context.Context, ledger quota.Ledger) error {
	for account, entries := range p.in.State.Entries {
		var charges []*quota.Charge // so that the ledger keeps as much as their windows see
		for i := range p.in.Budgets {
			if b := &p.in.Budgets[i]; b.Account == account {
				charges = append(charges, &quota.Charge{Budget: b.Name, Coverage: b.Coverage(), Limit: b.Limit, Window: b.Window})
			}
		}
		for i := range entries {
			e := &entries[i]
			p.now = e.At.UnixMicro()
			request := quota.Request{Method: e.Method, Units: e.Units, Caller: e.Caller, Charges: charges, Force: true}
			if e.Kind != quota.EntryCall || e.Calls == 0 {
				request.Kind, request.Calls = quota.EntryNote, e.Calls
			}
			answers, err := ledger.Spend(ctx, &quota.Batch{Account: account, Requests: []quota.Request{request}})
			if err != nil {
				return err
			}
			if err := answers[0].Err; err != nil {
				return err
			}
			for region := range p.passes {
				if p.passes[region].region == e.Caller.Region {
					p.fetched[region] = max(p.fetched[region], p.now)
				}
			}
		}
	}
	p.now = p.from
	for _, cooldown := range p.in.State.Cooldowns {
		if err := ledger.SetCooldown(ctx, cooldown); err != nil {
			return err
		}
	}
	return nil
}

// instant plays the ticks of one instant, the longest-unfetched region first,
// as a jobs.Runner does.
func (p *player) instant(ctx context.Context, ticks []tick) error {
	order := slices.Clone(ticks)
	slices.SortStableFunc(order, func(a, b tick) int { return int(p.fetched[a.region] - p.fetched[b.region]) })
	for _, t := range order {
		if err := p.pass(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// pass plays one tick. A refused step does not keep the others from going on.
func (p *player) pass(ctx context.Context, t tick) error {
	pass, region := &p.passes[t.region], &p.report.Regions[t.region]
	played := Played{At: instant(t.at), Region: pass.region}
	for i := range pass.steps {
		s := &pass.steps[i]
		for page := range s.pages {
			// Each call a microsecond after the one before, as a ledger stamps them, and by that much
			// later than all that leaves its window at this tick.
			p.now = t.at + p.spent
			p.spent++
			_, err := p.guard.Spend(ctx, s.call)
			if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
				left := s.pages - page
				played.Refused += left
				region.RefusedUnits += quota.Units(left) * s.call.Units
				p.refused(t, s, refused, left)
				break
			}
			if err != nil {
				return err
			}
			played.Calls++
			played.Units += s.call.Units
			p.fetched[t.region] = p.now
			p.use(t.at, s)
		}
	}
	if region.Refused += played.Refused; played.Refused > 0 {
		region.Hit++
		p.report.Fits = false
	}
	p.report.Plays = append(p.report.Plays, played)
	return nil
}

func (p *player) refused(t tick, s *step, err *quota.RefusedError, calls int) {
	at := instant(t.at)
	first := &Refusal{At: at, Local: at.In(p.passes[t.region].zone), Region: p.passes[t.region].region, Step: s.call.Caller.Job, Err: err}
	if region := &p.report.Regions[t.region]; region.First == nil {
		region.First = first
	}
	if p.report.First == nil {
		p.report.First = first
	}
	if i, ok := p.budgets[[2]string{err.Account, err.Budget}]; ok { // a cooldown of the account is no budget's
		p.report.Budgets[i].Refused += calls
	}
}

// use adds a granted call to what is used over time.
func (p *player) use(at int64, s *step) {
	for i := range p.in.Budgets {
		b := &p.in.Budgets[i]
		if coverage := p.report.Budgets[i].coverage; b.Account == s.call.Account && coverage.Covers(s.call.Method, s.call.Caller) {
			p.used[i] += float64(coverage.Amount(s.call.Units)) * p.counts(i, at)
		}
	}
}

// counts returns for how long of the time that is played what is spent at an
// instant counts for a budget.
func (p *player) counts(budget int, at int64) float64 {
	q := p.report.Budgets[budget].question
	w := q.budget.Window
	ends := at + w.Length().Microseconds()
	switch w.Kind() {
	case quota.KindDaily:
		d := q.day(at)
		if at >= d.next { // in the margin: it counts for the next day as well
			d = q.day(d.opens)
		}
		ends = d.opens
	case quota.KindCounter: // to the end of its period, and half of the next
		length := w.Length().Microseconds()
		ends = at - at%length + length + length/2
	}
	return float64(max(0, min(ends, p.to)-max(at, p.from)))
}

// means adds what the ledger held from the start, and sets what is not used.
func (p *player) means() {
	for i := range p.report.Budgets {
		b := &p.report.Budgets[i]
		for j, at := range b.question.held.at {
			p.used[i] += float64(b.question.held.total[j+1]-b.question.held.total[j]) * p.counts(i, at)
		}
		mean := quota.Units(p.used[i]/float64(p.to-p.from) + 0.5)
		b.UnusedMean = max(0, b.Budget.Limit-mean)
	}
}

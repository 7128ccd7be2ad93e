package web

import (
	"context"
	"time"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/plan"
	"github.com/ration-dev/ration/jobs/shadow"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

// readPlan returns what the schedule will request in the coming hours, by
// account: all pages of each step and all calls of each program, as ration plan
// counts them.
func (r *reader) readPlan(now time.Time) (map[string]hours, error) {
	if r.options.Regions == nil {
		return nil, nil
	}
	regions, err := r.options.Regions(r.client.Table())
	if err != nil {
		return nil, err
	}
	planned := map[string]hours{}
	until := time.Unix((hourOf(now)+1+shownHours)*3600, 0)
	for i := range regions {
		region := &regions[i]
		for at := region.Schedule.Next(now); !at.IsZero() && at.Before(until); at = region.Schedule.Next(at) {
			for _, step := range region.Steps {
				if err := r.addStep(planned, hourOf(at), region.Name, step); err != nil {
					return nil, err
				}
			}
		}
	}
	return planned, nil
}

// addStep adds the most that a step of a pass requests.
func (r *reader) addStep(planned map[string]hours, hour int64, region string, step jobs.Step) error {
	for _, calls := range step.Calls() {
		call, err := r.client.Table().Call("", calls.Method)
		if err != nil {
			return err
		}
		if planned[call.Account] == nil {
			planned[call.Account] = hours{}
		}
		units := call.Units * quota.Units(calls.Most) * quota.Units(step.Pages)
		planned[call.Account].add(hour, series{calls.Method, step.Name(), region}, units)
	}
	return nil
}

// simulated is what a simulation says of a budget.
type simulated struct {
	out    *time.Time           // when the schedule's first call is refused; nil if that is not soon
	shadow *plan.ReplayedBudget // what a shadow would have refused; nil if it is none
}

// simulate returns what simulations say of the budgets, by account and name.
// What cannot be simulated is left out.
func (r *reader) simulate(ctx context.Context) map[[2]string]simulated {
	table, at := r.client.Table(), time.Now()
	budgets := table.Budgets()
	outs := make([]time.Time, len(budgets))
	if r.options.Regions != nil {
		if times, err := r.readPlanOut(ctx); err == nil && times != nil {
			outs = times
		}
	}
	all := map[[2]string]simulated{}
	for i := range budgets {
		b, one := &budgets[i], simulated{out: human.OptionalTime(outs[i])}
		if b.Shadow {
			if replayed, err := shadow.Replay(ctx, r.client, i, at); err == nil {
				one.shadow = &replayed
			}
		}
		all[[2]string{b.Account, b.Name}] = one
	}
	return all
}

// readPlanOut returns when the schedule's first call is refused, of each budget
// in which that happens soon.
func (r *reader) readPlanOut(ctx context.Context) ([]time.Time, error) {
	table := r.client.Table()
	regions, err := r.options.Regions(table)
	if err != nil {
		return nil, err
	}
	return plan.ForecastFrom(ctx, r.client.Guard(), table, regions)
}

// add adds to a budget what simulations say of it, unless that is over by now.
func (s *simulated) add(b *usage.BudgetReport, now time.Time) {
	if isAhead(s.out, now) {
		b.PlanOutAt = s.out
	}
	if s.shadow != nil {
		shadow.Add(b, s.shadow)
	}
}

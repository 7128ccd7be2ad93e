package web

import (
	"context"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// readPlan sets what the schedule will request of the accounts in the coming
// hours: all pages of each step and all calls of each program, as ration plan
// counts them.
func (r *reader) readPlan(s *snapshot, accounts map[string]*accountState) error {
	regions, err := r.schedule()
	if err != nil || regions == nil {
		return err
	}
	until := time.Unix((hourOf(s.At)+1+shownHours)*3600, 0)
	for i := range regions {
		region := &regions[i]
		for at := region.Schedule.Next(s.At); !at.IsZero() && at.Before(until); at = region.Schedule.Next(at) {
			for _, step := range region.Steps {
				if err := r.addStep(accounts, hourOf(at), region.Name, step); err != nil {
					return err
				}
			}
		}
	}
	s.HasPlan = true
	return nil
}

// schedule returns the regions, or nil without a schedule.
func (r *reader) schedule() ([]jobs.Region, error) {
	if r.options.Regions == nil {
		return nil, nil
	}
	return r.options.Regions(r.client.Table())
}

// addStep adds the most that a step of a pass requests.
func (r *reader) addStep(accounts map[string]*accountState, hour int64, region string, step jobs.Step) error {
	for _, calls := range step.Calls() {
		call, err := r.client.Table().Call("", calls.Method)
		if err != nil {
			return err
		}
		account := accounts[call.Account]
		if account.planned == nil {
			account.planned = hours{}
		}
		units := call.Units * quota.Units(calls.Most) * quota.Units(step.Pages)
		account.planned.add(hour, series{region: region, job: step.Name(), method: calls.Method}, units)
	}
	return nil
}

// simulate adds to the budgets what simulations say of them: when the
// schedule's first call is refused, and what a shadow would have refused. What
// cannot be simulated is left out.
func (r *reader) simulate(ctx context.Context, s *snapshot, accounts map[string]*accountState) {
	table := r.client.Table()
	budgets, seen := table.Budgets(), map[string]int{}
	var outs []time.Time
	if regions, err := r.schedule(); err == nil {
		outs, _ = plan.ForecastFrom(ctx, r.client.Guard(), table, regions)
	}
	for i := range budgets {
		b := accounts[budgets[i].Account].Budgets[seen[budgets[i].Account]]
		seen[budgets[i].Account]++
		if outs != nil {
			b.PlanOutAt = human.OptionalTime(outs[i])
		}
		if !b.Shadow {
			continue
		}
		if replayed, err := plan.ClientShadow(ctx, r.client, i, s.At); err == nil {
			plan.AddShadow(b, &replayed)
		}
	}
}

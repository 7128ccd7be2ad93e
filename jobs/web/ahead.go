package web

import (
	"context"
	"time"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/plan"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// readPlan returns what the schedule will request in the coming hours, by account:
// all pages of each step and all calls of each program, as ration plan counts them.
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

// readPlanOut returns when the schedule's first call is refused, of each budget in
// which that happens soon.
func (r *reader) readPlanOut(ctx context.Context) map[[2]string]time.Time {
	table := r.client.Table()
	regions, err := r.options.Regions(table)
	if err != nil || len(regions) == 0 {
		return nil
	}
	at, state, err := plan.ReadOutline(ctx, r.client.Guard())
	if err != nil || at.IsZero() {
		return nil
	}
	budgets := table.Budgets()
	times, err := plan.Forecast(ctx, &plan.Input{From: at, State: state, Regions: regions, Budgets: budgets,
		Price: func(method string) (quota.Call, error) { return table.Call("", method) },
		Open:  func(now func() time.Time) quota.Ledger { return memledger.Open(&memledger.Options{Now: now}) }})
	if err != nil {
		return nil
	}
	found := map[[2]string]time.Time{}
	for i, out := range times {
		if !out.IsZero() {
			found[[2]string{budgets[i].Account, budgets[i].Name}] = human.JSONTime(out)
		}
	}
	return found
}

package web

import (
	"context"
	"time"

	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// foresee adds what playing the schedule and the log says, as far as they can
// be played, and what the schedule will request of the accounts in the coming
// hours: all pages of each step and all calls of each program, as ration plan
// counts them.
func (r *reader) foresee(ctx context.Context, s *snapshot, accounts map[string]*accountState,
	budgets []*usage.BudgetReport) (err error) {
	var regions []jobs.Region
	if r.options.Regions != nil {
		regions, err = r.options.Regions(r.client.Table())
	}
	_, _ = plan.Foresee(ctx, r.client, budgets, regions, s.At)
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
		account.planned.add(hour, series{Region: region, Job: step.Name(), Method: calls.Method}, units)
	}
	return nil
}

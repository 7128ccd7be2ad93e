package inspect

import (
	"fmt"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// headroom is how much a budget leaves of the upstream's limit, and what a host
// may take of that while the ledger is down.
type headroom struct {
	budget    quota.Budget
	upstream  quota.Units // 0: not known
	allowance quota.Units // in what the budget counts
}

// hosts is how many hosts may use their whole allowance.
func (h *headroom) hosts() quota.Units { return (h.upstream - h.budget.Limit) / h.allowance }

// CheckAllowances compares the allowances of when_ledger_down with what the
// budgets leave of the upstream's limits: while the ledger is down, each host
// may spend its allowance although the others have spent the whole budget.
func (c *Checkup) CheckAllowances(table *costs.Table) {
	for _, account := range table.Accounts() {
		var tightest, unknown *headroom
		for _, h := range headrooms(table, account) {
			switch {
			case h.upstream == 0 && unknown == nil:
				unknown = &h
			case h.upstream == 0:
			case tightest == nil || h.hosts() < tightest.hosts():
				tightest = &h
			}
		}
		if tightest != nil {
			c.reportHeadroom(tightest)
		}
		if unknown != nil {
			c.Add(Note, "write the upstream's own limit as upstream_limit into costs.yaml",
				"while the ledger is down, each host may spend %d %s above the limit of %s; whether the upstream "+
					"allows that is not known", unknown.allowance, unknown.budget.Measure,
				human.Name(unknown.budget.Name))
		}
	}
}

func (c *Checkup) reportHeadroom(h *headroom) {
	name, left := human.Name(h.budget.Name), h.upstream-h.budget.Limit
	if h.hosts() == 0 {
		do := fmt.Sprintf("lower the limit of %s to %d less %d for each host (one host: %d), or ", name, h.upstream,
			h.allowance, max(0, h.upstream-h.allowance))
		switch {
		case left <= 0:
			do += "allow nothing in when_ledger_down"
		case h.budget.Measure == quota.ByUnits:
			do += fmt.Sprintf("lower the allowance to at most %d", left)
		default:
			do += "lower the allowance"
		}
		c.Add(Warning, do,
			"while the ledger is down, each host may spend %d %s above the limit of %s, and the upstream allows %d "+
				"above it", h.allowance, h.budget.Measure, name, left)
		return
	}
	c.Add(OK, "",
		"the allowances of up to %s fit between the limit of %s and the upstream's: each may spend %d of %d %s "+
			"while the ledger is down",
		human.Count(h.hosts(), "host"), name, h.allowance, left, h.budget.Measure)
}

// headrooms returns what the budgets of an account leave, of those that calls
// without the ledger count in.
func headrooms(table *costs.Table, account string) (all []headroom) {
	for _, u := range table.Upstreams() {
		if u.Account != account {
			continue
		}
		for _, b := range u.Budgets {
			h := headroom{budget: b, upstream: u.UpstreamLimits[b.Name]}
			for _, cost := range u.Costs {
				caller := quota.Caller{}
				if len(b.Lanes) > 0 {
					caller.Lane = b.Lanes[0]
				}
				if len(b.Regions) > 0 {
					caller.Region = b.Regions[0]
				}
				if b.Coverage().Covers(cost.Method, caller.Lane, caller.Region) {
					h.allowance = max(h.allowance, allowanceIn(&b, u.MostAllowed(cost.Method), cost.Units))
				}
			}
			if h.allowance > 0 {
				all = append(all, h)
			}
		}
	}
	return all
}

// allowanceIn returns an allowance in what a budget counts, for calls of
// one cost.
func allowanceIn(b *quota.Budget, allowed, cost quota.Units) quota.Units {
	if b.Measure == quota.Calls {
		return allowed / max(cost, 1)
	}
	return allowed
}

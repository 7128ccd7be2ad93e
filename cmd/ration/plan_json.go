package main

import (
	"time"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs/plan"
	"github.com/ration-dev/ration/quota"
)

// planDocument is a plan for JSON.
type planDocument struct {
	Fits            bool                `json:"fits"`
	At              time.Time           `json:"at"`
	From            time.Time           `json:"from"`
	To              time.Time           `json:"to"`
	JitterS         int64               `json:"jitter_s"`
	Ledger          *string             `json:"ledger"`
	LedgerExists    *bool               `json:"ledger_exists"`
	UnrecordedUnits quota.Units         `json:"unrecorded_units"`
	Ticks           int                 `json:"ticks"`
	Calls           int                 `json:"calls"`
	Units           quota.Units         `json:"units"`
	UnitsLeast      quota.Units         `json:"units_least"`
	AtWorst         []string            `json:"at_worst"`
	FirstRefused    *plan.Refusal       `json:"first_refused"`
	Starved         *string             `json:"starved"`
	Uncounted       []string            `json:"uncounted"`
	Budgets         []plan.BudgetReport `json:"budgets"`
	Regions         []plan.RegionReport `json:"regions"`
	Played          []plan.Played       `json:"played"`
	Suggestion      *plan.Suggestion    `json:"suggestion"`
}

// document returns the plan for JSON, with all that was played if verbose is set.
func (p *planning) document(verbose bool) *planDocument {
	r := p.report
	out := &planDocument{Fits: r.Fits, At: p.at, From: r.From, To: r.To, JitterS: human.Seconds(p.in.Jitter), UnrecordedUnits: p.unrecorded,
		Ticks: r.Ticks, Calls: r.Calls, Units: r.Units, UnitsLeast: r.Least, AtWorst: append([]string{}, r.AtWorst...), Uncounted: append([]string{}, r.Uncounted...),
		FirstRefused: r.First, Budgets: append([]plan.BudgetReport{}, r.Budgets...), Regions: append([]plan.RegionReport{}, r.Regions...), Suggestion: p.suggestion}
	if !p.fresh {
		out.Ledger, out.LedgerExists = &p.ledger, &p.exists
	}
	if r.First != nil {
		out.Starved = &r.Starved()[0].Region
	}
	if verbose {
		out.Played = r.Plays
	}
	return out
}

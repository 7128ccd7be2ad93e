package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// LogReplay replays the log of a ledger against another table.
type LogReplay struct {
	InForce, Other *costs.Table
	Since, Until   time.Time // of the calls; zero without a bound
}

// Missing returns the names of the accounts in force that Other, read from
// path, lacks, whose calls Play leaves out. That it lacks all of them is an
// error: no call could be replayed.
func (r *LogReplay) Missing(path string) (names []string, err error) {
	inForce, others := r.InForce.Accounts(), r.Other.Accounts()
	for _, account := range inForce {
		if !slices.Contains(others, account) {
			names = append(names, human.Name(account))
		}
	}
	if len(names) == len(inForce) {
		return nil, fmt.Errorf("%s has no account of costs.yaml, so no call can be replayed: name %s", human.Name(path),
			strings.Join(names, ", "))
	}
	return names, nil
}

// Play replays the log: once against the budgets, and once more for each of
// them that is a shadow.
func (r *LogReplay) Play(ctx context.Context, guard *quota.Guard) (*ReplayReport, error) {
	budgets := r.Other.Budgets()
	report, err := r.playOnce(ctx, guard, budgets)
	if err != nil {
		return nil, err
	}
	for i := range budgets {
		if !budgets[i].Shadow {
			continue
		}
		tried := slices.Clone(budgets)
		tried[i].Shadow = false
		shadow, err := r.playOnce(ctx, guard, tried)
		if err != nil {
			return nil, err
		}
		report.Budgets[i] = shadow.Budgets[i]
		report.Budgets[i].Budget.Shadow = true
	}
	return report, nil
}

func (r *LogReplay) playOnce(ctx context.Context, guard *quota.Guard, budgets []quota.Budget) (*ReplayReport, error) {
	source := &usage.LogReader{Guard: guard, Accounts: r.Other.Accounts(), Until: r.Until}
	if !r.Since.IsZero() {
		source.Since = r.Since.Add(-longestHorizon(budgets))
	}
	return Replay(ctx, &ReplayInput{Budgets: budgets, Since: r.Since, Price: r.InForce.Reprice(r.Other)},
		source.Lines(ctx, false))
}

// Unspent returns the report of a ledger that does not exist.
func (r *LogReplay) Unspent() *ReplayReport {
	report := &ReplayReport{}
	for _, b := range r.Other.Budgets() {
		report.Budgets = append(report.Budgets, ReplayedBudget{Budget: b})
	}
	return report
}

// ReplayDocument is a replay for JSON.
type ReplayDocument struct {
	Fits         bool                   `json:"fits"`
	At           time.Time              `json:"at"`
	Since        *time.Time             `json:"since"`
	Until        *time.Time             `json:"until"`
	From         *time.Time             `json:"from"` // the first call that was replayed
	To           *time.Time             `json:"to"`
	Ledger       string                 `json:"ledger"`
	LedgerExists bool                   `json:"ledger_exists"`
	Costs        string                 `json:"costs"`
	Calls        int                    `json:"calls"`
	Units        quota.Units            `json:"units"`
	Refused      int                    `json:"refused"`
	RefusedUnits quota.Units            `json:"refused_units"`
	Budgets      []ReplayedBudgetReport `json:"budgets"`
	Refusals     []ReplayedHour         `json:"refusals"` // not of shadows
}

// ReplayedBudgetReport is a ReplayedBudget for JSON.
type ReplayedBudgetReport struct {
	Account        string      `json:"account"`
	Name           string      `json:"name"`
	Window         string      `json:"window"`
	Measure        string      `json:"measure"`
	Limit          quota.Units `json:"limit"`
	Shadow         bool        `json:"shadow"`
	Refused        int         `json:"refused"`
	RefusedUnits   quota.Units `json:"refused_units"`
	FirstRefusedAt *time.Time  `json:"first_refused_at"`
	LastRefusedAt  *time.Time  `json:"last_refused_at"`
}

// Document returns what a replay has found at a time, for JSON, without its
// Ledger and Costs.
func (r *LogReplay) Document(at time.Time, p *ReplayReport) *ReplayDocument {
	d := &ReplayDocument{At: at.UTC(), Fits: p.Refused == 0, Since: human.OptionalTime(r.Since),
		Until: human.OptionalTime(r.Until), From: human.OptionalTime(p.From), To: human.OptionalTime(p.To),
		Calls: p.Calls, Units: p.Units, Refused: p.Refused, RefusedUnits: p.RefusedUnits,
		Budgets: []ReplayedBudgetReport{}, Refusals: append([]ReplayedHour{}, p.Hours...)}
	for i := range p.Budgets {
		b := &p.Budgets[i]
		d.Budgets = append(d.Budgets, ReplayedBudgetReport{b.Budget.Account, b.Budget.Name, b.Budget.Window.String(),
			b.Budget.Measure.String(), b.Budget.Limit, b.Budget.Shadow,
			b.Refused, b.RefusedUnits, human.OptionalTime(b.First), human.OptionalTime(b.Last)})
	}
	return d
}

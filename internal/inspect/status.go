// Package inspect looks at what a configuration names and changes nothing: what
// is left of the budgets, who spent the rest and when it returns (status), and
// what is wrong with the files, keys and ledgers (doctor).
package inspect

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// Report is what is left of the budgets, who spent the rest, and what holds
// beside them, for JSON.
type Report struct {
	At              time.Time             `json:"at"`
	Ledger          string                `json:"ledger"`
	LedgerExists    bool                  `json:"ledger_exists"`
	Refusing        []*report.Refusal     `json:"refusing"` // what is refused now, the worst that a report has to say
	UnrecordedUnits quota.Units           `json:"unrecorded_units"`
	Budgets         []*usage.BudgetReport `json:"budgets"`

	Keyed    []usage.KeyReport    `json:"keyed"`     // the fullest keys of each account
	MoreKeys []string             `json:"more_keys"` // accounts that have more keys than were looked at
	Waiting  []WaitingStep        `json:"waiting"`   // steps that keep failing
	Passes   []Pass               `json:"passes"`    // current passes that a host has or has done
	Repairs  []client.Restoration `json:"repairs"`   // of the ledger, by this host
	// Unexplained are refusals by upstreams that no rule explained, from this
	// host's state folder.
	Unexplained []client.UnexplainedRefusal `json:"unexplained"`
	// Forgotten has an error for each account that this host knows, if the
	// ledger does not exist.
	Forgotten []*client.MissingError `json:"forgotten"`
	Moves     []report.Cooldown      `json:"moves,omitempty"` // accounts that move from one ledger to another

	Version string `json:"version,omitempty"` // of this program

	Unplanned error `json:"-"` // why what the schedule says is missing; nil if it is not

	statuses []usage.BudgetStatus
}

// NewReport returns a Report of a ledger that exists, without budgets.
func NewReport(at time.Time) *Report {
	return &Report{
		At: at.UTC(), LedgerExists: true,
		Refusing: []*report.Refusal{}, Budgets: []*usage.BudgetReport{}, Keyed: []usage.KeyReport{},
		MoreKeys: []string{},
		Waiting:  []WaitingStep{}, Passes: []Pass{}, Repairs: []client.Restoration{},
		Unexplained: []client.UnexplainedRefusal{}, Forgotten: []*client.MissingError{},
	}
}

// AddUnspent adds the budgets of a ledger that does not exist yet.
func (r *Report) AddUnspent(table *costs.Table) {
	r.LedgerExists = false
	for _, b := range table.Budgets() {
		r.Budgets = append(r.Budgets,
			usage.NewBudgetReport(&usage.BudgetStatus{Balance: quota.Balance{Budget: b, At: r.At, Remaining: b.Limit}}))
	}
}

// Read reads the budgets, the keys, what the schedule says of them, and what
// shadows would have refused. It returns the ledger's error; after one of the
// budgets the report has none.
func (r *Report) Read(ctx context.Context, s *setup.Setup, c *client.Client) error {
	if err := r.ReadBudgets(ctx, c.Guard(), c.Table().Accounts()); err != nil {
		return err
	}
	for i := range r.statuses {
		b := &r.statuses[i].Balance
		r.Budgets[i].Outside = human.Optional(usage.Outside(b,
			c.Table().UpstreamLimit(b.Budget.Account, b.Budget.Name)))
	}
	refusing, err := report.Refusing(ctx, c, r.statuses, r.At)
	if err != nil {
		return err
	}
	r.Refusing = refusing
	regions, unread := s.Schedule(c.Table())
	if unread == nil && regions != nil {
		r.Passes, unread = readPasses(ctx, s, c, regions)
	}
	if unread != nil {
		regions = nil
	}
	unplanned, err := plan.Foresee(ctx, c, r.Budgets, regions, r.At)
	r.Unplanned = cmp.Or(unread, unplanned)
	report.DropForecasts(r.Budgets, refusing)
	return err
}

// ReadReport returns the whole report of an open ledger. After the ledger's
// error it has what is known without the ledger.
func ReadReport(ctx context.Context, s *setup.Setup, c *client.Client) (*Report, error) {
	r := NewReport(s.Now())
	err := r.Read(ctx, s, c)
	if failed := r.AddHost(c); err == nil {
		err = failed
	}
	if waiting, failed := WaitingSteps(ctx, s); failed == nil {
		r.Waiting = waiting
	}
	return r, err
}

// TopKeys is how many keys of an account a Report has.
const TopKeys = 10

// ReadBudgets reads the budgets and the keys. After an error the report
// has none.
func (r *Report) ReadBudgets(ctx context.Context, guard *quota.Guard, accounts []string) error {
	statuses, err := usage.Status(ctx, guard)
	if err != nil {
		return err
	}
	keys, err := usage.TopKeys(ctx, guard, accounts, TopKeys)
	if err != nil {
		return err
	}
	r.statuses, r.Budgets = statuses, keys.Reports(statuses)
	for i := range statuses {
		r.At = statuses[i].At
		r.addMove(statuses[i].Moved)
	}
	r.Keyed, r.MoreKeys = keys.Fullest, keys.More
	return nil
}

// addMove adds a move, which each budget of its account has. It may be nil.
func (r *Report) addMove(m *quota.MovedError) {
	if m == nil || slices.ContainsFunc(r.Moves,
		func(known report.Cooldown) bool { return known.Account == m.Account }) {
		return
	}
	r.Moves = append(r.Moves, report.NewMove(m))
}

// AddHost adds what this host knows of the ledger without asking it.
func (r *Report) AddHost(c *client.Client) error {
	r.Ledger = c.LedgerName()
	units, err := c.Unrecorded()
	r.UnrecordedUnits, r.Repairs = units, c.Restorations()
	r.Unexplained = append(r.Unexplained, c.Unexplained()...)
	return err
}

package ledgercopy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/textfmt"
	"github.com/ration-dev/ration/quota"
)

// Move closes an account in both ledgers, copies it, and opens the new one.
// If that was done before, it copies what the old ledger got since, such as
// the costs of calls that were in flight. An error after the account was
// closed is an *UnfinishedError.
//
// Call Follow afterwards for as long as calls may be in flight.
func (c *Copy) Move(ctx context.Context, name string) (*Moving, error) {
	a := c.account(name)
	err := a.plan(ctx)
	if a.same {
		return nil, errors.Join(err, a.reopen(ctx))
	}
	if err != nil {
		return nil, err
	}
	if err := a.close(ctx); err != nil {
		return nil, err
	}
	if err := a.copyAndOpen(ctx); err != nil {
		if a.opened {
			return nil, err
		}
		return nil, &UnfinishedError{Account: name, Err: err}
	}
	return &Moving{a}, nil
}

// Moving is an account that has moved, and whose calls may still be in flight.
type Moving struct{ account *account }

// Report returns what was copied so far.
func (m *Moving) Report() *Report { return m.account.report }

// Follow copies what the old ledger got since the last time: what calls in
// flight have cost, calls that were refunded, and notes.
func (m *Moving) Follow(ctx context.Context) error {
	if quota.IsReserved(m.account.name) {
		return m.account.copyReserved(ctx)
	}
	return m.account.copyLate(ctx)
}

// places is where an account is on its way, as the ledgers say.
type places struct{ left, arrives *quota.Move }

// find returns the Moves of both ledgers.
func (a *account) find(ctx context.Context) (p places, err error) {
	if p.left, err = moveOf(ctx, a.From, a.name); err != nil || a.To == nil {
		return p, a.from(err)
	}
	p.arrives, err = moveOf(ctx, a.To, a.name)
	return p, a.to(err)
}

func moveOf(ctx context.Context, l quota.Log, name string) (*quota.Move, error) {
	all, err := l.Cooldowns(ctx, name)
	for i := range all {
		if move, ok := all[i].Move(); ok {
			return &move, err
		}
	}
	return nil, err
}

// ours reports whether a Move is that of this copy, and of this direction.
func (a *account) ours(m *quota.Move, arriving bool) bool {
	return m != nil && m.ID == a.id && m.Arriving == arriving
}

// checkState checks that both ledgers are where this copy can begin or go on.
func (a *account) checkState(ctx context.Context) error {
	p, err := a.find(ctx)
	if err != nil {
		return err
	}
	switch {
	case p.left != nil && p.left.Arriving && p.left.ID == a.id:
		return a.isSame()
	case p.left != nil && p.left.Arriving:
		return a.failed("%s has an unfinished copy from %s; complete that one first (ration ledger copy %[2]s %[1]s)", a.FromName, p.left.Ledger)
	case p.left != nil && !a.ours(p.left, false):
		return a.failed("it has moved from %s to %s already; copy it from there", a.FromName, p.left.Ledger)
	case p.arrives != nil && !p.arrives.Arriving:
		return a.failed("it has moved from %s to %s, and cannot return; name a new file or database", a.ToName, p.arrives.Ledger)
	case p.arrives != nil && p.arrives.ID != a.id:
		return a.failed("%s has an unfinished copy from %s; complete that one (ration ledger copy %[2]s %[1]s)", a.ToName, p.arrives.Ledger)
	}
	switch {
	case p.arrives != nil:
		a.report.State = Unfinished
	case p.left != nil:
		a.report.State, a.opened = Moved, true
	default:
		a.report.State = Ready
	}
	if p.arrives != nil || a.To == nil {
		return nil
	}
	used, err := a.used(ctx)
	switch {
	case err != nil:
		return a.to(err)
	case used == "": // a copy that was made is lost: it is made again
		a.opened = false
		return a.checkAccepted(ctx)
	case a.report.State == Ready:
		begun, err := a.hasLeft(ctx)
		if begun { // another process has begun the same copy meanwhile
			return a.checkState(ctx)
		}
		return errors.Join(a.isUsed(used), err)
	}
	return nil
}

// hasLeft reports whether this copy has closed the account in the old ledger.
func (a *account) hasLeft(ctx context.Context) (bool, error) {
	p, err := a.find(ctx)
	return err == nil && a.ours(p.left, false), err
}

// checkAccepted returns an error if a loss of the new ledger was accepted, so
// that it takes no older entries. A note that was copied there is none.
func (a *account) checkAccepted(ctx context.Context) error {
	to, err := acceptedLosses(ctx, a.To, a.name)
	if err != nil || len(to) == 0 {
		return a.to(err)
	}
	from, err := acceptedLosses(ctx, a.From, a.name)
	if err != nil {
		return a.from(err)
	}
	for _, note := range to {
		if !slices.Contains(from, note) {
			return a.failed("%s has an accepted loss (ration ledger accept --loss), and takes no older entries; name another ledger", a.ToName)
		}
	}
	return nil
}

// acceptedLosses returns the notes of the losses of an account that were
// accepted.
func acceptedLosses(ctx context.Context, l quota.Log, name string) (notes []quota.ID, err error) {
	for e, err := range l.Entries(ctx, quota.Query{Account: name}) {
		if err != nil {
			return nil, err
		}
		if e.AcceptsLoss() {
			notes = append(notes, e.ID)
		}
	}
	return notes, nil
}

// isUsed returns the error for a new ledger that is not empty.
func (a *account) isUsed(used string) error {
	return a.failed("%s holds %s of it already; name an empty ledger", a.ToName, used)
}

// isSame returns the error for two addresses of one ledger.
func (a *account) isSame() error {
	a.same = true
	return a.failed("%s and %s are the same ledger; name another one", a.FromName, a.ToName)
}

// reopen opens the new ledger.
func (a *account) reopen(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := a.To.ClearCooldown(ctx, a.name, ""); err != nil {
		return a.to(err)
	}
	return a.to(PutBackCooldown(ctx, a.To, a.name))
}

// PutBackCooldown puts the cooldown of a whole account that a ledger set aside
// for a move in force again. Without one it is a no-op.
func PutBackCooldown(ctx context.Context, ledger quota.Log, account string) error {
	all, err := ledger.Cooldowns(ctx, account)
	for _, c := range all {
		if c.Budget != quota.DisplacedBudget || err != nil {
			continue
		}
		c.Budget = ""
		if err = ledger.SetCooldown(ctx, c); err == nil {
			err = ledger.ClearCooldown(ctx, account, quota.DisplacedBudget)
		}
	}
	return err
}

// used says what the new ledger holds of the account, or nothing.
func (a *account) used(ctx context.Context) (string, error) {
	keys := []string{""}
	for key, err := range a.To.Keys(ctx, a.name) {
		if err != nil {
			return "", err
		}
		if !quota.IsReserved(key) {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		t, err := totalOf(ctx, a.To, a.name, key)
		if err != nil {
			return "", err
		}
		if t.units > 0 || t.calls > 0 {
			return textfmt.Count(t.units, "unit") + " and " + textfmt.Count(t.calls, "call"), nil
		}
		standings, err := a.To.Standings(ctx, a.name, key, a.charges)
		if err != nil {
			return "", err
		}
		for i, s := range standings {
			if s.Used > 0 || s.Over > 0 {
				return fmt.Sprintf("%d %s of %s", s.Used+s.Over, a.budgets[i].Measure, a.budgets[i].Name), nil
			}
		}
	}
	return "", nil
}

// close closes the account in the new ledger, which must be empty then, and
// then in the old one.
func (a *account) close(ctx context.Context) (err error) {
	if a.opened {
		return nil
	}
	began := a.report.State != Ready
	arrives := quota.Move{Account: a.name, Ledger: a.FromName, Arriving: true, ID: a.id}
	if err := a.To.SetCooldown(ctx, arrives.Cooldown()); err != nil {
		return a.to(err)
	}
	defer func() {
		if err != nil && began {
			err = &UnfinishedError{Account: a.name, Err: err}
		}
	}()
	p, err := a.find(ctx)
	switch {
	case err != nil:
		began = true
		return err
	case p.left != nil && p.left.Arriving && p.left.ID == a.id:
		return errors.Join(a.isSame(), a.reopen(ctx))
	case p.arrives == nil && a.ours(p.left, false): // another process has completed this copy
		a.opened = true
		return nil
	case !a.ours(p.arrives, true):
		return a.failed("another copy to %s began at the same time", a.ToName)
	}
	if !began {
		used, err := a.used(ctx)
		if used != "" && err == nil {
			if began, err = a.hasLeft(ctx); err == nil && !began {
				return errors.Join(a.isUsed(used), a.reopen(ctx))
			}
		}
		if began = true; err != nil {
			return a.to(err)
		}
	}
	began = true
	left := quota.Move{Account: a.name, Ledger: a.ToName, ID: a.id}
	if err := a.From.SetCooldown(ctx, left.Cooldown()); err != nil {
		return a.from(err)
	}
	if p, err = a.find(ctx); err != nil || a.ours(p.left, false) {
		return err
	}
	err = a.failed("another copy from %s began at the same time", a.FromName)
	if p.left != nil && a.report.State == Ready { // the new ledger has nothing of the account
		began, err = false, errors.Join(err, a.reopen(ctx))
	}
	return err
}

// copyAndOpen copies everything, and opens the new ledger.
func (a *account) copyAndOpen(ctx context.Context) error {
	keys, err := a.keys(ctx)
	if err != nil {
		return a.from(err)
	}
	a.report.Entries = 0
	a.report.Units = 0
	a.report.Calls = 0
	for _, key := range keys {
		if err := a.copyLog(ctx, key); err != nil {
			return err
		}
	}
	if !a.opened {
		if err := a.copyLimits(ctx); err != nil {
			return err
		}
	}
	if err := a.copyLate(ctx); err != nil {
		return err
	}
	if a.opened { // cooldowns may have been lifted there since
		return a.to(PutBackCooldown(ctx, a.To, a.name))
	}
	err = a.readCooldowns(ctx, func(c quota.Cooldown) error { return a.to(a.To.SetCooldown(ctx, c)) })
	if err != nil {
		return err
	}
	if err := a.reopen(ctx); err != nil {
		return err
	}
	a.opened = true
	return nil
}

// readCooldowns calls f with the cooldowns of the old ledger, that of the whole
// account as it was before the move.
func (a *account) readCooldowns(ctx context.Context, f func(quota.Cooldown) error) error {
	all, err := a.From.Cooldowns(ctx, a.name)
	if err != nil {
		return a.from(err)
	}
	for _, c := range all {
		if _, moves := c.Move(); moves {
			continue
		}
		if c.Budget == quota.DisplacedBudget {
			c.Budget = ""
		}
		if err := f(c); err != nil {
			return err
		}
	}
	return nil
}

// copyLimits asks the limits of this configuration of the new ledger, and the
// lower ones that others have asked of the old one. A limit is recorded with a
// request that is refused.
func (a *account) copyLimits(ctx context.Context) error {
	if len(a.charges) == 0 {
		return nil
	}
	standings, err := a.From.Standings(ctx, a.name, "", a.charges)
	if err != nil {
		return a.from(err)
	}
	charges := slices.Clone(a.charges)
	for i, s := range standings {
		if s.Limit == 0 || s.Limit >= a.charges[i].Limit {
			continue
		}
		lower := *a.charges[i]
		lower.Limit, lower.Config = s.Limit, quota.Config{Name: "ration ledger copy from " + a.FromName, Changed: time.Unix(1, 0)}
		charges = append(charges, &lower)
	}
	request := quota.Request{Method: "ledger.copy", Caller: quota.Caller{Lane: quota.LaneManual}, Units: 1, Charges: charges}
	answers, err := a.To.Spend(ctx, &quota.Batch{Account: a.name, Requests: []quota.Request{request}})
	if err != nil {
		return a.to(err)
	}
	if answers[0].Err == nil { // another process runs the same copy, and was faster
		a.opened = true
		return a.to(a.To.Refund(ctx, answers[0].Receipt))
	}
	return nil
}

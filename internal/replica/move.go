package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

// MoveAll moves accounts. It calls moved with the report of each account that
// is open in the new ledger.
func (c *Copy) MoveAll(ctx context.Context, names []string, moved func(*Report)) (all []*Moving, err error) {
	for _, name := range names {
		m, err := c.Move(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
		moved(m.Report())
	}
	return all, nil
}

// FollowAll calls Follow of all accounts, every second for as long as calls may
// be in flight.
func FollowAll(ctx context.Context, all []*Moving, grace time.Duration) error {
	for left := grace; ; left -= time.Second {
		for _, m := range all {
			if err := m.Follow(ctx); err != nil {
				return err
			}
		}
		if left <= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(left, time.Second)):
		}
	}
}

// Moving is an account that has moved, and whose calls may still be in flight.
type Moving struct{ account *account }

// Report returns what was copied so far.
func (m *Moving) Report() *Report { return m.account.report }

// Follow copies what the old ledger got since the last time: what calls in
// flight have cost, calls that were refunded, and notes.
func (m *Moving) Follow(ctx context.Context) error { return m.account.copy(ctx) }

// Move moves an account. If that was done before, it copies what the old ledger
// got since, such as the costs of calls that were in flight. An error after the
// account was closed is an *UnfinishedError.
//
// Call Follow afterwards for as long as calls may be in flight.
func (c *Copy) Move(ctx context.Context, name string) (*Moving, error) {
	a := c.account(name)
	if err := a.arrive(ctx); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context) error{a.copy, a.leave, a.open} {
		err := step(ctx)
		if err != nil && !a.isOpened {
			err = &UnfinishedError{Account: name, FromOpen: !a.from.hasLeft(), Err: err}
		}
		if err != nil {
			return nil, err
		}
	}
	return &Moving{a}, a.summarize(ctx)
}

// plan reads both logs, and checks that this copy can begin or go on. That of
// the new ledger is read first: a copy that another process completes meanwhile
// then shows in the old one.
func (a *account) plan(ctx context.Context) error {
	a.from, a.to = newLog(a.From, a.FromName, a.name), newLog(a.To, a.ToName, a.name)
	a.to.has = map[engine.ID]bool{}
	if err := a.to.read(ctx, nil); err != nil {
		return err
	}
	if err := a.from.read(ctx, nil); err != nil {
		return err
	}
	if err := a.checkState(); err != nil {
		return err
	}
	if a.report.State == Ready && !a.to.isClosed() {
		if err := a.checkUnused(ctx); err != nil {
			return err
		}
	}
	return a.checkClocks()
}

// checkState finds out how far the copy is.
func (a *account) checkState() error {
	from, to := a.from, a.to
	_, isOld := a.From.(*Old)
	switch {
	case a.FromName == a.ToName && !isOld:
		return a.failed("the copy would go from %s to itself; name another ledger", a.FromName)
	case a.isSame():
		return a.sameError()
	case from.arrives():
		return a.failed("%s has an unfinished copy from %s; complete that one first (ration ledger copy %[2]s %[1]s)",
			a.FromName, from.moved.Text)
	case from.hasLeft() && from.moved.Text != a.ToName:
		return a.failed("it has moved from %s to %s already; copy it from there", a.FromName, from.moved.Text)
	case to.hasLeft() && to.moved.Text != a.FromName:
		return a.failed("it has moved from %s to %s; copy it from there, or name a new file or database",
			a.ToName, to.moved.Text)
	case to.arrives() && to.moved.Text != a.FromName:
		return a.failed("%s has an unfinished copy from %s; complete that one (ration ledger copy %[2]s %[1]s)",
			a.ToName, to.moved.Text)
	}
	switch {
	case to.arrives():
		a.report.State = Unfinished
	case from.hasLeft() && to.known.Epoch != 0 && !to.isClosed():
		a.report.State, a.isOpened = Moved, true
	default: // a copy that was made and is lost is made again
		a.report.State = Ready
	}
	return nil
}

// isSame reports whether both logs are one.
func (a *account) isSame() bool {
	return a.from.known.Epoch != 0 && a.from.known.Epoch == a.to.known.Epoch
}

func (a *account) sameError() error {
	return a.failed("%s and %s are the same ledger; name another one", a.FromName, a.ToName)
}

// checkUnused checks that the new ledger holds nothing of the account.
func (a *account) checkUnused(ctx context.Context) error {
	if a.to.known.Epoch == 0 {
		return nil
	}
	var units, calls int64
	err := engine.New(a.To, nil).Account(a.name).View(ctx, func(v *engine.View) {
		v.Entries(0, engine.Never, false, func(e engine.Entry) bool {
			units += e.Amounts.Units
			calls += e.Amounts.Calls
			return true
		})
	})
	switch {
	case err != nil:
		return a.to.failed(err)
	case units > 0 || calls > 0:
		return a.failed("%s holds %s and %s of it already; name an empty ledger", a.ToName,
			human.Count(units, "unit"), human.Count(calls, "call"))
	}
	return nil
}

// maxRaces is how often a step is tried while other processes change the log.
const maxRaces = 100

// arrive closes the account in the new ledger, unless that is in use.
func (a *account) arrive(ctx context.Context) error {
	for range maxRaces {
		if err := a.plan(ctx); err != nil {
			return err
		}
		if !a.isOpened && !a.to.arrives() {
			appended, err := a.to.setMoved(ctx, engine.Arriving, a.FromName)
			if errors.Is(err, engine.ErrInDoubt) {
				return &UnfinishedError{Account: a.name, FromOpen: true, Err: err}
			}
			if err != nil {
				return err
			}
			if !appended {
				continue
			}
			if err := a.to.read(ctx, nil); err != nil {
				return err
			}
		}
		return a.checkDistinct(ctx)
	}
	return a.busy(a.to)
}

// checkDistinct checks, once the new ledger has a log, that the old one has
// another, and lets copy begin with all of it.
func (a *account) checkDistinct(ctx context.Context) error {
	if err := a.from.read(ctx, nil); err != nil {
		return err
	}
	a.from.known = engine.Known{}
	if a.from.moved.ID != a.to.moved.ID || !a.to.arrives() {
		return nil
	}
	if _, err := a.to.setMoved(ctx, "", ""); err != nil {
		return err
	}
	return a.sameError()
}

// leave closes the account in the old ledger, and copies what that got before.
func (a *account) leave(ctx context.Context) error {
	for range maxRaces {
		if a.from.hasLeft() {
			if a.from.moved.Text == a.ToName {
				return nil
			}
			return a.failed("another copy from %s, to %s, began at the same time", a.FromName, a.from.moved.Text)
		}
		if _, err := a.from.setMoved(ctx, "", a.ToName); err != nil {
			return err
		}
		if err := a.copy(ctx); err != nil {
			return err
		}
	}
	return a.busy(a.from)
}

// open opens the new ledger, which holds everything.
func (a *account) open(ctx context.Context) error {
	for range maxRaces {
		if !a.to.arrives() {
			a.isOpened = true
			return nil
		}
		if _, err := a.to.setMoved(ctx, "", ""); err != nil {
			return err
		}
		if err := a.to.read(ctx, nil); err != nil {
			return err
		}
	}
	return a.busy(a.to)
}

func (a *account) busy(l *log) error {
	return l.failed(fmt.Errorf("%w: other processes changed account %q all the time", engine.ErrLedgerBusy, a.name))
}

// maxBatch is how many records are appended at once.
const maxBatch = 2000

// copy copies the records that the old ledger got since the last time, except
// for those that the new one has.
func (a *account) copy(ctx context.Context) error {
	var batch []*engine.Record
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := a.to.add(ctx, batch)
		batch = nil
		return err
	}
	err := a.from.read(ctx, func(r *engine.Record) error {
		if r.Kind == engine.KindGrant || r.Kind == engine.KindNote {
			if a.copied++; a.Progress != nil {
				a.Progress(a.name, a.copied)
			}
		}
		if !isCopied(r.Kind) || a.to.has[r.ID] {
			return nil
		}
		if a.isOpened && r.Kind <= engine.KindNote {
			a.report.Late++
		}
		if batch = append(batch, r); len(batch) < maxBatch {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// isCopied reports whether records of a kind are true of the new ledger too.
// Callers that wait do so in their own ledger, and what a clock record corrects
// is copied as corrected.
func isCopied(k engine.Kind) bool {
	return k != engine.KindMoved && k != engine.KindClock && k != engine.KindTicket
}

package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ration-dev/ration/quota"
)

// Processes of a host decide without a lock, so one can be granted calls by the
// ledger while another grants what is left within the allowance, or restores
// the log without them. Each appends to the journal what it did, and only then
// looks at what was appended since it decided. So the one whose record comes
// later sees that of the other, and undoes what it did, or does it again.

// errWithdrawn means that a batch was granted calls, and that they were undone.
var errWithdrawn = fmt.Errorf("%w: another process has taken the room of these", errOwed)

// withdraw undoes what the ledger has granted a batch, and returns
// errWithdrawn, if grants within the allowance have left no room for it, or if
// the log was restored without it. before is the number of such records when
// the batch was sent.
func (l *Ledger) withdraw(ctx context.Context, a *account, batch *quota.Batch, answers []quota.Answer, before uint64) error {
	if _, err := a.readNewest(); err != nil || a.files.changes.Load() == before {
		return nil // the next call reports the error
	}
	var granted []int // now, and not to an earlier request with the same id, whose call may have been sent
	isOvertaken := false
	err := a.withState(func(s *state) error {
		for i := range answers {
			r, receipt := &batch.Requests[i], answers[i].Receipt
			if g := s.grants[receipt.ID]; answers[i].Err != nil || g != nil && g.repeated {
				continue
			}
			granted = append(granted, i)
			isOvertaken = isOvertaken || l.isOvertaken(s, r, receipt.Epoch)
		}
		return nil
	})
	l.read(a, err)
	if !isOvertaken {
		return nil
	}
	for _, i := range granted {
		r, receipt := &batch.Requests[i], answers[i].Receipt
		receipt.Recorded = &quota.Recorded{Method: r.Method, Caller: r.Caller, Units: r.Units}
		if err := l.Refund(ctx, receipt); err != nil && !errors.Is(err, quota.ErrLedgerLost) {
			return fmt.Errorf("%w; its units stay charged: %w", errWithdrawn, err)
		}
	}
	return errWithdrawn
}

// isOvertaken reports whether a grant came too late: the log has another epoch
// now, or its budgets are overspent.
func (l *Ledger) isOvertaken(s *state, r *quota.Request, epoch uint64) bool {
	if s.life != 0 && s.life != epoch {
		return true
	}
	return !r.Force && l.isOverspent(s, r)
}

// isOverspent reports whether more was granted of a request's budgets than they
// had, as far as this host knows.
func (l *Ledger) isOverspent(s *state, r *quota.Request) bool {
	now := l.now().UnixMicro() - s.skew
	return slices.ContainsFunc(r.Charges, func(c *quota.Charge) bool {
		return !c.Window.Estimate() && l.left(s, c, now) < 0
	})
}

// takeBack undoes grants within the allowance, and returns errBack, if what the
// ledger has granted since they were decided has left no room for them. The
// caller holds the lock.
func (l *Ledger) takeBack(a *account, s *state, batch *quota.Batch, grants []record) error {
	before := maps.Clone(s.granted)
	if err := s.catchUp(a.files); err != nil || maps.Equal(s.granted, before) || batch.Key != "" {
		return err
	}
	if !slices.ContainsFunc(batch.Requests, func(r quota.Request) bool { return !r.Force && l.isOverspent(s, &r) }) {
		return nil
	}
	undone := make([]record, len(grants))
	for i, g := range grants {
		undone[i] = record{kind: settled, at: g.at, id: g.id}
	}
	if err := a.files.append(true, undone...); err != nil {
		return err
	}
	return errBack
}

// misses reports whether a restoration lacks what was appended since it was
// collected: grants of an ended life of the log, or what a call costs more.
func (a *account) misses(collected *others, life uint64) (misses bool, err error) {
	err = a.withState(func(s *state) error {
		misses = s.raised != collected.raised
		for epoch, n := range s.granted {
			misses = misses || epoch != life && n != collected.granted[epoch]
		}
		return nil
	})
	return misses, err
}

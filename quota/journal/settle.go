package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// Settle implements quota.Ledger. A call that was granted within the allowance
// is settled in the journal until the ledger has it.
func (l *Ledger) Settle(ctx context.Context, receipt quota.Receipt, units quota.Units) error {
	if units < 0 || units > quota.MaxUnits {
		return fmt.Errorf("%w: settled to %d units; a call costs 0 to %d", quota.ErrBadCall, units, quota.MaxUnits)
	}
	return l.settle(ctx, receipt, units, 1, func(r quota.Receipt) error { return l.Ledger.Settle(ctx, r, units) })
}

// Refund implements quota.Ledger. The units of a call that was granted within
// the allowance return to it.
func (l *Ledger) Refund(ctx context.Context, receipt quota.Receipt) error {
	return l.settle(ctx, receipt, 0, 0, func(r quota.Receipt) error { return l.Ledger.Refund(ctx, r) })
}

// settle writes to the journal before the ledger settles: a hearing that comes
// after the record counts the call as it was or as it is now, never as less.
func (l *Ledger) settle(ctx context.Context, receipt quota.Receipt, units, calls quota.Units, forward func(quota.Receipt) error) error {
	a := l.account(receipt.Account)
	inJournal := receipt.Epoch == 0 && l.lacks(a, receipt.ID)
	if inJournal || receipt.Key == "" {
		err := a.files.append(inJournal, record{kind: settled, at: receipt.At.UnixMicro(), id: receipt.ID, units: units, calls: calls, key: receipt.Key})
		if err != nil && inJournal {
			return fmt.Errorf("journal: %w; the units stay counted", err)
		}
	}
	if inJournal && l.lacks(a, receipt.ID) { // else it has been restored meanwhile
		return nil
	}
	receipt, err := l.asRestored(ctx, a, receipt)
	if err == nil {
		err = forward(receipt)
	}
	isKept := mayLack(err) && receipt.Key == "" && a.grant(receipt.ID) != nil
	if isKept && units > 0 { // what it cost more comes with what is restored
		isKept = a.owe() == nil
	}
	if isKept && calls > 0 {
		return fmt.Errorf("%w; the journal of this host keeps what the call cost", err)
	}
	return err
}

// asRestored returns a receipt with the timestamp that the ledger has for it. A
// call within the allowance may have got another one when it was restored, and
// the ledger another than the journal, if the answer to that was lost.
func (l *Ledger) asRestored(ctx context.Context, a *account, receipt quota.Receipt) (quota.Receipt, error) {
	if receipt.Epoch != 0 {
		return receipt, nil // of the ledger; nothing of the journal is read for it
	}
	g := a.grant(receipt.ID)
	if g == nil || !g.down {
		return receipt, nil
	}
	receipt.At = decide.Time(g.at)
	for _, query := range []quota.Query{
		{Since: receipt.At.Add(-quota.MaxStepBack), Until: receipt.At.Add(quota.MaxStepBack)},
		{}, // all
	} {
		query.Account, query.Key = receipt.Account, receipt.Key
		for e, err := range l.Ledger.Entries(ctx, query) {
			if err != nil {
				return receipt, err
			}
			if e.ID.Client == receipt.ID.Client && uint32(e.ID.Seq) == uint32(receipt.ID.Seq) {
				receipt.At = e.At
				return receipt, nil
			}
		}
	}
	return receipt, nil
}

// mayLack reports whether the ledger may not have what was to be written when
// err was returned: it is down, busy, silent or misconfigured, or the caller
// did not wait.
func mayLack(err error) bool {
	is := func(kind error) bool { return errors.Is(err, kind) }
	return slices.ContainsFunc([]error{quota.ErrLedgerDown, quota.ErrLedgerBusy, quota.ErrLedgerConfig, quota.ErrInDoubt, context.Canceled, context.DeadlineExceeded}, is)
}

// owe makes the next call restore the log, since the journal knows what the
// ledger does not.
func (a *account) owe() error {
	err := a.files.locked(context.Background(), lockPatience, func() error { return a.files.setOwed(true) })
	if err != nil { // a restoration that holds the lock looks for what was appended meanwhile
		err = a.files.setOwed(true)
	}
	return err
}

// lacks reports whether the ledger lacks a call that was granted within
// the allowance.
func (l *Ledger) lacks(a *account, id quota.ID) bool {
	g := a.grant(id)
	return g != nil && g.owed
}

// grant returns a copy of a call that this host was granted, or nil.
func (a *account) grant(id quota.ID) (found *grant) {
	_ = a.withState(func(s *state) error {
		if g := s.grants[id]; g != nil {
			found = new(*g)
		}
		return nil
	})
	return found
}

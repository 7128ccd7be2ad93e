package redisledger

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// epochOf returns the epoch that a head names.
func epochOf(head string) uint64 {
	if len(head) != headBytes {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(head[:lifeBytes]))
}

// logSearch is when a process last searched a log for an entry that it
// knows: over how many connections, and by which head. The log held known
// at that time.
type logSearch struct {
	at    int64
	dials int64
	head  string
	known quota.Receipt
}

// isRecent reports whether a search need not be repeated now: the log is the
// same as far as is known, and the search was less than CheckEvery ago.
func (s *logSearch) isRecent(now *logSearch) bool {
	if s.dials != now.dials || s.head != now.head {
		return false
	}
	since := now.at - s.at
	return s.at != 0 && since >= 0 && since < decide.CheckEvery
}

// remembers returns a *quota.ForgottenError if the log is known to lack what
// the batch knows. It reports true if only the cached head says so, unless that
// is fresh, and forgets it: another process may have restored the log.
func (l *Ledger) remembers(op *scriptRunner, p *spendBatch, isFresh bool) (again bool, err error) {
	switch known := p.batch.Known.Epoch; {
	case known == 0 || known == epochOf(p.head):
		err = l.lookUp(op.ctx, p.batch, p.head)
	case isFresh:
		return false, l.forgotten(op.ctx, p.batch)
	default:
		p.forget(p.head)
		return true, nil
	}
	if _, ok := errors.AsType[*quota.ForgottenError](err); err != nil && !ok && op.doubt {
		return false, l.failed(err, unknown, true)
	}
	return false, err
}

// lookUp returns a *quota.ForgottenError if the log no longer holds the newest
// entry that the batch knows, the one that was known when it was last searched,
// or the newest of this process, which the caller may not have noted yet. It
// reads the log when a connection is new, since another server may answer; when
// the head is, since another client may have restored the log; and once a
// minute.
func (l *Ledger) lookUp(ctx context.Context, batch *quota.Batch, head string) error {
	if batch.Known.ID == (quota.ID{}) || batch.Key != "" {
		return nil
	}
	a, now := l.cache(batch.Account), logSearch{at: l.elapsed(), dials: l.dials.Load(), head: head}
	a.mu.Lock()
	last := a.looked
	own := a.newest
	keeps := a.scopes[ownLog].keeps
	a.mu.Unlock()
	if !keeps || last.isRecent(&now) {
		return nil
	}
	now.known = batch.NewestKnown()
	all := []quota.Receipt{now.known, last.known, own}
	for i, r := range all {
		if slices.ContainsFunc(all[:i], func(earlier quota.Receipt) bool { return earlier.ID == r.ID }) {
			continue
		}
		err := l.lookFor(ctx, batch, r)
		if _, lost := errors.AsType[*quota.ForgottenError](err); lost {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.looked, a.newest.ID = logSearch{}, quota.ID{} // once: the caller may not restore it
		}
		if err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looked = now
	return nil
}

// lookFor returns a *quota.ForgottenError if the log lacks an entry that is not
// too old for it.
func (l *Ledger) lookFor(ctx context.Context, batch *quota.Batch, known quota.Receipt) error {
	if known.ID == (quota.ID{}) {
		return nil
	}
	query := quota.Query{Account: batch.Account, Since: known.At, Until: known.At.Add(time.Microsecond)}
	for e, err := range l.Entries(ctx, query) {
		if err != nil {
			return err
		}
		if e.ID.Client == known.ID.Client && uint32(e.ID.Seq) == uint32(known.ID.Seq) {
			return nil
		}
	}
	before, err := l.snapshot(ctx, l.names(batch.Account, ""), "")
	if err != nil {
		return err
	}
	if !known.At.After(before.statements.Kept) {
		return nil // the log did not keep entries yet
	}
	a := l.cache(batch.Account)
	a.mu.Lock()
	kept := decide.Retain(a.scopes[ownLog].horizon)
	a.mu.Unlock()
	of := *batch
	of.Known = known
	err = l.forgotten(ctx, &of)
	if lost, ok := errors.AsType[*quota.ForgottenError](err); ok && lost.Present.At.Sub(known.At).Microseconds() >= kept {
		return nil // the log has dropped it for its age
	}
	return err
}

// withdraw takes back the grants of a batch that a server has decided before it
// was known to have forgotten. Those of a batch with an id of the caller's
// stay, since its retry finds them.
func (l *Ledger) withdraw(ctx context.Context, p *spendBatch, answers []quota.Answer, why error) error {
	if _, ok := errors.AsType[*quota.ForgottenError](why); !ok {
		return l.failed(why, unknown, true)
	}
	for i := range answers {
		if answers[i].Err != nil || p.mode == named || p.mode == again {
			continue
		}
		if err := l.Refund(ctx, answers[i].Receipt); err != nil {
			return l.failed(errors.Join(why, err), unknown, true)
		}
	}
	return why
}

// forgotten returns a batch's *quota.ForgottenError, with the newest timestamp.
func (l *Ledger) forgotten(ctx context.Context, batch *quota.Batch) error {
	a := l.cache(batch.Account)
	a.mu.Lock()
	epoch := epochOf(a.head)
	a.mu.Unlock()
	for e, err := range l.Entries(ctx, quota.Query{Account: batch.Account, Key: batch.Key, Newest: true}) {
		if err != nil {
			return err
		}
		return batch.Forgotten(epoch, e.At)
	}
	return batch.Forgotten(epoch, time.Time{})
}

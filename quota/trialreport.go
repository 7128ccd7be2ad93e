package quota

import (
	"context"
	"encoding/binary"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// SpendTogether is Guard.SpendTogether for calls whose answers are passed
// to Answered: of this Transport, or of any other on the same ledger, which
// gets the first grant by its token. After a cooldown, the calls of one
// SpendTogether in all processes are granted first, like those of
// RoundTrip, and the others wait for the answer to the first of them, with
// Settle and Refund as answers too. Without an answer, the others wait for
// at most 10 seconds.
func (t *Transport) SpendTogether(ctx context.Context, call Call, count int, maxWait time.Duration) ([]*Grant, error) {
	g := t.Guard
	first, trial, err := g.await(ctx, g.request(ctx, call, count), maxWait, t.holding(), true)
	switch {
	case trial == nil:
	case trial.claimed == nil:
		t.breakers.finish(ctx, g, trial)
	default:
		first.trial, first.claim = trial, packClaim(trial)
		t.breakers.setGranted(trial)
	}
	return first.all(), err
}

// setGranted makes the claim of a trial known to the other calls of
// this process.
func (b *breakers) setGranted(t *trial) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.breaker.trial != t {
		return
	}
	t.granted = &rivalClaim{t.breaker.id, t.claimed.ID, true, lockExpiry}
	t.expires = time.Now().Add(lockExpiry)
	t.wake()
}

// checkReport ends a trial for the calls of this process if its answer has been
// reported to any process, or its claim has expired. In the latter case it
// closes the breaker: programs that report nothing must not hold others up one
// after another. It returns false if the trial goes on.
func (b *breakers) checkReport(ctx context.Context, g *Guard, t *trial) bool {
	outcome, err := t.granted.outcome(ctx, g)
	b.mu.Lock()
	defer b.mu.Unlock()
	isPending := outcome == trialPending && err == nil
	if isPending && time.Now().Before(t.expires) {
		return false
	}
	isOver := !t.breaker.until.After(t.expires.Add(-lockExpiry)) // there was no later cooldown
	mayClose := isPending || outcome == trialPassed
	if isOver && mayClose && b.open[t.breaker.id] == t.breaker {
		delete(b.open, t.breaker.id)
	}
	t.end()
	return true
}

// takeTrial returns the trial that a grant is, once, or nil.
func (g *Grant) takeTrial() *trial {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.trial
	g.trial = nil
	return t
}

// endTrial ends the trial that a grant is, if any. passed says that the
// upstream has accepted the call. The caller holds g.mu.
func (g *Grant) endTrial(ctx context.Context, passed bool) {
	t := g.trial
	if g.trial = nil; t == nil {
		return
	}
	t.passed = t.passed || passed
	t.release(ctx)
}

// packClaim returns a trial for a token.
func packClaim(t *trial) []byte {
	var packed []byte
	for _, n := range []uint64{t.claimed.ID.Client, t.claimed.ID.Seq, uint64(t.repeats + 1)} {
		packed = binary.AppendUvarint(packed, n)
	}
	of := t.breaker.id.text()
	packed = binary.AppendUvarint(packed, uint64(len(of)))
	return append(packed, of...)
}

// claim reads the trial of a grant on an account.
func (t *tokenReader) claim(g *Guard, account string) *trial {
	granted := engine.ID{Client: t.number(), Seq: t.number()}
	repeats := t.number()
	id := budgetID{account: account}
	id.budget, id.key, _ = strings.Cut(t.text(), "\x00")
	t.ok = t.ok && repeats <= maxRepeats+1
	return &trial{breaker: &breaker{id: id}, changed: make(chan struct{}), reported: true,
		claimed: g.Account(account).Claimed(id.claimRequest(), granted), repeats: int(repeats) - 1}
}

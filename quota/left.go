package quota

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
)

// reportedLane attributes what an upstream says that others have spent.
const reportedLane = "upstream"

// lefts is what upstreams said last that is left of budgets. Its zero value is
// ready.
type lefts struct {
	mu   sync.Mutex
	said map[[2]string]Units // by account and budget
}

// lower enters what others have spent of a budget when its upstream says that
// less is left than the ledger believes. What is in flight here is charged
// and not yet seen there, so that a difference is never ours. The ledger is
// asked only when what is left has changed by a hundredth of the limit since it was last.
func (l *lefts) lower(ctx context.Context, g *Guard, call Call, v Verdict) error {
	charge := g.named(call.Account, v.LeftOf)
	if charge == nil || call.Key != "" || v.Left < 0 || v.Left >= charge.Limit || charge.Window.Estimate() {
		return nil
	}
	if !l.mu.TryLock() {
		return nil // another answer is looked at
	}
	defer l.mu.Unlock()
	name := [2]string{call.Account, v.LeftOf}
	last, known := l.said[name]
	if step := max(1, charge.Limit/100); known && v.Left < last+step && v.Left > last-step {
		return nil
	}
	done, err := g.atMost(ctx, call, charge, v.Left)
	if l.said == nil {
		l.said = map[[2]string]Units{}
	}
	if l.said[name] = v.Left; !done {
		delete(l.said, name) // the next answer tries again
	}
	return opError("note what is left of "+v.LeftOf, err)
}

// named returns the budget of that name as calls are charged to it, or nil.
func (g *Guard) named(account, budget string) *Charge {
	for _, b := range g.accounts[account] {
		if b.charge.Budget == budget {
			return b.charge
		}
	}
	return nil
}

// atMost raises what is used of a budget so that at most left remains, and
// reports whether it does not. Several processes may see the same answer's
// difference at once, and one of them enters it: each enters a claim of one unit
// first, and who finds an earlier one in the log that is not taken back yet
// leaves it to that one. Claims are in the log's order, so that exactly one is first.
func (g *Guard) atMost(ctx context.Context, call Call, charge *Charge, left Units) (done bool, err error) {
	claim := Request{Method: call.Method, Caller: Caller{Lane: reportedLane, Job: claimJob}, Units: 1, Force: true, NoCall: true}
	if !charge.Coverage.Covers(claim.Method, claim.Caller) {
		return true, nil // it is for some lanes or regions, of which the upstream knows nothing
	}
	ctx = context.WithoutCancel(ctx)
	if more, err := g.moreThan(ctx, call.Account, charge, left); more <= 0 || err != nil {
		return err == nil, err
	}
	answers, err := g.ledger.Spend(ctx, &Batch{Account: call.Account, Requests: []Request{claim}})
	if err != nil {
		return false, err
	}
	ours := answers[0].Receipt
	defer func() {
		if back := g.ledger.Refund(ctx, ours); !errors.Is(back, ErrStays) { // or else it holds its time
			err = errors.Join(err, back)
		}
		g.refusals.forget()
	}()
	if claimed, err := g.claimed(ctx, ours); claimed || err != nil {
		return false, err
	}
	if charge.Coverage.Measure == ByUnits {
		left-- // our claim's unit, which comes back
	}
	for range maxRounds {
		more, err := g.moreThan(ctx, call.Account, charge, left)
		if more <= 0 || err != nil {
			return err == nil, err
		}
		notes := notesOf(more, charge.Coverage.Measure, Request{Method: call.Method, Caller: Caller{Lane: reportedLane}, Force: true})
		if _, err := g.ledger.Spend(ctx, &Batch{Account: call.Account, Requests: notes}); err != nil {
			return false, err
		}
	}
	return false, nil
}

const (
	claimJob  = "claim"
	claimTime = 10 * time.Second // how long one holds whose process has died
	maxNotes  = 100              // calls entered in one batch
	maxRounds = 2                // batches entered for one answer: the claim must not fall behind MaxSettle
)

// moreThan returns by how much more the ledger believes to be left.
func (g *Guard) moreThan(ctx context.Context, account string, charge *Charge, left Units) (Units, error) {
	standings, err := g.ledger.Standings(ctx, account, "", []*Charge{charge})
	if err != nil {
		return 0, err
	}
	return charge.Limit - left - standings[0].Used, nil
}

// claimed reports whether another claim came before ours and still holds.
func (g *Guard) claimed(ctx context.Context, ours Receipt) (bool, error) {
	for entry, err := range g.ledger.Entries(ctx, Query{Account: ours.Account, Since: ours.At.Add(-claimTime), Until: ours.At}) {
		if err != nil {
			return false, err
		}
		if entry.Caller.Lane == reportedLane && entry.Caller.Job == claimJob && entry.Calls == 0 && entry.Units > 0 {
			return true, nil
		}
	}
	return false, nil
}

// notesOf returns what counts for so much: one note of units, or that many
// calls of none, though not more than maxNotes.
func notesOf(amount Units, measure Measure, r Request) []Request {
	if measure == Calls {
		return slices.Repeat([]Request{r}, int(min(amount, maxNotes)))
	}
	r.Units, r.NoCall = min(amount, MaxUnits), true
	return []Request{r}
}

// maxReason is what a ledger keeps of a cooldown's reason, in bytes.
const maxReason = 200

// sourced adds to a cooldown's reason who asked: 403 quotaExceeded (cron/trending IN).
func sourced(reason string, c Caller) string {
	if c == (Caller{}) {
		return reason
	}
	source := cmp.Or(c.Lane, "-") + "/" + cmp.Or(c.Job, "-")
	if c.Region != "" {
		source += " " + c.Region
	}
	source = " (" + cut(source, maxReason/2) + ")"
	return cut(reason, maxReason-len(source)) + source
}

// cut returns the beginning of text, at most so many bytes, whole characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

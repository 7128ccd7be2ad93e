package quota

import (
	"cmp"
	"context"
	"errors"
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
// difference at once, and one of them enters it.
func (g *Guard) atMost(ctx context.Context, call Call, charge *Charge, left Units) (done bool, err error) {
	note := Request{Method: call.Method, Caller: Caller{Lane: reportedLane}, Force: true, Kind: EntryNote}
	if !charge.Coverage.Covers(note.Method, note.Caller) {
		return true, nil // it is for some lanes or regions, of which the upstream knows nothing
	}
	ctx = context.WithoutCancel(ctx)
	if more, err := g.moreThan(ctx, call.Account, charge, note, left); more == 0 || err != nil {
		return err == nil, err
	}
	err = g.Correct(ctx, call.Account, func() error {
		more, err := g.moreThan(ctx, call.Account, charge, note, left)
		if more == 0 || err != nil {
			done = err == nil
			return err
		}
		if charge.Coverage.Measure == Calls {
			note.Calls = min(more, MaxUnits)
		} else {
			note.Units = min(more, MaxUnits)
		}
		_, err = g.ledger.Spend(ctx, &Batch{Account: call.Account, Requests: []Request{note}})
		done = err == nil
		return err
	})
	if errors.Is(err, ErrCorrecting) {
		err = nil
	}
	return done, err
}

// moreThan returns by how much more the ledger believes to be left, 0 when it
// is not more, or nothing may be entered now. Around the boundary of a calendar
// window what is entered counts into both, and the upstream may speak of the
// one that ends. And a budget of a much shorter window, an hour's beside a
// day's, would have to hold at once what others spent all day: it is not to be
// spent by that for more than a minute.
func (g *Guard) moreThan(ctx context.Context, account string, charge *Charge, note Request, left Units) (Units, error) {
	charges := []*Charge{charge}
	for _, b := range g.accounts[account] {
		length := b.charge.Window.Horizon()
		if b.charge.Coverage.Measure == charge.Coverage.Measure && length > time.Minute && 2*length <= charge.Window.Horizon() && b.charge.Coverage.Covers(note.Method, note.Caller) {
			charges = append(charges, b.charge)
		}
	}
	standings, err := g.ledger.Standings(ctx, account, "", charges)
	if err != nil {
		return 0, err
	}
	more := max(0, charge.Limit-left-standings[0].Used)
	for i, shorter := range charges[1:] {
		if more > shorter.Limit-standings[1+i].Used {
			return 0, nil
		}
	}
	for _, b := range g.accounts[account] {
		if b.charge.Window.between(standings[0].At) && b.charge.Coverage.Covers(note.Method, note.Caller) {
			return 0, nil
		}
	}
	return more, nil
}

// Correct runs a correction of an account's log while no other process on the
// ledger does, so that what two of them see missing is entered once. When
// another does, it returns ErrCorrecting and does not run it. Who dies while it
// corrects keeps the others waiting for 10 seconds; a correction must not take longer.
//
// Each claims the right in a log of its own key, which no budget covers: of the claims that are
// not taken back the first in that log's order has it.
func (g *Guard) Correct(ctx context.Context, account string, correction func() error) (err error) {
	claim := Request{Method: "claim", Caller: Caller{Lane: reportedLane}, Units: 1, Force: true,
		Charges: []*Charge{{Budget: "claim", Coverage: NewCoverage(Coverage{}), Limit: 1, Window: Sliding(claimTime)}}}
	answers, err := g.ledger.Spend(ctx, &Batch{Account: account, Key: claimKey, Requests: []Request{claim}})
	if err != nil {
		return err
	}
	if answers[0].Err != nil {
		return answers[0].Err
	}
	ours := answers[0].Receipt
	defer func() {
		g.refusals.forget()
		if back := g.ledger.Refund(context.WithoutCancel(ctx), ours); !errors.Is(back, ErrStays) { // or else it holds its time
			err = errors.Join(err, back)
		}
	}()
	for entry, err := range g.ledger.Entries(ctx, Query{Account: account, Key: claimKey, Since: ours.At.Add(-claimTime), Until: ours.At}) {
		if err != nil {
			return err
		}
		if entry.Calls > 0 {
			return ErrCorrecting
		}
	}
	return correction()
}

// reservedKeys is what the keys of a Guard's own logs begin with.
const reservedKeys = "ration: "

const (
	claimKey  = reservedKeys + "corrections"
	claimTime = 10 * time.Second // how long one holds whose process has died
)

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

package ledgercopy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// tail is the end of a log as it was copied last: the entries that can still be
// settled in place.
type tail struct {
	entries []quota.Entry
	last    time.Time // the newest timestamp
}

// inFlight is how long after the newest entry of a log no call in it is
// in flight.
const inFlight = time.Hour

// copyLog copies the entries of one log, and what its counters hold
// beside them.
func (a *account) copyLog(ctx context.Context, key string) error {
	var entries []quota.Entry
	words := map[string]string{} // few are different
	word := func(s *string) {
		if have, ok := words[*s]; ok {
			*s = have
		} else {
			words[*s] = *s
		}
	}
	var sum total
	for e, err := range a.From.Entries(ctx, quota.Query{Account: a.name, Key: key}) {
		if err != nil {
			return a.from(err)
		}
		for _, s := range []*string{&e.Method, &e.Caller.Lane, &e.Caller.Job, &e.Caller.Region} {
			word(s)
		}
		entries = append(entries, e)
		sum.entries++
		sum.units += e.Units
		sum.calls += e.Calls
		if a.Progress != nil {
			a.Progress(a.name, int(a.report.Entries)+len(entries))
		}
	}
	if len(entries) > 0 {
		if err := a.restore(ctx, key, entries, sum); err != nil {
			return err
		}
	}
	before, known := a.tails[key]
	if !known && a.report.State != Ready && key == "" {
		var err error
		if before, err = a.readCopied(ctx); err != nil {
			return err
		}
	}
	if !known && !quota.IsReserved(key) {
		a.report.add(&sum)
	}
	if before == nil && !a.opened && a.report.State == Unfinished {
		if err := a.lower(ctx, key, entries); err != nil {
			return err
		}
	}
	t := newTail(entries, before, a.now)
	a.tails[key] = t
	isOfAccount := key == "" && !quota.IsReserved(a.name)
	if isOfAccount && t != nil && len(t.entries) > 0 {
		if err := a.restore(ctx, copiedKey, t.entries, total{}); err != nil {
			return err
		}
	}
	if a.opened {
		return nil
	}
	return a.copyCounters(ctx, key, entries)
}

// newTail returns the end of a log, or nil if none of its calls is in
// flight. What was copied before stays as it was then, since a restoration
// lowers nothing.
func newTail(entries []quota.Entry, before *tail, now time.Time) *tail {
	n := len(entries)
	if n == 0 {
		return &tail{}
	}
	t := &tail{last: entries[n-1].At}
	if t.last.Before(now.Add(-inFlight)) {
		return nil
	}
	t.entries = append(t.entries, lastOf(entries)...)
	if before == nil {
		return t
	}
	for i := range t.entries {
		e := &t.entries[i]
		if n := slices.IndexFunc(before.entries, func(was quota.Entry) bool { return was.At.Equal(e.At) }); n >= 0 {
			was := &before.entries[n]
			e.Units = was.Units
			e.Calls = was.Calls
			e.Kind = was.Kind
		}
	}
	return t
}

// lastOf returns the entries that can still be lowered in place.
func lastOf(entries []quota.Entry) []quota.Entry {
	return entries[max(0, len(entries)-quota.MaxSettle-1):]
}

// lower settles the entries that an interrupted copy has left in the new
// ledger, and that were settled to less, or refunded, in the old one since.
func (a *account) lower(ctx context.Context, key string, entries []quota.Entry) error {
	present := map[int64]*quota.Entry{}
	for i := range lastOf(entries) {
		e := &lastOf(entries)[i]
		if e.Kind == quota.EntryCall || e.Kind == quota.EntryRefunded {
			present[e.At.UnixMicro()] = e
		}
	}
	if len(present) == 0 {
		return nil
	}
	for copied, err := range a.To.Entries(ctx, quota.Query{Account: a.name, Key: key, Since: lastOf(entries)[0].At}) {
		if err != nil {
			return a.to(err)
		}
		if e := present[copied.At.UnixMicro()]; e != nil && (copied.Units > e.Units || copied.Calls > e.Calls) {
			if err := a.settle(ctx, key, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// copiedKey is the key of a log in the new ledger that has the end of the
// account's own log as it was copied last. It tells a copy that is run again
// what has changed in the old ledger, and not in the new one.
const copiedKey = "ration: copied"

// readCopied returns the end of the account's own log as it was copied last, or
// nil if no copy has come so far.
func (a *account) readCopied(ctx context.Context) (*tail, error) {
	var t *tail
	for e, err := range a.To.Entries(ctx, quota.Query{Account: a.name, Key: copiedKey}) {
		if err != nil {
			return nil, a.to(err)
		}
		if t == nil {
			t = &tail{}
		}
		t.entries, t.last = append(t.entries, e), e.At
	}
	return t, nil
}

// spare is how much longer the new ledger keeps entries than they are old when
// they are read: they are older when they arrive.
const spare = 10 * time.Minute

// restore restores the entries of one log, whose sum it checks.
func (a *account) restore(ctx context.Context, key string, entries []quota.Entry, sum total) error {
	history := a.now.Sub(entries[0].At) + quota.MaxClockSkew + spare
	if a.opened && a.report.State == Moved { // it keeps what it needs
		history = 0
	}
	history = min(max(history, time.Hour), quota.MaxHistory).Truncate(time.Microsecond)
	rest, accepted := splitAccepted(entries)
	for _, part := range [][]quota.Entry{rest, accepted} {
		if len(part) == 0 {
			continue
		}
		if _, err := a.To.Restore(ctx, &quota.Restoration{Account: a.name, Key: key, Entries: part, History: history}); err != nil {
			return a.to(err)
		}
	}
	if a.opened { // the new ledger may have dropped some since
		return nil
	}
	got, err := totalOf(ctx, a.To, a.name, key)
	if err != nil {
		return a.to(err)
	}
	if got.entries < sum.entries || got.units < sum.units || got.calls < sum.calls {
		return a.failed("%s has %d entries of %d units and %d calls, of %d entries of %d units and %d calls that were copied; it stays closed",
			a.ToName, got.entries, got.units, got.calls, sum.entries, sum.units, sum.calls)
	}
	return nil
}

// splitAccepted returns the notes of accepted losses apart. A log that has one
// takes no older entries, so these notes are restored last.
func splitAccepted(entries []quota.Entry) (rest, accepted []quota.Entry) {
	accepts := func(e quota.Entry) bool { return e.AcceptsLoss() }
	if !slices.ContainsFunc(entries, accepts) {
		return entries, nil
	}
	for _, e := range entries {
		if accepts(e) {
			accepted = append(accepted, e)
		} else {
			rest = append(rest, e)
		}
	}
	return rest, accepted
}

// CopyReserved copies the entries of an account that a Guard keeps for itself,
// such as its claims, which stays in use in both ledgers. Call it before Move,
// so that no process claims in the new ledger what another one has claimed in
// the old one, and Follow afterwards.
func (c *Copy) CopyReserved(ctx context.Context, name string) (*Moving, error) {
	a := c.account(name)
	a.opened = true
	if err := a.checkClocks(ctx); err != nil {
		return nil, err
	}
	return &Moving{a}, a.copyReserved(ctx)
}

// copyReserved copies the logs that are new, and what has changed in
// the others.
func (a *account) copyReserved(ctx context.Context) error {
	keys, err := a.keys(ctx)
	if err != nil {
		return a.from(err)
	}
	if err := a.copyLate(ctx); err != nil {
		return err
	}
	for _, key := range keys {
		if _, known := a.tails[key]; known {
			continue
		}
		if err := a.copyLog(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// copyLate copies what the old ledger got in the logs since they were copied.
func (a *account) copyLate(ctx context.Context) error {
	for key, t := range a.tails {
		if t == nil {
			continue
		}
		since := t.last.Add(time.Microsecond)
		if len(t.entries) > 0 {
			since = t.entries[0].At
		}
		var present []quota.Entry
		for e, err := range a.From.Entries(ctx, quota.Query{Account: a.name, Key: key, Since: since}) {
			if err != nil {
				return a.from(err)
			}
			present = append(present, e)
		}
		if err := a.copyChanges(ctx, key, t, present); err != nil {
			return err
		}
	}
	return nil
}

// copyChanges copies how the end of a log has changed since.
func (a *account) copyChanges(ctx context.Context, key string, t *tail, present []quota.Entry) error {
	before := make(map[int64]*quota.Entry, len(t.entries))
	for i := range t.entries {
		before[t.entries[i].At.UnixMicro()] = &t.entries[i]
	}
	again := false
	for _, e := range present {
		was := before[e.At.UnixMicro()]
		isCall := e.Kind == quota.EntryCall || e.Kind == quota.EntryRefunded
		switch {
		case was != nil && isUnchanged(was, &e):
			continue
		case was == nil || !isCall:
			again = true
		default:
			if err := a.settle(ctx, key, &e); err != nil {
				return err
			}
			if key == "" {
				if err := a.settle(ctx, copiedKey, &e); err != nil {
					return err
				}
			}
			*was = e
		}
		a.report.Late++
	}
	if again { // an addition belongs to an earlier call
		return a.copyLog(ctx, key)
	}
	return nil
}

// isUnchanged reports whether a call costs what it did.
func isUnchanged(was, is *quota.Entry) bool {
	return was.Units == is.Units && was.Calls == is.Calls && was.Kind == is.Kind
}

// settle changes an entry of the new ledger to what the call has cost.
func (a *account) settle(ctx context.Context, key string, e *quota.Entry) (err error) {
	receipt := quota.Receipt{Account: a.name, Key: key, ID: e.ID, At: e.At}
	if e.Kind == quota.EntryRefunded {
		err = a.To.Refund(ctx, receipt)
	} else {
		err = a.To.Settle(ctx, receipt, e.Units)
	}
	if errors.Is(err, quota.ErrStays) {
		if key != copiedKey {
			a.report.Stays++
		}
		return nil
	}
	return a.to(err)
}

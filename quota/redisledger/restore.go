package redisledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

const (
	restorePatience  = 30 * time.Second       // of a Restore without a deadline
	patiencePerEntry = 100 * time.Microsecond // more
	restoreAtOnce    = 1000                   // records in one command
	maxRestores      = 300                    // how often a Restore begins again because the log or the head has changed
	restorePause     = 10 * time.Millisecond  // at most, between these
	besideExpiry     = time.Hour              // of what a restoration keeps beside the log
)

// Restore implements quota.Ledger. It reads the log, writes the restored one
// beside it, and puts that in its place unless the log has changed meanwhile
// other than by calls and settlements.
func (l *Ledger) Restore(ctx context.Context, r *quota.Restoration) (quota.RestoreResult, error) {
	if err := r.Check(); err != nil {
		return quota.RestoreResult{}, err
	}
	if err := ctx.Err(); err != nil {
		return quota.RestoreResult{}, context.Cause(ctx)
	}
	within, cancel := l.bounded(ctx, restorePatience+time.Duration(len(r.Entries))*patiencePerEntry)
	defer cancel()
	var unanswered quota.RestoreResult // what a try found whose answer was lost
	tries := 0
	for ; tries < maxRestores; tries++ {
		op := &scriptRunner{ledger: l, ctx: within}
		done, swapped, err := l.restore(within, op, r)
		if errors.Is(err, errUnstable) {
			err = nil // the head changed with each round; it is another try
		}
		isLate := within.Err() != nil && ctx.Err() == nil
		if isLate && tries > 0 && !swapped {
			break // the server is up
		}
		if err != nil {
			return quota.RestoreResult{}, ended(ctx, err)
		}
		if isDone := done.Entries == 0 && done.Noted == 0; swapped && isDone && unanswered.Entries+int(unanswered.Noted) > 0 {
			unanswered.Known, unanswered.Gaps = done.Known, done.Gaps
			return unanswered, nil
		}
		if swapped {
			return done, nil
		}
		if op.lost > 0 {
			unanswered = done
		}
		select {
		case <-within.Done():
		case <-time.After(rand.N(restorePause)):
		}
	}
	return quota.RestoreResult{}, fmt.Errorf("%w: redis at %s: the log of %s changed during each of %d tries to restore it; try again in a moment; if it stays so, look for another program that writes its keys", quota.ErrLedgerBusy, l.where, r.Account, tries)
}

// restore restores a log once. It reports false if the log changed meanwhile
// other than by calls and settlements.
func (l *Ledger) restore(ctx context.Context, op *scriptRunner, r *quota.Restoration) (done quota.RestoreResult, swapped bool, err error) {
	n := l.names(r.Account, r.Key)
	scope := scopeOf(r.Key)
	keeping := &learnRequest{}
	if r.History > 0 {
		keeping.coverages[scope] = []demand{historyDemand(r.History)}
	}
	soon, cancel := l.bounded(ctx, patience)
	defer cancel()
	if err := l.learn(&scriptRunner{ledger: l, ctx: soon}, r.Account, keeping); err != nil {
		return done, false, err // a server that is down is not waited for
	}
	a := l.cache(r.Account)
	a.mu.Lock()
	of := a.scopes[scope]
	done.Known = quota.Receipt{Account: r.Account, Key: r.Key, Epoch: epochOf(a.head)}
	a.mu.Unlock()
	if !of.keeps {
		return done, true, nil
	}
	before, err := l.snapshot(ctx, n, random(6))
	if err != nil {
		return done, false, err
	}
	before.epoch = done.Known.Epoch
	restorer := decide.Restorer{Statements: before.statements, Epoch: done.Known.Epoch, Since: before.since}
	asRead := quota.Query{Account: r.Account, Key: r.Key, Until: before.newest().Add(time.Microsecond)} // the script has what came since
	for e, err := range l.Entries(ctx, asRead) {
		if err != nil {
			return done, false, err
		}
		restorer.Entries = append(restorer.Entries, e)
	}
	now, err := l.storeTime(ctx)
	if err != nil {
		return done, false, err
	}
	newest := int64(0)
	if k := len(restorer.Entries); k > 0 {
		newest = restorer.Entries[k-1].At.UnixMicro()
	}
	if err := decide.CheckClock(r.Account, r.Key, r.Clock, now, newest); err != nil {
		return done, false, err
	}
	restorer.Now, restorer.Oldest = decide.Time(now), decide.Time(now-decide.Retain(of.horizon))
	present := done.Known
	done = restorer.Restore(r)
	done.Known.Account = present.Account
	done.Known.Key = present.Key
	done.Known.Epoch = restorer.Epoch
	life := ""
	if restorer.Epoch != present.Epoch {
		life = string(binary.BigEndian.AppendUint64(nil, restorer.Epoch))
	}
	swapped, err = l.swap(ctx, op, r, &restorer, before, life)
	return done, swapped, err
}

// logSnapshot is what a log is before it is restored.
type logSnapshot struct {
	epoch      uint64 // of the account when it was last learned
	mark       string // in the list of what is settled meanwhile; empty if the log is not to be restored
	listed     int64  // how long that list is with the mark
	records    int64
	last       string // the last record
	statements decide.Statements
	since      time.Time // since when the log has its epoch, if its first records are older
}

// newest returns the log's newest timestamp.
func (s *logSnapshot) newest() time.Time {
	if len(s.last) < 7 {
		return time.Time{}
	}
	return decide.Time(value(s.last[:7]))
}

// snapshot reads what a log is. With a mark, what is settled from now on is
// listed behind it.
func (l *Ledger) snapshot(ctx context.Context, n names, mark string) (s logSnapshot, err error) {
	s.mark = mark
	var args []any
	if mark != "" {
		args = []any{mark, besideExpiry.Milliseconds()}
	}
	op := &scriptRunner{ledger: l, ctx: ctx}
	reply, err := op.run(&snapshotScript, []string{n.meta, n.log, n.meanwhile()}, args)
	if err != nil {
		return s, err
	}
	s.listed, s.records = reply.number(), reply.number()
	first, last := reply.text(), reply.text()
	heard, from := reply.text(), reply.text()
	if reply.bad {
		return s, l.failed(errMalformed, unknown, true)
	}
	s.last = last
	if micros, err := strconv.ParseInt(from, 10, 64); err == nil && micros > 0 {
		s.since = decide.Time(micros)
	}
	if s.statements, err = decide.ParseStatements([]byte(heard)); err != nil {
		return s, fmt.Errorf("%w: redis at %s: what clients have heard of %s is malformed: %w", quota.ErrLedgerConfig, l.where, n.log, err)
	}
	if len(first) >= 19 && value(first[17:19]) == 0 { // it has the newest timestamp from before the log kept entries
		if begun := decide.Time(value(first[:7])); begun.After(s.statements.Kept) {
			s.statements.Kept = begun
		}
	}
	return s, nil
}

// storeTime returns the ledger's time in microseconds.
func (l *Ledger) storeTime(ctx context.Context) (int64, error) {
	if l.now != nil {
		return l.now().UnixMicro(), nil
	}
	cmd := redis.NewTimeCmd(ctx, "time")
	if err := l.process(ctx, cmd); err != nil {
		return 0, l.failed(err, classify(err), false)
	}
	return cmd.Val().UnixMicro(), nil
}

// swap writes the restored log and puts it in the place of the present one. A
// life that is not empty is the account's new one.
func (l *Ledger) swap(ctx context.Context, op *scriptRunner, r *quota.Restoration, restorer *decide.Restorer, before logSnapshot, life string) (bool, error) {
	numbers, err := l.labelNumbers(op, r.Account, restorer.Entries)
	if err != nil {
		return false, err
	}
	n := l.names(r.Account, r.Key)
	beside := n.log + ":r" + random(6)
	written, err := l.store(ctx, beside, restorer.Entries, numbers, before.newest())
	if err != nil {
		_, _ = l.send(ctx, []any{"del", beside}) // or it expires
		return false, l.failed(err, classify(err), false)
	}
	now, _ := l.clock(0)
	head := ""
	reply, err := l.inform(op, r.Account, func(a *accountCache) (*script, []string, []any) {
		scope, mark := scopeOf(r.Key), before.mark
		of := &a.scopes[scope]
		if head = a.head; epochOf(head) != before.epoch {
			mark = "" // of no list: the log is read again
		}
		what := number(number([]byte{flag(scope)}, of.horizon, 7), before.records, 4)
		what = number(number(what, int64(written), 4), before.listed, 4)
		keys := append([]string{n.meta, n.log, beside, n.meanwhile()}, of.sourceKeys(n)...)
		args := []any{head, now, string(what), before.last, string(restorer.Statements.Format()), life, packUncounted(restorer.Uncounted, numbers), mark}
		if n.named != "" {
			keys, args = append(keys, n.named), append(args, r.Key)
		}
		return &restoreScript, keys, args
	})
	if err != nil {
		_, _ = l.send(ctx, []any{"del", beside}) // or it expires
		return false, err
	}
	l.cache(r.Account).forget(head)
	swapped := reply.number() == 1
	if reply.bad {
		return false, l.failed(errMalformed, config, op.doubt)
	}
	return swapped, nil
}

// packUncounted packs what counters have not counted, see restore.lua.
func packUncounted(entries []quota.Entry, numbers map[label]int64) string {
	var b []byte
	for i := range entries {
		e := &entries[i]
		b = number(number(number(b, e.At.UnixMicro(), 7), int64(e.Units), 4), int64(e.Calls), 4)
		b = number(b, numbers[label{e.Method, e.Caller}], 2)
	}
	return string(b)
}

// store writes entries to a list, and returns how many records it then has. If
// the log had a later timestamp, it stays the newest. The list expires if its
// writer is killed before the list is the log, which lives longer.
func (l *Ledger) store(ctx context.Context, list string, entries []quota.Entry, numbers map[label]int64, newest time.Time) (written int, err error) {
	if n := len(entries); n > 0 && newest.After(entries[n-1].At) {
		newestAlone := quota.Entry{At: newest, Kind: quota.EntryRefunded} // of label 0
		entries = append(slices.Clone(entries), newestAlone)
		numbers = maps.Clone(numbers)
		numbers[label{}] = 0
	}
	records, total := []any{"rpush", list}, int64(0)
	for i := range entries {
		e := &entries[i]
		total += int64(e.Units)
		records = append(records, packRecord(e, total, numbers[label{e.Method, e.Caller}]))
		if len(records) < restoreAtOnce && i < len(entries)-1 {
			continue
		}
		if _, err := l.send(ctx, records); err != nil {
			return 0, err
		}
		if i < restoreAtOnce && l.now == nil { // with the clock of a test no log expires
			if _, err := l.send(ctx, []any{"pexpire", list, besideExpiry.Milliseconds()}); err != nil {
				return 0, err
			}
		}
		records = records[:2]
	}
	return len(entries), nil
}

// labelNumbers returns the numbers of entries' labels, some thousand at once.
func (l *Ledger) labelNumbers(op *scriptRunner, account string, entries []quota.Entry) (map[label]int64, error) {
	numbers := map[label]int64{}
	w := &learnRequest{}
	learn := func() error {
		if err := l.learn(op, account, w); err != nil {
			return err
		}
		a := l.cache(account)
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, name := range w.labels {
			if have := a.labels[name]; have != nil {
				numbers[name] = have.number
			}
		}
		w = &learnRequest{}
		return nil
	}
	for i := range entries {
		name := label{entries[i].Method, entries[i].Caller}
		if _, ok := numbers[name]; ok {
			continue
		}
		numbers[name] = otherLabel
		if name.method != quota.OtherMethod {
			w.labels = append(w.labels, name)
		}
		if len(w.labels) == restoreAtOnce {
			if err := learn(); err != nil {
				return nil, err
			}
		}
	}
	return numbers, learn()
}

// otherLabel is the number of unknown labels, see learn.lua.
const otherLabel = 1<<16 - 1

// packRecord packs an entry as a record of the log, see layout.lua.
func packRecord(e *quota.Entry, total, label int64) string {
	amount, tail := int64(e.Units), []byte(nil)
	switch e.Kind {
	case quota.EntryCall:
	case quota.EntryNote, quota.EntryCorrection:
		amount, tail = amount|1<<31, append(number(nil, int64(e.Calls), 4), byte(e.Kind))
	default:
		amount |= 1 << 31
	}
	b := number(number(number(nil, e.At.UnixMicro(), 7), total&(1<<48-1), 6), amount, 4)
	b = number(number(number(b, label, 2), int64(e.ID.Client), 6), int64(e.ID.Seq&(1<<32-1)), 4)
	return string(append(b, tail...))
}

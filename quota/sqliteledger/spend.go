package sqliteledger

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/combine"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// spend decides one batch in one transaction, unless the cache can refuse
// all of it. Its context is the combiner's, which is never canceled.
func (l *Ledger) spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	answers := make([]quota.Answer, len(batch.Requests))
	if l.refuseFromCache(ctx, batch, answers) {
		return answers, nil
	}
	var stopped error
	name := logName{batch.Account, batch.Key}
	own, _ := l.newest.Load(name)
	err := l.write(ctx, func(t *tx) {
		g := t.log(name)
		stopped = decide.CheckClock(batch.Account, batch.Key, batch.Clock, t.wall, g.newest)
		if stopped == nil && t.inDoubt() {
			stopped = t.askUpstream(batch)
		}
		if stopped == nil {
			stopped = t.checkKnown(g, batch, own)
		}
		if stopped == nil && g.id == 0 {
			stopped = t.checkLookAlike(batch.Account)
		}
		var last *lastBatch
		if stopped == nil {
			last, stopped = t.lastBatchOf(g, batch)
		}
		if stopped == nil {
			t.decide(g, batch, last, answers, combine.Stays(ctx))
		}
	})
	err = cmp.Or(err, stopped)
	if isGone(err) && batch.Known != (quota.Receipt{}) {
		l.damaged.Store(isDamaged(err))
		err = batch.Forgotten(0, time.Time{})
	}
	if err != nil {
		if _, ok := errors.AsType[*quota.ForgottenError](err); ok {
			l.newest.CompareAndDelete(name, own) // once: the caller may not restore it
		}
		return nil, err
	}
	if batch.Key == "" {
		l.keepNewest(name, answers)
	}
	return answers, nil
}

// keepNewest keeps the newest of the grants of a log. Those of a repeated batch
// may be older.
func (l *Ledger) keepNewest(name logName, answers []quota.Answer) {
	for i := range slices.Backward(answers) {
		if answers[i].Err != nil {
			continue
		}
		have, ok := l.newest.Load(name)
		if !ok || have.(quota.Receipt).At.Before(answers[i].Receipt.At) {
			l.newest.Store(name, answers[i].Receipt)
		}
		return
	}
}

// checkLookAlike checks the name of an account, once in a process, when it
// needs a new log.
func (t *tx) checkLookAlike(account string) (err error) {
	if t.ledger.accounts[account] {
		return nil
	}
	has := false
	t.query("accounts", func(row []driver.Value) {
		has = has || text(row[0]) == account
		err = cmp.Or(err, quota.CheckLookAlike(account, text(row[0])))
	})
	if has || err == nil {
		t.ledger.accounts[account] = true
		return nil
	}
	return err
}

// errLeft answers requests whose callers did not wait for the transaction.
var errLeft = errors.New("its caller has left")

// decide answers a batch and records what it grants. stays says which callers
// still wait; nil means all.
func (t *tx) decide(g *log, batch *quota.Batch, last *lastBatch, answers []quota.Answer, stays []bool) {
	log, judge := &txLog{t, g}, t.judge(g.name)
	charges := 0
	for i := range batch.Requests {
		charges += len(batch.Requests[i].Charges)
	}
	held := make([]quota.Held, 0, charges)
	granted := false
	t.recordHistory(g, batch.History)
	for i := range batch.Requests {
		if t.err != nil {
			return
		}
		id := quota.ID{Client: batch.Client, Seq: batch.Seq + uint64(i)}
		stamp, repeated := last.stamp(uint64(i))
		if !repeated && stays != nil && !stays[i] {
			answers[i].Err = errLeft
			continue
		}
		if !repeated {
			r := &batch.Requests[i]
			if err := t.admit(log, judge, batch, r); err != nil {
				answers[i] = t.refusal(g, err)
				continue
			}
			stamp = t.add(g, &entry{units: int64(r.Units), calls: int64(r.Count()), kind: r.Kind, id: id, method: r.Method, caller: r.Caller})
			last.add(uint64(i), stamp)
			granted = true
			n := len(held)
			held = judge.Held(log, r, stamp, held)
			answers[i].Held = held[n:len(held):len(held)]
		}
		answers[i].Receipt = quota.Receipt{Account: batch.Account, Key: batch.Key, ID: id, At: decide.Time(stamp), Epoch: g.epoch}
	}
	if granted {
		t.writeLastBatch(g, batch.Client, last)
		t.rotate(g)
		t.trim(g)
		t.addSums(g)
		g.refused = nil // it may be from before an entry of this batch
	}
	t.save(g)
}

// refusal returns the answer with an error.
func (t *tx) refusal(g *log, err error) quota.Answer {
	if !errors.Is(err, quota.ErrRefused) {
		return quota.Answer{Receipt: quota.Receipt{Epoch: g.epoch}, Err: err}
	}
	if g.refused == nil {
		g.refused = t.newestEntry(g)
	}
	return quota.Answer{Receipt: *g.refused, Err: err}
}

// newestEntry returns a log's newest entry but for notes, with its epoch.
func (t *tx) newestEntry(g *log) *quota.Receipt {
	newest := &quota.Receipt{Epoch: g.epoch}
	if row := t.queryRow("entry-newest", g.id, int64(quota.EntryNote), decide.Retain(g.horizon)); row != nil {
		newest.At, newest.ID = decide.Time(integer(row[0])), quota.ID{Client: uint64(integer(row[1])), Seq: uint64(integer(row[2]))}
	}
	return newest
}

// admit decides a request. While the clock is in doubt, it must fit by
// both times.
func (t *tx) admit(log *txLog, judge *decide.Judge, batch *quota.Batch, r *quota.Request) error {
	if t.inDoubt() && batch.Key == "" {
		later := *judge
		later.Now = t.wall
		if err := later.Admit(log, r); err != nil {
			return err
		}
	}
	err := judge.Admit(log, r)
	if _, refused := errors.AsType[*quota.RefusedError](err); refused && judge.Now < t.wall {
		return t.clockError(batch)
	}
	return err
}

// errNotCached means that a question cannot be answered from the cache.
var errNotCached = errors.New("not in memory")

// refuseFromCache refuses a batch if its log has refused another, the file
// has not changed since, and the cache refuses all of the batch. It needs no
// lock, because it writes nothing and every refund changes the file.
func (l *Ledger) refuseFromCache(ctx context.Context, batch *quota.Batch, answers []quota.Answer) bool {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-l.turn }()
	g := l.logs[logName{batch.Account, batch.Key}]
	if g == nil || g.refused == nil || l.conn == nil {
		return false
	}
	last, cached := g.clients[batch.Client]
	mayBeKnown := last != nil && (last.seq == batch.Seq || batch.Once)
	mayBeGranted := !cached || mayBeKnown
	if mayBeGranted && !l.combiner.Names(batch) {
		return false
	}
	l.conn.reset()
	if l.checkReplaced() != nil || !l.unchanged() {
		return false
	}
	t := &tx{conn: l.conn, ledger: l, cacheOnly: true}
	t.setClock(false)
	clock := decide.CheckClock(batch.Account, batch.Key, batch.Clock, t.wall, g.newest)
	known := batch.CheckKnown(g.epoch, decide.Time(g.newest))
	if t.inDoubt() || cmp.Or(clock, known) != nil {
		return false
	}
	log, judge := &txLog{t, g}, t.judge(g.name)
	for i := range batch.Requests {
		answers[i] = t.refusal(g, judge.Admit(log, &batch.Requests[i]))
		if answers[i].Err == nil || t.err != nil {
			clear(answers)
			return false
		}
	}
	return true
}

// unchanged reports whether the cache is valid for the file.
func (l *Ledger) unchanged() bool {
	l.conn.exec("version") // SQLite notices a change only when it reads
	return l.conn.version() == l.version && l.conn.err == nil
}

// lastBatch holds the stamps of the grants of a client's last batch. Most are
// consecutive and form one run.
type lastBatch struct {
	seq  uint64
	runs []run
}

// run is a number of consecutive requests that were granted at
// consecutive microseconds.
type run struct {
	first, count uint64
	stamp        int64 // of the first
}

func (m *lastBatch) stamp(i uint64) (int64, bool) {
	if m == nil {
		return 0, false
	}
	for _, r := range m.runs {
		if i >= r.first && i < r.first+r.count {
			return r.stamp + int64(i-r.first), true
		}
	}
	return 0, false
}

func (m *lastBatch) add(i uint64, stamp int64) {
	if m == nil {
		return
	}
	if n := len(m.runs); n > 0 {
		if last := &m.runs[n-1]; i == last.first+last.count && stamp == last.stamp+int64(last.count) {
			last.count++
			return
		}
	}
	m.runs = append(m.runs, run{i, 1, stamp})
}

func (m *lastBatch) encode() []byte {
	var b []byte
	for _, r := range m.runs {
		b = binary.AppendUvarint(b, r.first)
		b = binary.AppendUvarint(b, r.count)
		b = binary.AppendVarint(b, r.stamp)
	}
	return b
}

func decodeRuns(b []byte) []run {
	var runs []run
	for len(b) > 0 {
		first, n := binary.Uvarint(b)
		count, m := binary.Uvarint(b[max(n, 0):])
		stamp, k := binary.Varint(b[max(n, 0)+max(m, 0):])
		if n <= 0 || m <= 0 || k <= 0 {
			return nil
		}
		runs, b = append(runs, run{first, count, stamp}), b[n+m+k:]
	}
	return runs
}

// lastBatchOf returns the grants of an earlier attempt at a batch, none if this
// is the first, and nil if the batch cannot be repeated.
func (t *tx) lastBatchOf(g *log, batch *quota.Batch) (*lastBatch, error) {
	if t.ledger.combiner.Names(batch) {
		return nil, nil
	}
	last := t.cachedLastBatch(g, batch.Client)
	switch {
	case last == nil:
		return &lastBatch{seq: batch.Seq}, nil
	case last.seq == batch.Seq:
		return last, nil
	case batch.Once:
		return nil, quota.ErrReused
	}
	return &lastBatch{seq: batch.Seq}, nil
}

func (t *tx) cachedLastBatch(g *log, client uint64) *lastBatch {
	last, cached := g.clients[client]
	if !cached {
		last = t.readLastBatch(g, client)
		g.cacheLastBatch(client, last)
	}
	return last
}

// forgetGrant forgets that a request was granted, so that a repeat is charged.
func (t *tx) forgetGrant(g *log, id quota.ID, stamp int64) {
	last := t.cachedLastBatch(g, id.Client)
	if last == nil {
		return
	}
	if at, ok := last.stamp(id.Seq - last.seq); !ok || at != stamp {
		return
	}
	kept := &lastBatch{seq: last.seq}
	for _, r := range last.runs {
		for n := range r.count {
			if r.first+n != id.Seq-last.seq {
				kept.add(r.first+n, r.stamp+int64(n))
			}
		}
	}
	t.writeLastBatch(g, id.Client, kept)
}

func (t *tx) readLastBatch(g *log, client uint64) *lastBatch {
	if g.id == 0 {
		return nil
	}
	row := t.queryRow("client", g.id, int64(client))
	if row == nil {
		return nil
	}
	grants, _ := row[1].([]byte)
	return &lastBatch{seq: uint64(integer(row[0])), runs: decodeRuns(grants)}
}

func (t *tx) writeLastBatch(g *log, client uint64, last *lastBatch) {
	if last == nil {
		return
	}
	if g.clients[client] == nil && client%sweepEvery == 0 {
		t.exec("client-sweep", g.id, g.newest-decide.ClientMemory)
	}
	t.exec("client-set", g.id, int64(client), int64(last.seq), g.newest, last.encode())
	g.cacheLastBatch(client, last)
}

// cacheLastBatch caches a client's last batch, or with nil that there is none.
func (g *log) cacheLastBatch(client uint64, last *lastBatch) {
	if len(g.clients) >= 64 {
		clear(g.clients)
	}
	g.clients[client] = last
}

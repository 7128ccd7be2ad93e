package sqliteledger

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// spend decides one batch in one transaction. Its context is the combiner's,
// with a deadline of its own and nobody to cancel it.
func (l *Ledger) spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	answers := make([]quota.Answer, len(batch.Requests))
	err := l.write(ctx, func(t *tx) {
		g := t.log(logName{batch.Account, batch.Key})
		memory := t.remembered(g, batch)
		granted := false
		for i := range batch.Requests {
			if t.err != nil {
				return
			}
			id := quota.ID{Client: batch.Client, Seq: batch.Seq + uint64(i)}
			stamp, have := memory.stamp(uint64(i))
			if !have {
				var err error
				if stamp, err = t.decide(g, &batch.Requests[i], id); err != nil {
					answers[i] = quota.Answer{Err: err}
					continue
				}
				memory.add(uint64(i), stamp)
				granted = true
			}
			answers[i] = quota.Answer{Receipt: g.receipt(id, stamp)}
		}
		if granted {
			t.remember(g, batch.Client, memory)
			t.trim(g)
		}
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = l.explain(errBusy, working)
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func (g *log) receipt(id quota.ID, stamp int64) quota.Receipt {
	return quota.Receipt{Account: g.name.account, Key: g.name.key, ID: id, At: instant(stamp)}
}

// decide admits one request and returns its stamp, or returns why not.
func (t *tx) decide(g *log, r *quota.Request, id quota.ID) (int64, error) {
	if err := r.Check(g.name.account); err != nil {
		return 0, err
	}
	var refused *quota.RefusedError
	for _, charge := range r.Charges {
		list := t.list(g, charge)
		if r.Force {
			continue
		}
		used, retryAt := t.ask(charge, list, int64(charge.Coverage.Amount(r.Units)))
		remaining := max(0, charge.Limit-quota.Units(used))
		if retryAt > 0 && later(retryAt, refused) {
			refused = g.refusal(charge, r, quota.ReasonSpent, remaining)
			refused.RetryAt = instant(retryAt)
		}
		if c := g.cooldown(charge.Budget, t.now); c != nil && later(c.Until.UnixMicro(), refused) {
			refused = g.refusal(charge, r, quota.ReasonCooldown, remaining)
			refused.Detail, refused.RetryAt = c.Reason, c.Until
		}
	}
	if c := g.cooldown("", t.now); c != nil && !r.Force && later(c.Until.UnixMicro(), refused) {
		refused = &quota.RefusedError{Account: g.name.account, Key: g.name.key, Method: r.Method,
			Reason: quota.ReasonCooldown, Detail: c.Reason, Needed: r.Units, RetryAt: c.Until}
	}
	if refused != nil {
		refused.RetryAfter = refused.RetryAt.Sub(instant(t.now))
		return 0, refused
	}
	return t.add(g, entry{units: int64(r.Units), calls: 1, id: id, method: r.Method, caller: r.Caller}), nil
}

// later reports whether an instant is after that of the refusal so far.
func later(at int64, refused *quota.RefusedError) bool {
	return refused == nil || at > refused.RetryAt.UnixMicro()
}

func (g *log) refusal(charge *quota.Charge, r *quota.Request, reason quota.Reason, remaining quota.Units) *quota.RefusedError {
	return &quota.RefusedError{Account: g.name.account, Key: g.name.key, Budget: charge.Budget, Method: r.Method, Reason: reason,
		Measure: charge.Coverage.Measure, Limit: charge.Limit, Remaining: remaining, Needed: charge.Coverage.Amount(r.Units)}
}

func (t *tx) ask(charge *quota.Charge, l *list, amount int64) (used, retryAt int64) {
	q := t.question(charge)
	if charge.Window.Estimate() {
		return q.Estimate(view{t, l}, amount)
	}
	return q.Fits(view{t, l}, amount)
}

// question is a charge at the transaction's instant.
func (t *tx) question(charge *quota.Charge) decide.Question {
	q := decide.Question{Now: t.now, Window: charge.Window, Limit: int64(charge.Limit)}
	if charge.Window.Kind() == quota.KindDaily {
		day, ok := t.ledger.days[charge.Window]
		if !ok || !day.Holds(t.now) {
			day = decide.DayOf(charge.Window, t.now)
			t.ledger.days[charge.Window] = day
		}
		q.Day = day
	}
	return q
}

// batchMemory is what is remembered of a client's last batch: the stamps of
// its grants. Runs of neighbours, which are most of them, are kept as one.
type batchMemory struct {
	seq  uint64
	runs []run
}

// run says that the requests from first on, so many, were granted, the first
// with this stamp and each with the next microsecond's.
type run struct {
	first, count uint64
	stamp        int64
}

func (m *batchMemory) stamp(i uint64) (int64, bool) {
	for _, r := range m.runs {
		if i >= r.first && i < r.first+r.count {
			return r.stamp + int64(i-r.first), true
		}
	}
	return 0, false
}

func (m *batchMemory) add(i uint64, stamp int64) {
	if n := len(m.runs); n > 0 {
		if last := &m.runs[n-1]; i == last.first+last.count && stamp == last.stamp+int64(last.count) {
			last.count++
			return
		}
	}
	m.runs = append(m.runs, run{i, 1, stamp})
}

func (m *batchMemory) encode() []byte {
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

// remembered returns the memory of a batch, empty when it is a new one.
func (t *tx) remembered(g *log, batch *quota.Batch) *batchMemory {
	have, ok := g.clients[batch.Client]
	if !ok && g.id() != 0 {
		have = t.recall(g, batch.Client)
	}
	if have == nil || have.seq != batch.Seq {
		return &batchMemory{seq: batch.Seq}
	}
	return have
}

func (t *tx) recall(g *log, client uint64) *batchMemory {
	row := t.one("client", g.id(), int64(client))
	if row == nil {
		return nil
	}
	grants, _ := row[1].([]byte)
	return &batchMemory{seq: uint64(integer(row[0])), runs: decodeRuns(grants)}
}

func (t *tx) remember(g *log, client uint64, memory *batchMemory) {
	_, old := g.clients[client]
	if !old && client%sweepEvery == 0 {
		t.exec("client-sweep", g.id(), int64(maxClients))
	}
	t.exec("client-set", g.id(), int64(client), int64(memory.seq), g.all.newest.stamp, memory.encode())
	if !old && len(g.clients) >= 64 {
		clear(g.clients)
	}
	g.clients[client] = memory
}

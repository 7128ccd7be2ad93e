package sqliteledger

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// spend decides one batch, in one transaction unless none of it would be
// granted. Its context is the combiner's, with a deadline of its own and nobody to cancel it.
func (l *Ledger) spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	answers := make([]quota.Answer, len(batch.Requests))
	if l.refuse(ctx, batch, answers) {
		return answers, nil
	}
	err := l.write(ctx, func(t *tx) {
		t.decide(t.log(logName{batch.Account, batch.Key}), batch, answers)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = l.explain(errBusy, working)
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// decide answers a batch, and records what it grants.
func (t *tx) decide(g *log, batch *quota.Batch, answers []quota.Answer) {
	book, judge, memory := &book{t, g}, t.judge(g.name), t.remembered(g, batch)
	held, granted := make([]quota.Held, 0, countCharges(batch)), false
	t.askHistory(g, batch.History)
	for i := range batch.Requests {
		if t.err != nil {
			return
		}
		answers[i] = quota.Answer{}
		id := quota.ID{Client: batch.Client, Seq: batch.Seq + uint64(i)}
		stamp, have := memory.stamp(uint64(i))
		if !have {
			r := &batch.Requests[i]
			if answers[i].Err = judge.Admit(book, r); answers[i].Err != nil {
				continue
			}
			stamp = t.add(g, &entry{units: int64(r.Units), calls: int64(r.Count()), kind: r.Kind, id: id, method: r.Method, caller: r.Caller})
			memory.add(uint64(i), stamp)
			granted = true
			n := len(held)
			held = judge.Held(book, r, stamp, held)
			answers[i].Held = held[n:len(held):len(held)]
		}
		answers[i].Receipt = quota.Receipt{Account: batch.Account, Key: batch.Key, ID: id, At: decide.Instant(stamp)}
	}
	if granted {
		t.remember(g, batch.Client, memory)
		t.turn(g)
		t.trim(g)
		t.addSums(g)
	}
	g.refusing = !granted
	t.save(g)
}

func countCharges(batch *quota.Batch) (n int) {
	for i := range batch.Requests {
		n += len(batch.Requests[i].Charges)
	}
	return n
}

// errUnknown says that what is in memory does not tell.
var errUnknown = errors.New("not in memory")

// refuse answers a batch if all of it is refused by what is in memory of a log
// that refused the last one, and the file is as it was then. That needs no
// turn: nothing is written, and whoever gives units back changes the file.
func (l *Ledger) refuse(ctx context.Context, batch *quota.Batch, answers []quota.Answer) bool {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-l.turn }()
	g := l.logs[logName{batch.Account, batch.Key}]
	if g == nil || !g.refusing || l.conn == nil {
		return false
	}
	if before, known := g.clients[batch.Client]; !l.combiner.Names(batch) && (!known || before != nil && before.seq == batch.Seq) {
		return false
	}
	l.conn.start()
	if l.check() != nil || !l.unchanged() {
		return false
	}
	t := &tx{conn: l.conn, ledger: l, now: l.now().UnixMicro(), fromMemory: true}
	book, judge := &book{t, g}, t.judge(g.name)
	for i := range batch.Requests {
		answers[i].Err = judge.Admit(book, &batch.Requests[i])
		if answers[i].Err == nil || t.err != nil {
			clear(answers)
			return false
		}
	}
	return true
}

// unchanged reports whether the file's content is what memory tells of.
func (l *Ledger) unchanged() bool {
	l.conn.exec("version") // SQLite looks at the file only when it reads
	return l.conn.version() == l.version && l.conn.err == nil
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

func (m *batchMemory) add(i uint64, stamp int64) {
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

// remembered returns the memory of a batch, empty when it is a new one, and nil
// for one that cannot come again.
func (t *tx) remembered(g *log, batch *quota.Batch) *batchMemory {
	if t.ledger.combiner.Names(batch) {
		return nil
	}
	have, ok := g.clients[batch.Client]
	if !ok {
		have = t.recall(g, batch.Client)
		g.know(batch.Client, have)
	}
	if have == nil || have.seq != batch.Seq {
		return &batchMemory{seq: batch.Seq}
	}
	return have
}

func (t *tx) recall(g *log, client uint64) *batchMemory {
	if g.id == 0 {
		return nil
	}
	row := t.one("client", g.id, int64(client))
	if row == nil {
		return nil
	}
	grants, _ := row[1].([]byte)
	return &batchMemory{seq: uint64(integer(row[0])), runs: decodeRuns(grants)}
}

func (t *tx) remember(g *log, client uint64, memory *batchMemory) {
	if memory == nil {
		return
	}
	if g.clients[client] == nil && client%sweepEvery == 0 {
		t.exec("client-sweep", g.id, int64(maxClients))
	}
	t.exec("client-set", g.id, int64(client), int64(memory.seq), g.newest, memory.encode())
	g.know(client, memory)
}

// know keeps a client's memory, or that there is none.
func (g *log) know(client uint64, memory *batchMemory) {
	if len(g.clients) >= 64 {
		clear(g.clients)
	}
	g.clients[client] = memory
}

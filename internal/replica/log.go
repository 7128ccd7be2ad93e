package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// log is the log of an account in one ledger, as far as it has been received.
// It is not safe for concurrent use.
type log struct {
	ledger  engine.Ledger // nil if the ledger does not exist yet
	where   string        // its address
	account string

	known  engine.Known
	gen    uint64
	now    int64         // the ledger's clock
	moved  engine.Record // the one that holds
	clocks []clock
	has    map[engine.ID]bool // the records; nil if nothing asks

	client, seq uint64 // of what the copy appends
}

// clock is a clock record: what is before it in the log, and stamped later than
// above, counts at countAt.
type clock struct {
	position       uint64
	above, countAt int64
}

func newLog(ledger engine.Ledger, where, account string) *log {
	return &log{ledger: ledger, where: where, account: account, client: engine.NewClient()}
}

// read receives what is new, and calls each with the records, in the order of
// the log. They keep their times.
func (l *log) read(ctx context.Context, each func(*engine.Record) error) error {
	for l.ledger != nil {
		t, err := l.ledger.Read(ctx, l.account, &engine.Read{Known: l.known})
		if err != nil {
			return l.failed(err)
		}
		if err := l.receive(t, each); err != nil {
			return err
		}
		if !t.More {
			break
		}
	}
	return nil
}

// receive takes over an answer of the ledger.
func (l *log) receive(t *engine.Tail, each func(*engine.Record) error) error {
	if t.Diverged {
		return l.failed(fmt.Errorf("%w: account %q has another log than before", quota.ErrLedgerLost, l.account))
	}
	l.gen = t.Gen
	l.now = t.Now
	l.known.Epoch = t.Epoch
	for i := range t.Batches {
		b := &t.Batches[i]
		records, err := engine.Unpack(b)
		if err != nil {
			return l.failed(err)
		}
		for j := range records {
			l.note(&records[j], b.Position)
			if each == nil {
				continue
			}
			if err := each(&records[j]); err != nil {
				return err
			}
		}
		l.known.After, l.known.Tag = b.Position, b.Tag()
	}
	return nil
}

// note takes note of a record, and lets it keep its time: as corrected by the
// clock records that are known so far.
func (l *log) note(r *engine.Record, position uint64) {
	for _, c := range l.clocks {
		c.correct(r, position)
	}
	switch r.Kind {
	case engine.KindClock:
		c := clock{position, r.Value, r.Until}
		c.correct(&l.moved, 0)
		l.clocks = append(l.clocks, c)
	case engine.KindMoved:
		if isLater := r.At > l.moved.At || r.At == l.moved.At && r.ID.Client > l.moved.ID.Client; isLater {
			l.moved = *r
		}
	}
	if l.has != nil {
		l.has[r.ID] = true
	}
	r.Kept = true
}

// correct corrects a record, unless it carries its own time. What it says until
// when moves with it.
func (c *clock) correct(r *engine.Record, position uint64) {
	if r.Kept || position >= c.position || r.At <= c.above {
		return
	}
	if r.Until > r.At {
		r.Until -= r.At - c.countAt
	}
	r.At = c.countAt
}

// isClosed reports whether calls are told that the account is in another
// ledger, or arrives from it.
func (l *log) isClosed() bool { return l.moved.Text != "" }

// hasLeft reports whether the account has moved to another ledger.
func (l *log) hasLeft() bool { return l.isClosed() && l.moved.Name != engine.Arriving }

// arrives reports whether the account is being copied from another ledger.
func (l *log) arrives() bool { return l.isClosed() && l.moved.Name == engine.Arriving }

// setMoved appends a moved record if the log is as it was received. A lost
// answer may let it return false although it has; read says what holds.
func (l *log) setMoved(ctx context.Context, name, text string) (appended bool, err error) {
	moved := &engine.Record{Kind: engine.KindMoved, Name: name, Text: text}
	t, err := l.append(ctx, &engine.Append{Gen: l.gen}, []*engine.Record{moved})
	return err == nil && t.Appended, err
}

// add appends records that keep their ids and times. Repeating it is harmless.
func (l *log) add(ctx context.Context, records []*engine.Record) error {
	for {
		a := &engine.Append{Any: true}
		t, err := l.append(ctx, a, records)
		if err != nil {
			return err
		}
		if t.Appended && !t.More {
			t.Batches = append(t.Batches, engine.Batch{Position: t.Position, At: t.At, Data: a.Data})
		}
		if err = l.receive(t, nil); err == nil && t.More {
			err = l.read(ctx, nil)
		}
		if err != nil || t.Appended {
			return err
		}
	}
}

// attempts is how often an append is tried whose answer is lost.
const attempts = 3

// append appends records unless the conditions of a refuse it. The batch raises
// the generation, so that processes decide again what they have decided without
// it.
func (l *log) append(ctx context.Context, a *engine.Append, records []*engine.Record) (t *engine.Tail, err error) {
	first := engine.ID{Client: l.client, Seq: l.seq}
	l.seq += uint64(len(records))
	a.Known = l.known
	a.NewEpoch = engine.NewEpoch()
	a.Count = 1
	a.Bump = true
	a.Data = engine.Pack(first, records)
	for range attempts {
		if t, err = l.ledger.Append(ctx, l.account, a); !errors.Is(err, engine.ErrInDoubt) {
			break
		}
	}
	if err != nil {
		return nil, l.failed(err)
	}
	return t, nil
}

// failed wraps an error with the ledger that it is about.
func (l *log) failed(err error) error { return fmt.Errorf("ledger %s: %w", l.where, err) }

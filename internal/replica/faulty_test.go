package replica_test

import (
	"context"
	"maps"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// faultyLedger is a ledger that can be down, lose answers, and be replaced.
type faultyLedger struct {
	engine.Ledger
	isDown     bool
	losesNext  bool // the answer to the next append
	allowed    int  // appends until it is down; -1: any number
	hasFailure bool // since hasFailed was called last
}

func (l *faultyLedger) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	if l.allowed == 0 {
		l.isDown = true
	}
	if l.isDown {
		l.hasFailure = true
		return nil, engine.ErrLedgerDown
	}
	if l.allowed > 0 {
		l.allowed--
	}
	tail, err := l.Ledger.Append(ctx, account, a)
	if err == nil && l.losesNext {
		l.losesNext = false
		return nil, engine.ErrInDoubt
	}
	return tail, err
}

func (l *faultyLedger) Read(ctx context.Context, account string, r *engine.Read) (*engine.Tail, error) {
	if l.isDown {
		l.hasFailure = true
		return nil, engine.ErrLedgerDown
	}
	return l.Ledger.Read(ctx, account, r)
}

func (l *faultyLedger) hasFailed() (yes bool) {
	yes, l.hasFailure = l.hasFailure, false
	return yes
}

func (l *faultyLedger) recover() { l.isDown, l.allowed = false, -1 }

// snapshot is a copy of a log.
type snapshot struct {
	tail    *engine.Tail
	batches []engine.Batch
	known   knowledge
}

// copy copies the log.
func (w *world) copy() *snapshot {
	w.Helper()
	s := &snapshot{known: maps.Clone(w.inLog)}
	known := engine.Known{}
	for s.tail == nil || s.tail.More {
		tail, err := w.ledger.Ledger.Read(context.Background(), accountCopy, &engine.Read{Known: known})
		if err != nil {
			w.Fatalf("%v", err)
		}
		s.tail, s.batches = tail, append(s.batches, tail.Batches...)
		if n := len(s.batches); n > 0 {
			known = engine.Known{Epoch: tail.Epoch, After: s.batches[n-1].Position, Tag: s.batches[n-1].Tag()}
		}
	}
	return s
}

// empty replaces the ledger by one that has nothing.
func (w *world) empty() { w.replace(&snapshot{known: knowledge{}, tail: &engine.Tail{}}) }

// replace replaces the ledger by a copy of a log.
func (w *world) replace(s *snapshot) {
	w.Helper()
	var then time.Time // while it is copied
	store := w.newStore(func() time.Time {
		if !then.IsZero() {
			return then
		}
		return w.clock()
	})
	for i, b := range s.batches {
		then = time.UnixMicro(b.At)
		a := &engine.Append{NewEpoch: s.tail.Epoch, Any: true, Data: b.Data, Bump: uint64(i) < s.tail.Gen}
		if i > 0 {
			before := &s.batches[i-1]
			a.Known = engine.Known{Epoch: s.tail.Epoch, After: before.Position, Tag: before.Tag()}
		}
		if i < len(s.batches)-1 {
			a.Count = int(min(s.batches[i+1].At-b.At, 1))
		} else {
			a.Count = int(s.tail.Newest-b.At) + 1
			for index, amount := range s.tail.Totals {
				a.Adds = append(a.Adds, engine.Total{Index: uint8(index), Amount: amount})
			}
		}
		tail, err := store.Append(context.Background(), accountCopy, a)
		if err != nil || !tail.Appended || tail.At != b.At || tail.Position != b.Position {
			w.Fatalf("the copy of batch %d was not appended: %+v, %v", b.Position, tail, err)
		}
	}
	then = time.Time{}
	w.ledger.Ledger.Close()
	w.ledger.Ledger, w.inLog = store, maps.Clone(s.known)
}

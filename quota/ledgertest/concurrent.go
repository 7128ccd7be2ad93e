package ledgertest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// testConnections: what one connection appends, another one reads.
func testConnections(s *suite) {
	a, b := s.log("project"), s.log("project")
	b.ledger, b.epoch = s.connect(), a.epoch
	a.must(engine.Append{Adds: add(0, 1)})
	for i := range 5 {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		tail := to.append(engine.Append{Gen: 99})
		last := tail.Batches[len(tail.Batches)-1]
		to.known = engine.Known{Epoch: tail.Epoch, After: last.Position, Tag: last.Tag()}
		if to.known.After != from.known.After || to.known.Tag != from.known.Tag {
			s.Fatalf("connection %d knows %v; want %v", i%2, to.known, from.known)
		}
		to.must(engine.Append{Data: s.tagged(byte(i)), Adds: add(0, 1)})
	}
	if head := a.head(); head.Totals[0] != 6 {
		s.Errorf("the total is %d; want 6", head.Totals[0])
	}
}

// tagged returns a batch that begins with n.
func (s *suite) tagged(n byte) []byte {
	return append([]byte{n, 0xff}, make([]byte, engine.TagSize)...)
}

// testClosed: a closed connection returns ErrLedgerClosed.
func testClosed(s *suite) {
	g := s.log("project")
	g.must(engine.Append{})
	if err := s.ledger.Close(); err != nil {
		s.Fatalf("close: %v", err)
	}
	a := &engine.Append{Known: g.known, NewEpoch: 1, Count: 1, Data: g.seq.data(0)}
	_, appendErr := s.ledger.Append(s.Context(), g.account, a)
	_, readErr := s.ledger.Read(s.Context(), g.account, &engine.Read{})
	var accountsErr error
	for _, err := range s.ledger.Accounts(s.Context()) {
		accountsErr = err
	}
	for _, err := range []error{appendErr, readErr, accountsErr} {
		if !errors.Is(err, engine.ErrLedgerClosed) {
			s.Errorf("%v; want ErrLedgerClosed", err)
		}
	}
	if err := s.ledger.Close(); err != nil && !errors.Is(err, engine.ErrLedgerClosed) {
		s.Errorf("close again: %v", err)
	}
}

// testEndedContexts: nothing is sent for a context that has ended.
func testEndedContexts(s *suite) {
	g := s.log("project")
	g.must(engine.Append{})
	before := g.head()
	canceled, cancel := context.WithCancel(s.Context())
	cancel()
	late, cancel := context.WithDeadline(s.Context(), time.Unix(0, 0))
	defer cancel()
	for _, ctx := range []context.Context{canceled, late} {
		a := &engine.Append{Known: g.known, NewEpoch: 1, Count: 1, Data: g.seq.data(0)}
		_, appendErr := g.ledger.Append(ctx, g.account, a)
		_, readErr := g.ledger.Read(ctx, g.account, &engine.Read{})
		var accountsErr error
		for _, err := range g.ledger.Accounts(ctx) {
			accountsErr = err
		}
		for _, err := range []error{appendErr, readErr, accountsErr} {
			if !errors.Is(err, ctx.Err()) || errors.Is(err, engine.ErrInDoubt) {
				s.Errorf("%v; want %v", err, ctx.Err())
			}
		}
	}
	g.sameHead(before)
	g.must(engine.Append{}) // the connection still works
}

// The goroutines of the concurrent tests share a few connections.
const (
	goroutines  = 16
	connections = 4
)

func (s *suite) connectAll() []engine.Ledger {
	ledgers := []engine.Ledger{s.ledger}
	for len(ledgers) < connections {
		ledgers = append(ledgers, s.connect())
	}
	return ledgers
}

// testConcurrentTotals: appends land as long as a bound on a total allows them.
func testConcurrentTotals(s *suite) {
	const limit = 200
	shared := s.log("project")
	ledgers := s.connectAll()
	var landed sync.Map // of engine.Tag: the position
	var sum atomic.Int64
	parallel(goroutines, func(i int) {
		amount := int64(1 + i%3)
		a := &engine.Append{NewEpoch: shared.epoch, Count: 2, Adds: add(4, amount), Conditions: most(limit-amount, 4)}
		for {
			a.Data = shared.seq.data(20)
			tail, err := ledgers[i%connections].Append(s.Context(), "project", a)
			if err != nil {
				s.Errorf("append: %v", err)
				return
			}
			knewOfIt := a.Epoch != 0
			a.Known = engine.Known{Epoch: tail.Epoch}
			switch {
			case tail.Appended && tail.Totals[4] <= limit:
				landed.Store(tagOf(a.Data), tail.Position)
				sum.Add(amount)
			case tail.Appended || tail.Diverged:
				s.Errorf("%s, total %d of %d", describe(tail), tail.Totals[4], limit)
				return
			case knewOfIt && tail.Totals[4]+amount > limit:
				return
			case knewOfIt:
				s.Errorf("%s: refused at a total of %d, and %d fits into %d", describe(tail), tail.Totals[4], amount,
					limit)
				return
			}
		}
	})
	if total := shared.head().Totals[4]; total != sum.Load() || total > limit || total < limit-2 {
		s.Errorf("the total is %d, and %d were appended; want them equal, and up to %d", total, sum.Load(), limit)
	}
	batches := shared.all(0)
	for i, b := range batches {
		if position, ok := landed.LoadAndDelete(b.Tag()); !ok || position != b.Position || b.Position != uint64(i+1) {
			s.Errorf("batch %d was appended at %v", b.Position, position)
		}
		if i > 0 && b.At < batches[i-1].At+2 {
			s.Errorf("batch %d is at %d, the one before at %d and the next", b.Position, b.At, batches[i-1].At)
		}
	}
	landed.Range(func(_, position any) bool {
		s.Errorf("the batch that was appended at %v is not in the log", position)
		return true
	})
}

// testConcurrentGenerations: of all appends that end a generation, one lands.
func testConcurrentGenerations(s *suite) {
	const generations = 10
	shared := s.log("project")
	shared.must(engine.Append{})
	ledgers := s.connectAll()
	for gen := range uint64(generations) {
		var landed atomic.Int64
		parallel(goroutines, func(i int) {
			tail, err := ledgers[i%connections].Append(s.Context(), "project", &engine.Append{
				Known: engine.Known{Epoch: shared.epoch}, NewEpoch: 1, Gen: gen, Bump: true, Count: 1,
				Data: shared.seq.data(0),
			})
			if err != nil {
				s.Errorf("append: %v", err)
			} else if tail.Appended {
				landed.Add(1)
			}
		})
		if landed.Load() != 1 {
			s.Fatalf("%d appends ended generation %d; want 1", landed.Load(), gen)
		}
	}
	if head := shared.head(); head.Gen != generations || head.Position != generations+1 {
		s.Errorf("%s; want generation %d", describe(&head), generations)
	}
}

// testConcurrentCreation: of all appends that create a log, one lands.
func testConcurrentCreation(s *suite) {
	shared := s.log("project")
	ledgers := s.connectAll()
	for _, account := range []string{"a", "b", "c", "d"} {
		var epochs sync.Map
		var landed atomic.Int64
		parallel(goroutines, func(i int) {
			tail, err := ledgers[i%connections].Append(s.Context(), account,
				&engine.Append{NewEpoch: uint64(i + 1), Count: 1, Data: shared.seq.data(0)})
			if err != nil {
				s.Errorf("append: %v", err)
				return
			}
			epochs.Store(tail.Epoch, true)
			if tail.Appended {
				landed.Add(1)
			}
		})
		n := 0
		epochs.Range(func(any, any) bool { n++; return true })
		if landed.Load() != 1 || n != 1 {
			s.Errorf("%d appends created the log, and it has %d epochs; want 1 and 1", landed.Load(), n)
		}
	}
}

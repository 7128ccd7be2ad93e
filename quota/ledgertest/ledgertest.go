// Package ledgertest is the contract of a ledger: what the comments of
// engine.Ledger and of its types promise, as tests.
package ledgertest

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// Store makes an empty store for a test, with a clock, and returns a function
// that connects to it. Each connection is as that of a process of its own,
// except that connections to a store in memory may be one and the same.
type Store func(t *testing.T, now func() time.Time) (connect func() engine.Ledger)

// Run tests a store. It closes the connections that it makes.
func Run(t *testing.T, store Store) {
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"AgainstAModel", testAgainstAModel},
		{"Totals", testTotals},
		{"StepsOfConditions", testStepsOfConditions},
		{"Malformed", testMalformed},
		{"Reset", testReset},
		{"Pages", testPages},
		{"DefaultPage", testDefaultPage},
		{"DataIsCopied", testDataIsCopied},
		{"SeveralAccounts", testSeveralAccounts},
		{"AccountNames", testAccountNames},
		{"Accounts", testAccounts},
		{"Connections", testConnections},
		{"Closed", testClosed},
		{"EndedContexts", testEndedContexts},
		{"ConcurrentTotals", testConcurrentTotals},
		{"ConcurrentGenerations", testConcurrentGenerations},
		{"ConcurrentCreation", testConcurrentCreation},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &suite{tb: t, t: t, clock: &clock{}}
			s.clock.set(start)
			connect := store(t, s.clock.now)
			s.connect = func() engine.Ledger {
				l := connect()
				t.Cleanup(func() { l.Close() }) // some tests have closed it
				return l
			}
			s.ledger = s.connect()
			test.run(s)
		})
	}
}

// start is what the clock of a test shows at first, in microseconds since the
// Unix epoch.
const start int64 = 1_795_000_000_000_000

const (
	second = int64(1e6)
	hour   = 3600 * second
)

// suite is one test of a store.
type suite struct {
	tb
	t       *testing.T
	clock   *clock
	connect func() engine.Ledger // a new connection
	ledger  engine.Ledger        // the first one
}

// tb is what the suite needs of a *testing.T and of a *rapid.T.
type tb interface {
	Context() context.Context
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// on returns the suite with another one to report failures to.
func (s *suite) on(other tb) *suite {
	on := *s
	on.tb = other
	return &on
}

// clock is a clock that stands still until it is set.
type clock struct{ micros atomic.Int64 }

func (c *clock) now() time.Time    { return time.UnixMicro(c.micros.Load()) }
func (c *clock) set(micros int64)  { c.micros.Store(micros) }
func (c *clock) step(micros int64) { c.micros.Add(micros) }

// sequence numbers batches, so that each has a tag of its own.
type sequence struct{ n atomic.Uint64 }

// data returns a batch of some bytes that has not been returned before.
func (s *sequence) data(size int) []byte {
	n := s.n.Add(1)
	b := make([]byte, max(size, engine.TagSize))
	binary.BigEndian.PutUint64(b[2:], n)
	for i := engine.TagSize; i < len(b); i++ {
		b[i] = byte(n + uint64(i)) // every value occurs, zero and newline too
	}
	return b
}

// log is what a test knows of one account's log.
type log struct {
	*suite
	ledger  engine.Ledger
	account string
	epoch   uint64 // of a log that it creates
	known   engine.Known
	seq     *sequence
}

func (s *suite) log(account string) *log {
	return &log{suite: s, ledger: s.ledger, account: account, epoch: engine.NewEpoch(), seq: &sequence{}}
}

// append calls Append with what the test knows of the log, and a batch and a
// count if a has none. It does not learn from the answer.
func (g *log) append(a engine.Append) *engine.Tail {
	g.Helper()
	if a.Known == (engine.Known{}) {
		a.Known = g.known
	}
	return g.appendKnowing(a.Known, a)
}

func (g *log) appendKnowing(known engine.Known, a engine.Append) *engine.Tail {
	g.Helper()
	a.Known, a.NewEpoch = known, g.epoch
	a.Count = max(a.Count, 1)
	if a.Data == nil {
		a.Data = g.seq.data(0)
	}
	tail, err := g.ledger.Append(g.Context(), g.account, &a)
	if err != nil {
		g.Fatalf("append: %v", err)
	}
	g.checkAnswer(tail)
	return tail
}

// must appends, and learns that it did. It fails if a condition did not hold,
// or if batches came that the test does not know.
func (g *log) must(a engine.Append) *engine.Tail {
	g.Helper()
	if a.Data == nil {
		a.Data = g.seq.data(0)
	}
	tail := g.append(a)
	if !tail.Appended || len(tail.Batches) > 0 {
		g.Fatalf("%s; want it appended, and no other batches", describe(tail))
	}
	g.known = engine.Known{Epoch: tail.Epoch, After: tail.Position, Tag: tagOf(a.Data)}
	return tail
}

// refused appends, and fails if all conditions held or the log has diverged.
func (g *log) refused(why string, a engine.Append) {
	g.Helper()
	before := g.head()
	tail := g.append(a)
	if tail.Appended || tail.Diverged {
		g.Fatalf("%s: %s; want it refused", why, describe(tail))
	}
	g.sameHead(before)
}

// read reads the page after known.
func (g *log) read(known engine.Known, bytes int) *engine.Tail {
	g.Helper()
	tail, err := g.ledger.Read(g.Context(), g.account, &engine.Read{Known: known, Bytes: bytes})
	if err != nil {
		g.Fatalf("read: %v", err)
	}
	g.checkAnswer(tail)
	return tail
}

// all reads all pages.
func (g *log) all(bytes int) (batches []engine.Batch) {
	g.Helper()
	var known engine.Known
	for {
		tail := g.read(known, bytes)
		batches = append(batches, tail.Batches...)
		if !tail.More {
			return batches
		}
		last := batches[len(batches)-1]
		known = engine.Known{Epoch: tail.Epoch, After: last.Position, Tag: last.Tag()}
	}
}

// head returns the log's head, without batches.
func (g *log) head() engine.Tail {
	g.Helper()
	tail := *g.read(engine.Known{}, 0)
	tail.Batches, tail.More = nil, false
	tail.Now = 0
	return tail
}

func (g *log) sameHead(want engine.Tail) {
	g.Helper()
	got := g.head()
	g.compare(&got, &want)
}

// compare compares answers, without the content of batches.
func (g *log) compare(got, want *engine.Tail) {
	g.Helper()
	if describe(got) != describe(want) || got.Totals != want.Totals {
		g.Fatalf("%s %v; want %s %v", describe(got), got.Totals, describe(want), want.Totals)
	}
}

// checkAnswer checks what holds for every answer.
func (g *log) checkAnswer(tail *engine.Tail) {
	g.Helper()
	fail := func(why string) { g.Fatalf("%s: %s", why, describe(tail)) }
	hasBatches := tail.More || len(tail.Batches) > 0
	isEmpty := tail.Position == 0 && tail.Gen == 0 && tail.Newest == 0
	switch {
	case tail.First < 1 || tail.First > tail.Position+1:
		fail("First")
	case tail.Diverged && (tail.Appended || hasBatches):
		fail("diverged, and more")
	case tail.Epoch == 0 && !isEmpty:
		fail("no log, and more")
	case tail.More && len(tail.Batches) == 0:
		fail("an empty page")
	}
	for i, b := range tail.Batches {
		// one without timestamps is at the next
		if b.Position < tail.First || b.Position > tail.Position || b.At > tail.Newest+1 {
			fail(fmt.Sprintf("batch %d is not in the log", b.Position))
		}
		if i > 0 && (b.Position != tail.Batches[i-1].Position+1 || b.At < tail.Batches[i-1].At) {
			fail(fmt.Sprintf("batch %d at %d follows %d at %d", b.Position, b.At,
				tail.Batches[i-1].Position, tail.Batches[i-1].At))
		}
	}
}

// describe returns an answer in a line, without the content of batches.
func describe(tail *engine.Tail) string {
	positions := make([]uint64, len(tail.Batches))
	for i, b := range tail.Batches {
		positions[i] = b.Position
	}
	return fmt.Sprintf("{appended %t at %d, diverged %t, epoch %d, position %d, first %d, newest %d, gen %d, now %d, "+
		"batches %v, more %t}", tail.Appended, tail.At, tail.Diverged, tail.Epoch, tail.Position, tail.First,
		tail.Newest, tail.Gen, tail.Now, positions, tail.More)
}

func tagOf(data []byte) engine.Tag {
	b := engine.Batch{Data: data}
	return b.Tag()
}

// most is a condition without steps.
func most(most int64, totals ...uint8) []engine.Condition {
	return []engine.Condition{{Totals: totals, Steps: []engine.Step{{Most: most}}}}
}

// add is a rise of one total.
func add(index uint8, amount int64) []engine.Total {
	return []engine.Total{{Index: index, Amount: amount}}
}

// parallel runs f in n goroutines, and waits for them.
func parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// sameBatches reports whether two lists of batches are equal.
func sameBatches(a, b []engine.Batch) bool {
	return slices.EqualFunc(a, b, func(x, y engine.Batch) bool {
		return x.Position == y.Position && x.At == y.At && slices.Equal(x.Data, y.Data)
	})
}

package redisledger_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

// pastGame changes a log through one ledger and adds it up through another,
// which caches records.
type pastGame struct {
	*testing.T
	rand            *rand.Rand
	clock           *ledgertest.Clock
	changes, reader *redisledger.Ledger
	receipts        []quota.Receipt
	seq             uint64
}

func newPastGame(t *testing.T, server *redistest.Server, seed uint64) *pastGame {
	t.Helper()
	g := &pastGame{T: t, rand: rand.New(rand.NewPCG(seed, 0)), clock: &ledgertest.Clock{}}
	g.clock.Set(noonUTC())
	g.changes = fresh(t, server.URL(), g.clock.Now)
	reader, err := redisledger.Open(server.URL(), &redisledger.Options{Now: g.clock.Now, Prefix: fmt.Sprintf("t%d", prefixes.Load())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Close() })
	g.reader = reader
	return g
}

// spend records n entries, milliseconds apart.
func (g *pastGame) spend(n int) {
	g.Helper()
	batch := &quota.Batch{Account: account, Client: 7, Seq: g.seq + 1}
	for i := range n {
		r := quota.Request{Method: fmt.Sprint("m", i%3), Units: quota.Units(g.rand.IntN(5)), Force: true, Charges: []*quota.Charge{day}}
		if g.rand.IntN(20) == 0 {
			r.Kind, r.Calls = quota.EntryNote, quota.Units(g.rand.IntN(9))
		}
		batch.Requests = append(batch.Requests, r)
	}
	g.seq += uint64(n)
	answers, err := g.changes.Spend(g.Context(), batch)
	if err != nil {
		g.Fatal(err)
	}
	for _, a := range answers {
		g.receipts = append(g.receipts, a.Receipt)
	}
}

// change changes the log in one of the ways in which it can change.
func (g *pastGame) change() {
	g.Helper()
	var err error
	receipt := g.receipts[g.rand.IntN(len(g.receipts))]
	switch g.rand.IntN(8) {
	case 0, 1:
		err = g.changes.Settle(g.Context(), receipt, quota.Units(g.rand.IntN(9)))
	case 2:
		err = g.changes.Refund(g.Context(), receipt)
	case 3: // what was spent elsewhere
		g.seq++
		e := quota.Entry{At: receipt.At.Add(time.Microsecond), ID: quota.ID{Client: 8, Seq: g.seq}, Method: "restored", Units: 1, Calls: 1}
		_, err = g.changes.Restore(g.Context(), &quota.Restoration{Account: account, History: 24 * time.Hour, Entries: []quota.Entry{e}})
	case 4: // the clock steps back
		g.clock.Add(-g.upTo(90 * time.Second))
		_, err = g.changes.Restamp(g.Context(), account, "")
	case 5:
		g.clock.Add(g.upTo(3 * time.Hour))
		g.spend(1 + g.rand.IntN(50))
	default:
		g.clock.Add(g.upTo(90 * time.Second))
		g.spend(1 + g.rand.IntN(50))
	}
	if err != nil && !errors.Is(err, quota.ErrStays) {
		g.Fatal(err)
	}
}

func (g *pastGame) upTo(d time.Duration) time.Duration {
	return time.Duration(g.rand.Int64N(d.Microseconds())) * time.Microsecond
}

// stamp returns a time at which an entry may be.
func (g *pastGame) stamp() time.Time {
	if g.rand.IntN(5) == 0 {
		return time.Time{}
	}
	return g.receipts[g.rand.IntN(len(g.receipts))].At.Add(time.Duration(g.rand.IntN(3)-1) * time.Microsecond)
}

// check compares sums with the entries that they are of.
func (g *pastGame) check() {
	g.Helper()
	query := quota.Query{Account: account, Since: g.stamp(), Until: g.stamp()}
	type group struct {
		kind   quota.EntryKind
		method string
	}
	want, got := map[group]quota.Sum{}, map[group]quota.Sum{}
	for e, err := range g.changes.Entries(g.Context(), query) {
		if err != nil {
			g.Fatal(err)
		}
		in := group{e.Kind, e.Method}
		sum, known := want[in]
		if !known {
			sum = quota.Sum{Kind: e.Kind, Method: e.Method, Caller: e.Caller, First: e.At}
		}
		sum.Entries, sum.Units, sum.Calls, sum.Last = sum.Entries+1, sum.Units+e.Units, sum.Calls+e.Calls, e.At
		want[in] = sum
	}
	for sum, err := range g.reader.Sums(g.Context(), query) {
		if err != nil {
			g.Fatal(err)
		}
		got[group{sum.Kind, sum.Method}] = sum
	}
	if !maps.Equal(want, got) {
		g.Fatalf("sums, %+v: (-of the entries +of the ledger)\n%s", query, cmp.Diff(want, got))
	}
}

// TestCachedRecordsThatHaveChanged: sums are those of the log's entries,
// whatever another process has changed since the records were cached.
func TestCachedRecordsThatHaveChanged(t *testing.T) {
	if testing.Short() {
		t.Skip("plays eight games of 40 changes, 4 seconds")
	}
	server := redistest.Start(t)
	for seed := range uint64(8) {
		g := newPastGame(t, server, seed)
		g.spend(2000)
		for range 40 {
			g.change()
			for range 1 + g.rand.IntN(4) {
				g.check()
			}
		}
	}
}

// TestALogIsReadOnceForAReport: sums of any time of a log that was added up are
// answered without its records.
func TestALogIsReadOnceForAReport(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	clock := &ledgertest.Clock{}
	clock.Set(noonUTC())
	l := fresh(t, server.URL(), clock.Now)
	regional(t, l, 20_000)
	clock.Add(time.Hour)
	regional(t, l, 1)
	addedUp(t, l, quota.Query{Account: account})
	do(t, client, "config", "resetstat")
	for i := range 50 {
		query := quota.Query{Account: account, Since: noonUTC().Add(-time.Duration(i) * time.Minute)}
		if entries, sums := addedUp(t, l, query); entries != 20_001 || sums != 96 {
			t.Fatalf("%d entries in %d sums; want 20001 in 96", entries, sums)
		}
	}
	if bytes := stat(t, client, "stats", "total_net_output_bytes:"); bytes > 100_000 {
		t.Errorf("the server sent %d bytes for 50 sums of 20000 cached entries", bytes)
	}
}

// TestCachedRecordsThatAServerHasLost: a server that returns with an
// older snapshot has the head of the records that it lost, which are
// added up no more.
func TestCachedRecordsThatAServerHasLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	g := newPastGame(t, server, 1)
	g.spend(100)
	server.Do(t, "save")
	for range 2 {
		g.clock.Add(10 * time.Minute)
		g.spend(100)
	}
	count := func() (entries int64) {
		for sum, err := range g.reader.Sums(t.Context(), quota.Query{Account: account}) {
			if err != nil {
				t.Fatal(err)
			}
			entries += sum.Entries
		}
		return entries
	}
	for range 2 {
		if n := count(); n != 300 {
			t.Fatalf("%d entries; want 300", n)
		}
	}
	server.Stop()
	server.Restart(t)
	if n := count(); n != 100 {
		t.Errorf("%d entries; want the 100 that the server still has", n)
	}
}

// TestSumsOfHours: the records of one page of the log may be hours apart, more
// than a cached record can be after the first of its page.
func TestSumsOfHours(t *testing.T) {
	g := newPastGame(t, redistest.Start(t), 1)
	for _, apart := range []time.Duration{0, (1<<32 - 1), 1 << 32, 1<<32 + 1, 1, 5_000_000_000, 1<<33 + 7} {
		g.clock.Add(apart * time.Microsecond)
		g.spend(2)
	}
	for range 60 {
		g.check()
	}
}

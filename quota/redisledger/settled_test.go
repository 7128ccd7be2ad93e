package redisledger_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
)

// settledGame makes calls on a log in Redis that are settled while it is
// restored, and the same on one in memory that is restored before that.
type settledGame struct {
	*rapid.T
	key         string
	clock       ledgertest.Clock
	redis, copy quota.Ledger
	charges     []*quota.Charge
	calls       [][2]quota.Receipt // of both logs
	methods     []string           // of the calls
	counted     int                // the first calls, which the log has not kept
	cost        quota.Units        // of the last call; one is settled to 100 more
}

// settledGames numbers the games, of which each has its own keys.
var settledGames atomic.Int64

func newSettledGame(t *rapid.T, client, restoring *redis.Client) (g *settledGame, restorer quota.Ledger) {
	g = &settledGame{T: t, key: rapid.SampledFrom(gameKeys).Draw(t, "key")}
	g.clock.Set(noonUTC())
	options := &redisledger.Options{Now: g.clock.Now, Prefix: fmt.Sprint("settled", settledGames.Add(1))}
	g.redis, g.copy = redisledger.New(client, options), memledger.Open(&memledger.Options{Now: g.clock.Now})
	return g, redisledger.New(restoring, options)
}

// begin makes calls for counters alone, and then some for which the log keeps
// entries.
func (g *settledGame) begin() {
	calls := quota.NewCoverage(quota.Coverage{Measure: quota.Calls})
	day, hour := quota.Sliding(24*time.Hour), quota.Counter(time.Hour)
	g.charges = []*quota.Charge{charge("counted", 1e9, hour), charge("searches counted", 1e9, hour, "search"),
		{Budget: "calls counted", Coverage: calls, Limit: 1e9, Window: hour}}
	for range rapid.IntRange(0, 3).Draw(g.T, "counted") {
		g.spend("list", 100_000)
		g.spend("search", 100_000)
	}
	g.counted = len(g.calls)
	g.charges = append(g.charges, charge("all", 1e9, day), charge("searches", 1e9, day, "search"),
		&quota.Charge{Budget: "calls", Coverage: calls, Limit: 1e9, Window: day})
	g.clock.Add(time.Duration(rapid.IntRange(0, 4000).Draw(g.T, "gap")) * time.Second)
	g.spend("list", 3)
	g.spend("search", 3)
	g.clock.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 100 * time.Second, 50 * time.Minute}).Draw(g.T, "pause"))
	g.change(drawChanges(g.T, "before"))
}

// both does the same on both ledgers.
func (g *settledGame) both(do func(i int, l quota.Ledger) error) {
	for i, l := range []quota.Ledger{g.redis, g.copy} {
		if err := do(i, l); err != nil {
			g.Error(err)
		}
	}
}

func (g *settledGame) spend(method string, units quota.Units) {
	g.clock.Add(time.Second)
	b := &quota.Batch{Account: account, Key: g.key, Client: 1, Seq: uint64(len(g.calls) + 1)}
	b.Requests = []quota.Request{{Method: method, Units: units, Charges: g.charges}}
	var receipts [2]quota.Receipt
	g.both(func(i int, l quota.Ledger) error {
		answers, err := l.Spend(context.Background(), b)
		if err != nil {
			return err
		}
		receipts[i] = answers[0].Receipt
		return answers[0].Err
	})
	g.calls, g.methods = append(g.calls, receipts), append(g.methods, method)
}

// settledChange is a call, or what is done to one of the earlier calls.
type settledChange struct {
	what string
	call int
}

func drawChanges(t *rapid.T, label string) []settledChange {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) settledChange {
		what := rapid.SampledFrom([]string{"list", "search", "settle", "settle", "refund"}).Draw(t, "what")
		return settledChange{what, rapid.IntRange(0, 50).Draw(t, "call")}
	}), 0, 20).Draw(t, label)
}

// change does what was drawn. A call is always settled to another cost, since
// what is settled to the same has no place in the order of changes. With the
// oldest record of a list, the account's head changes too.
func (g *settledGame) change(all []settledChange) {
	for _, c := range all {
		g.cost++
		if c.what == "list" || c.what == "search" {
			g.spend(c.what, g.cost)
			continue
		}
		kept := g.calls[g.counted:]
		call := kept[c.call%len(kept)]
		g.both(func(i int, l quota.Ledger) error {
			if err := l.Settle(context.Background(), call[i], 100+g.cost); err != nil || c.what != "refund" {
				return err
			}
			return l.Refund(context.Background(), call[i])
		})
	}
}

// compare compares the entries and what the budgets hold.
func (g *settledGame) compare() {
	var logs [2][]quota.Entry
	var held [2][]quota.Units
	g.both(func(i int, l quota.Ledger) error {
		for e, err := range l.Entries(context.Background(), quota.Query{Account: account, Key: g.key}) {
			if err != nil {
				return err
			}
			logs[i] = append(logs[i], e)
		}
		standings, err := l.Standings(context.Background(), account, g.key, g.charges)
		for _, s := range standings {
			held[i] = append(held[i], s.Used)
		}
		return err
	})
	if diff := cmp.Diff(logs[1], logs[0]); diff != "" {
		g.Errorf("entries, other than in memory:\n%s", diff)
	}
	if diff := cmp.Diff(held[1], held[0]); diff != "" {
		g.Errorf("held, other than in memory:\n%s", diff)
	}
}

// TestSettledWhileRestored: while a log is restored, calls of it and later ones
// are settled and refunded, some of which the ledger had too cheap. It is
// restored at the first try, and each call costs what it was settled to last.
func TestSettledWhileRestored(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := raw(t, server)
	rapid.Check(t, func(rt *rapid.T) {
		restoring, tries := raw(t, server), 0
		g, restorer := newSettledGame(rt, client, restoring)
		g.begin()
		r := &quota.Restoration{Account: account, Key: g.key, Lost: true, History: 24 * time.Hour}
		for n := range rapid.IntRange(1, 4).Draw(rt, "lost") {
			at := noonUTC().Add(time.Duration(rapid.IntRange(-20, 1).Draw(rt, "at"))*time.Second + time.Duration(n+1)*time.Millisecond)
			r.Entries = append(r.Entries, quota.Entry{At: at, ID: quota.ID{Client: 5, Seq: uint64(n + 1)}, Method: "list", Units: 7, Calls: 1})
		}
		for _, call := range rapid.SliceOfNDistinct(rapid.IntRange(g.counted, len(g.calls)-1), 0, 4, rapid.ID).Draw(rt, "raised") {
			of := g.calls[call][0]
			cost := quota.Units(rapid.IntRange(0, 50).Draw(rt, "cost"))
			r.Entries = append(r.Entries, quota.Entry{At: of.At, ID: of.ID, Method: g.methods[call], Units: cost, Calls: 1})
		}
		want, err := g.copy.Restore(t.Context(), r)
		if err != nil {
			rt.Fatal(err)
		}
		meanwhile := drawChanges(rt, "meanwhile")
		restoring.AddHook(after{"rpush", func() {
			tries++
			g.change(meanwhile)
		}})
		done, err := restorer.Restore(t.Context(), r)
		if err != nil || done.Entries != want.Entries || tries != 1 {
			rt.Errorf("%d entries in %d tries, %v; want %d in 1", done.Entries, tries, err, want.Entries)
		}
		g.compare()
	})
}

// TestMuchIsSettledWhileRestored: the swap of a restored log would take long,
// because a call before 3,000 of its records is settled, or 3,000 calls are, or
// the list of what is settled has grown too long. The log is read again.
func TestMuchIsSettledWhileRestored(t *testing.T) {
	now := time.Now()
	old := quota.Entry{At: now.Add(-2 * time.Hour).Truncate(time.Microsecond), ID: quota.ID{Client: 6, Seq: 1}, Method: "list", Units: 5, Calls: 1}
	for name, test := range map[string]struct{ lost, listed int }{"an old call": {lost: 3000}, "many calls": {1, 3000}, "more than is listed": {1, 10000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			client, other := raw(t, server), raw(t, server)
			o := redisledger.New(other, nil)
			if _, err := o.Restore(t.Context(), &quota.Restoration{Account: account, Lost: true, History: 24 * time.Hour, Entries: []quota.Entry{old}}); err != nil {
				t.Fatal(err)
			}
			tries := 0
			client.AddHook(after{"time", func() { // once in a try
				if tries++; tries > 1 {
					return
				}
				list := redisledger.LogKey(o, account) + ":s"
				for range test.listed {
					do(t, other, "rpush", list, "another")
				}
				if err := o.Settle(t.Context(), quota.Receipt{Account: account, ID: old.ID, At: old.At}, 50); err != nil {
					t.Error(err)
				}
				if left := do(t, other, "llen", list).(int64); (left == 0) != (test.listed == 10000) {
					t.Errorf("%d are listed", left)
				}
			}})
			l := redisledger.New(client, nil)
			done, err := l.Restore(t.Context(), lostCalls(test.lost, now))
			if got := used(t, l, day); err != nil || got != quota.Units(test.lost+50) || done.Entries != test.lost || tries != 2 {
				t.Errorf("%d units after %d tries, %d entries restored, %v; want %d after 2", got, tries, done.Entries, err, test.lost+50)
			}
		})
	}
}

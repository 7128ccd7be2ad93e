package replica_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/postgresledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// faults are what happens after each host has spent 3 units, before all hosts
// spend what is left. The first host is there; the last one may be the same.
var faults = []struct {
	name  string
	occur func(w *world, first, last *host)
}{
	{"ledger down and back", func(w *world, first, last *host) {
		w.ledger.isDown = true
		for _, h := range w.hosts {
			for range hostAllowance + 1 {
				h.spendInOutage()
			}
		}
		last.restart()
		w.ledger.recover()
	}},
	{"emptied", func(w *world, first, last *host) { w.empty() }},
	{"emptied and restarted", func(w *world, first, last *host) {
		w.empty()
		for _, h := range w.hosts {
			h.restart()
		}
	}},
	{"older copy", func(w *world, first, last *host) {
		copied := w.copy()
		last.spend("search", 2)
		first.spend("list", 2)
		w.replace(copied)
	}},
	{"older copy, restarted after others went on", func(w *world, first, last *host) {
		copied := w.copy()
		last.spend("search", 2)
		w.replace(copied)
		first.spend("list", 3)
		last.restart()
	}},
	{"failover that loses the tail while others go on", func(w *world, first, last *host) {
		last.spend("list", 2)
		copied := w.copy()
		last.spend("search", 3)
		w.replace(copied)
		first.spend("list", 4)
		first.spend("search", 2)
	}},
	{"loss within a loss", func(w *world, first, last *host) {
		w.empty()
		w.ledger.allowed = 1
		first.spend("list", 1)
		w.ledger.recover()
		w.empty()
		w.ledger.allowed = 0
		last.spend("list", 1)
		w.ledger.recover()
	}},
	{"a host away through all of it", func(w *world, first, last *host) {
		first.spend("list", 2)
		copied := w.copy()
		first.spend("search", 2)
		w.replace(copied)
		first.spend("list", 1)
		w.empty()
		first.fill()
		last.restart()
	}},
	{"replica lost", func(w *world, first, last *host) {
		first.loseReplica()
		first.spend("list", 1)
		w.empty()
		first.restart()
	}},
	{"torn replica file", func(w *world, first, last *host) {
		before := maps.Clone(last.onDisk)
		last.spend("list", 2)
		last.tearReplica(7, before)
		w.empty()
	}},
	{"disk full", func(w *world, first, last *host) {
		last.isFull = true
		last.spend("list", 2)
		last.isFull = false
		last.spend("search", 2)
		last.restart()
		last.spend("list", 1)
		w.empty()
	}},
	{"killed between append and send", func(w *world, first, last *host) {
		last.spendUnsent("list", 2)
		w.empty()
		last.spendUnsent("search", 2)
	}},
	{"answer lost", func(w *world, first, last *host) {
		w.ledger.losesNext = true
		last.spend("list", 2)
		w.empty()
		w.ledger.losesNext = true
		first.spend("list", 2)
	}},
	{"settled in the lost tail, killed while it is restored", func(w *world, first, last *host) {
		last.spend("search", 2)
		paid := len(w.events) - 1
		copied := w.copy()
		last.settle(paid, 5)
		w.replace(copied)
		first.spend("list", 1)
		w.ledger.allowed = 0
		last.spend("list", 1)
		w.ledger.recover()
		last.restart()
	}},
	{"settled in the lost tail", func(w *world, first, last *host) {
		last.spend("search", 2)
		paid := len(w.events) - 1
		copied := w.copy()
		last.settle(paid, 5)
		w.replace(copied)
		last.restart()
	}},
}

// TestFaultsAdmitOnlyWhatNoHostCouldKnow is the matrix of faults, stores and
// numbers of hosts.
func TestFaultsAdmitOnlyWhatNoHostCouldKnow(t *testing.T) {
	stores := 0
	t.Run("memory", func(t *testing.T) {
		playFaults(t, func(_ *testing.T, now func() time.Time) (engine.Ledger, error) {
			return memledger.Open(&memledger.Options{Now: now}), nil
		})
	})
	if testing.Short() {
		return // other stores take seconds
	}
	t.Run("sqlite", func(t *testing.T) {
		playFaults(t, func(t *testing.T, now func() time.Time) (engine.Ledger, error) {
			o := &sqliteledger.Options{Now: now, Sync: sqliteledger.Normal}
			return sqliteledger.Open(filepath.Join(t.TempDir(), "ledger.db"), o)
		})
	})
	t.Run("redis", func(t *testing.T) {
		server := servers.StartRedis(t)
		playFaults(t, func(_ *testing.T, now func() time.Time) (engine.Ledger, error) {
			stores++
			return redisledger.Open(server.URL(), &redisledger.Options{Now: now, Prefix: fmt.Sprint("test", stores)})
		})
	})
	t.Run("postgres", func(t *testing.T) {
		server := servers.StartPostgres(t)
		playFaults(t, func(_ *testing.T, now func() time.Time) (engine.Ledger, error) {
			stores++
			return postgresledger.Open(server.URL(),
				&postgresledger.Options{Now: now, Schema: fmt.Sprint("test", stores)})
		})
	})
}

// playFaults lets each fault occur to one, two and three hosts.
func playFaults(t *testing.T, open func(t *testing.T, now func() time.Time) (engine.Ledger, error)) {
	for _, fault := range faults {
		for n := range 6 {
			hosts, isReal := 1+n/2, n%2 == 1
			t.Run(fmt.Sprintf("%s/hosts=%d,real=%t", fault.name, hosts, isReal), func(t *testing.T) {
				w := newWorld(t, t.TempDir(), hosts, isReal, func(now func() time.Time) engine.Ledger {
					ledger, err := open(t, now)
					if err != nil {
						t.Fatal(err)
					}
					return ledger
				})
				defer w.close()
				for _, h := range w.hosts {
					h.spend("list", 1)
					h.spend("search", 2)
				}
				fault.occur(w, w.hosts[0], w.hosts[hosts-1])
				for _, h := range w.hosts {
					h.fill()
				}
				w.finish()
			})
		}
	}
}

// TestDrawnFaultsAdmitOnlyWhatNoHostCouldKnow draws faults of every kind, in
// any order.
func TestDrawnFaultsAdmitOnlyWhatNoHostCouldKnow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts, isReal := rapid.IntRange(1, 3).Draw(rt, "hosts"), rapid.Bool().Draw(rt, "real")
		w := newWorld(rt, t.TempDir(), hosts, isReal, func(now func() time.Time) engine.Ledger {
			return memledger.Open(&memledger.Options{Now: now})
		})
		defer w.close()
		copies := []*snapshot{w.copy()}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			h := w.hosts[rapid.IntRange(0, len(w.hosts)-1).Draw(rt, "host")]
			switch rapid.SampledFrom(steps).Draw(rt, "step") {
			case "spend":
				method := rapid.SampledFrom([]string{"list", "search"}).Draw(rt, "method")
				h.spend(method, rapid.Int64Range(1, 4).Draw(rt, "units"))
			case "settle":
				if len(h.ids) > 0 {
					i := rapid.SampledFrom(sortedKeys(h.ids)).Draw(rt, "call")
					h.settle(i, rapid.Int64Range(0, 6).Draw(rt, "cost"))
				}
			case "outage":
				isDown := w.ledger.isDown
				w.ledger.isDown = true
				h.spendInOutage()
				w.ledger.isDown = isDown
			case "down":
				w.ledger.allowed = rapid.IntRange(0, 2).Draw(rt, "appends")
			case "up":
				w.ledger.recover()
			case "lost answer":
				w.ledger.losesNext = true
			case "copy":
				copies = append(copies, w.copy())
			case "replace":
				w.replace(rapid.SampledFrom(copies).Draw(rt, "copy"))
			case "restart":
				h.restart()
			case "killed":
				h.spendUnsent("list", 1)
			case "lose replica":
				h.loseReplica()
			case "torn":
				before := maps.Clone(h.onDisk)
				n := len(w.events)
				if h.spend("list", 1); len(w.events) == n+1 && !h.isFull {
					h.tearReplica(rapid.Int64Range(1, 60).Draw(rt, "bytes"), before)
				}
			case "disk":
				h.isFull = !h.isFull
			}
		}
		w.finish()
	})
}

// steps are what a drawn world does, the frequent ones repeatedly.
var steps = []string{"spend", "spend", "spend", "spend", "spend", "settle", "settle", "outage", "down", "up", "up",
	"lost answer", "copy", "replace", "restart", "killed", "lose replica", "torn", "disk"}

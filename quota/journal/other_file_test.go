package journal_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/redisledger"
)

// configured is a process whose costs.yaml has budgets of its own.
type configured struct {
	*quota.Guard
	t *testing.T
}

func newConfigured(t *testing.T, server *redistest.Server, dir string, allow quota.Units, budgets ...quota.Budget) configured {
	t.Helper()
	inner, err := redisledger.Open(server.URL(), nil)
	must(t, err)
	l := journal.New(inner, dir, &journal.Options{Budgets: budgets, Allow: func(quota.Call) quota.Units { return allow }})
	t.Cleanup(func() { _ = l.Close() })
	g, err := quota.NewGuard(l, budgets, nil)
	must(t, err)
	return configured{g, t}
}

// send makes calls until one is refused, at most most.
func (c configured) send(method string, most int) (sent int) {
	for range most {
		if _, err := c.Spend(context.Background(), quota.Call{Account: account, Method: method, Units: 1}); err != nil {
			return sent
		}
		sent++
	}
	return sent
}

// TestOtherFileRestoresFirst: a process without the budget of searches restores
// the log. What another host had spent of that was admitted again to processes
// of this one that have the budget, and had heard of it: 900 of 500.
func TestOtherFileRestoresFirst(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	here, there := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "there")
	day := quota.Budget{Account: account, Name: "day", Limit: 10_000, Window: quota.Sliding(24 * time.Hour)}
	searches := quota.Budget{Account: account, Name: "searches", Methods: []string{"search"}, Limit: 500, Window: quota.Sliding(24 * time.Hour)}
	plain := newConfigured(t, server, here, 0, day)
	searching, other := newConfigured(t, server, here, 0, day, searches), newConfigured(t, server, there, 0, day, searches)
	total := other.send("search", 400) + searching.send("search", 1)
	plain.send("list", 1)
	server.Do(t, "flushall")
	if plain.send("list", 1) != 1 {
		t.Error("nothing is granted after the loss")
	}
	total += searching.send("search", 1000) + other.send("search", 1000)
	if total != 500 {
		t.Errorf("%d searches; want 500", total)
	}
}

// TestBudgetsOfOneName: two files have different budgets of one name. What was
// heard of the narrower one took the place of what was heard of the other: 900
// of 500.
func TestBudgetsOfOneName(t *testing.T) {
	wide := quota.Budget{Account: account, Name: "limit", Limit: 500, Window: quota.Sliding(24 * time.Hour)}
	narrow := wide
	narrow.Methods = []string{"search"}
	for _, outage := range []bool{false, true} {
		t.Run(fmt.Sprint("outage ", outage), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, aof...)
			here, there := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "there")
			first, second := newConfigured(t, server, here, 500, wide), newConfigured(t, server, here, 500, narrow)
			total := newConfigured(t, server, there, 0, wide).send("m", 400) + first.send("m", 1) + second.send("search", 1)
			if outage {
				server.Stop()
			} else {
				server.Do(t, "flushall")
			}
			if total += first.send("m", 1000); total != 500 {
				t.Errorf("%d of 500", total)
			}
		})
	}
}

// TestRefusalAfterARefund: a host is refused, refunds a call, and is refused
// again after another host has spent these units. The second refusal said the
// same and was not written: 700 of 500 after a loss.
func TestRefusalAfterARefund(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	day := quota.Budget{Account: account, Name: "day", Limit: 500, Window: quota.Sliding(24 * time.Hour)}
	root := t.TempDir()
	here, there := newConfigured(t, server, filepath.Join(root, "here"), 0, day), newConfigured(t, server, filepath.Join(root, "there"), 0, day)
	spend := func(c configured, units quota.Units) *quota.Grant {
		grant, err := c.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: units})
		must(t, err)
		return grant
	}
	refunded := spend(here, 200)
	spend(there, 300)
	total := 300 + here.send("m", 1)
	must(t, refunded.Refund(t.Context()))
	spend(there, 200)
	total += 200 + here.send("m", 1)
	server.Do(t, "flushall")
	total += newConfigured(t, server, filepath.Join(root, "here"), 0, day).send("m", 1000) + there.send("m", 1000)
	if total != 500 {
		t.Errorf("%d of 500", total)
	}
}

package usage_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// keptOpen is a ledger on a test's clock that several clients use one after
// another.
type keptOpen struct{ quota.Ledger }

func (keptOpen) Close() error   { return nil }
func (keptOpen) RealTime() bool { return false }

// TestRefusalsOfSeveralProcessesAreCountedOnce: a ledger has few refusals, and
// two processes that added the files of a day both counted them.
func TestRefusalsOfSeveralProcessesAreCountedOnce(t *testing.T) {
	dir := t.TempDir()
	now := func() time.Time { return historyNoon }
	table, err := costs.Parse(filepath.Join(dir, "costs.yaml"),
		[]byte("version: 1\nupstream: u\naccount: p\nhosts: [u.example]\nroutes:\n  GET /m: m\ncosts: {m: "+
			"60}\nbudgets:\n  - {name: b, limit: 100, window: {day: America/Los_Angeles}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	ledger := keptOpen{memledger.Open(&memledger.Options{Now: now})}
	guard, err := quota.NewGuard(ledger, table.Budgets(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 60}); err != nil {
		t.Fatal(err)
	}
	refuse := func(region string, times int) {
		c, err := client.New(table, &client.Options{State: dir, Replica: filepath.Join(dir, "replica"), Opened: ledger,
			Now: now})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		call := quota.Call{Account: "p", Method: "m", Units: 60, Caller: quota.Caller{Region: region}}
		for range times {
			_, err := c.Guard().Spend(t.Context(), call)
			if !errors.Is(err, quota.ErrRefused) {
				t.Error(err)
			}
			c.RepeatRefusal(err)
		}
	}
	var store [2]*catalog.Catalog
	for i := range store {
		if store[i], err = catalog.Open(filepath.Join(dir, "catalog.db"), nil); err != nil {
			t.Fatal(err)
		}
		defer store[i].Close()
	}
	for range 2 {
		refuse("IN", 1000)
		refuse("", 3)
		var both sync.WaitGroup
		for i := range store {
			both.Go(func() {
				if err := usage.AddRefusals(t.Context(), store[i], dir, table.Budgets(), now()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}
	if err := usage.AddRefusals(t.Context(), store[0], dir, table.Budgets(), now().AddDate(0, 0, 4)); err != nil {
		t.Fatal(err)
	}
	checkRefusals(t, store[1], dir)
}

func checkRefusals(t *testing.T, store *catalog.Catalog, dir string) {
	t.Helper()
	rows, err := store.History(t.Context(), &catalog.DayQuery{By: "region"})
	got := ""
	for _, r := range rows {
		got += fmt.Sprintln(r.Budget, r.Date, r.Day.Hour(), r.Name, r.Refusals)
	}
	want := " 2026-11-20 0 - 6\n 2026-11-20 0 IN 2000\nb 2026-11-20 8 - 6\nb 2026-11-20 8 IN 2000\n"
	if err != nil || got != want {
		t.Errorf("%v\n%swant\n%s", err, got, want)
	}
	if left, err := client.RefusalFiles(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v; want the files of days before yesterday deleted", left, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "last-refusal.json")); err != nil {
		t.Error(err)
	}
}

// TestFillsAtOnceLoseNothing: two processes read the log, and the one that
// wrote last had read first.
func TestFillsAtOnceLoseNothing(t *testing.T) {
	open := func(now func() time.Time) quota.Ledger { return memledger.Open(&memledger.Options{Now: now}) }
	w := newWorld(t, t.TempDir(), open, budget("b", quota.Sliding(24*time.Hour)))
	defer w.close()
	var all sync.WaitGroup
	for i := range w.stores {
		all.Go(func() {
			for range 10 {
				w.spend("m", "IN", 1)
				w.fill(i)
			}
		})
	}
	all.Wait()
	w.fill(0)
	w.want("region", map[string]string{" 2026-11-20 IN": "20/20", "b 2026-11-20 IN": "20/20"})
}

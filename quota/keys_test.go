package quota_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// perKey returns a budget of which each key has the limit.
func perKey(name string, limit quota.Units, length time.Duration) quota.Budget {
	b := budget(name, limit, length)
	b.PerKey = true
	return b
}

// TestEachKeyHasALimitBesideTheSharedOne: on every ledger, a budget with PerKey
// counts the calls of one key, calls without a key together, and the other
// budgets those of all keys.
func TestEachKeyHasALimitBesideTheSharedOne(t *testing.T) {
	for name, open := range map[string]opener{"memory": openMemory, "SQLite": openSQLite, "Redis": openRedis} {
		t.Run(name, func(t *testing.T) {
			log, err := open(t)()
			if err != nil {
				t.Fatal(err)
			}
			guard, err := quota.NewGuard(log,
				[]quota.Budget{budget("shared", 50, time.Hour), perKey("tenant", 20, time.Hour)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, step := range []struct {
				key     string
				refused string
			}{{"acme", ""}, {"acme", ""}, {"acme", "tenant"}, {"globex", ""}, {"", ""}, {"", ""}, {"", "tenant"},
				{"globex", "shared"}} {
				c := call("list", 10)
				c.Key = step.key
				_, err := guard.Spend(t.Context(), c)
				refused, _ := errors.AsType[*quota.RefusedError](err)
				switch {
				case step.refused == "" && err != nil:
					t.Errorf("%+v: %v", step, err)
				case step.refused != "" && (refused == nil || refused.Budget != step.refused):
					t.Errorf("%+v: %v", step, err)
				}
			}
		})
	}
}

// TestFullestKeysComeFirst lists the keys closest to their limits.
func TestFullestKeysComeFirst(t *testing.T) {
	search := perKey("search", 10, time.Hour)
	search.Methods = []string{"search"}
	guard := newGuard(t, nil, perKey("minute", 1000, time.Minute), search, budget("all", 100_000, time.Hour))
	for i := range 30 {
		client := call("list", quota.Units(10*(i+1)))
		client.Key = fmt.Sprint("client ", i)
		if _, err := guard.Spend(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	searcher := call("search", 9)
	searcher.Key = "searcher"
	if _, err := guard.Spend(t.Context(), searcher); err != nil {
		t.Fatal(err)
	}
	if err := guard.Correct(t.Context(), account, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	found, err := guard.TopKeys(t.Context(), account, 3)
	if err != nil || found.Read != 31 || !found.All || len(found.Fullest) != 3 {
		t.Fatalf("%+v, %v; want 3 of all 31 keys", found, err)
	}
	fullest := found.Fullest
	if want := map[string]int{"minute": 31, "search": 1}; !maps.Equal(found.Used, want) || len(found.Full) > 0 {
		t.Errorf("counts %v, %v; want %v, and none full", found.Used, found.Full, want)
	}
	keys := []string{fullest[0][0].Key, fullest[1][0].Key, fullest[2][0].Key}
	if want := []string{"searcher", "client 29", "client 28"}; !slices.Equal(keys, want) {
		t.Errorf("fullest are %q; want %q", keys, want)
	}
	if b := fullest[0]; len(b) != 2 || b[0].Used != 9 || b[1].Used != 9 || b[1].Remaining != 1 {
		t.Errorf("balances %+v; want 9 units of both budgets", b)
	}
}

// TestGrantKnowsItsBalances: the balances of a grant, as spend --json shows
// them, do not need a second query of the ledger.
func TestGrantKnowsItsBalances(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	search := quota.Budget{Account: account, Name: "search", Limit: 50, Window: quota.Sliding(time.Minute),
		Methods: []string{"search"}}
	guard := newGuard(t, &memledger.Options{Now: clock.Now}, budget("day", 100, 24*time.Hour), search)
	grant, err := guard.Spend(t.Context(), call("search", 30))
	if err != nil {
		t.Fatal(err)
	}
	balances := grant.Balances()
	if len(balances) != 2 || balances[0].Budget.Name != "day" || balances[0].Remaining != 70 ||
		balances[1].Used != 30 ||
		!balances[1].NextFree.Equal(clock.Now().Add(time.Minute)) ||
		!balances[0].Since.Equal(clock.Now().Add(time.Microsecond-24*time.Hour)) {
		t.Errorf("%+v; want 70 of the day and 20 of a minute left", balances)
	}
	if tightest, ok := grant.Tightest(); !ok || tightest.Budget.Name != "search" || tightest.Remaining != 20 {
		t.Errorf("%+v, %v; want 20 searches' units", tightest, ok)
	}
	if uncovered, err := guard.Spend(t.Context(), quota.Call{Account: "another", Method: "m", Units: 1}); err != nil ||
		uncovered.Balances() != nil {
		t.Errorf("%+v, %v; want none", uncovered.Balances(), err)
	}
	if tightest, ok := (*quota.Grant)(nil).Tightest(); ok {
		t.Errorf("a nil grant: %+v", tightest)
	}
}

package client_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// countsAndLists has a counter window for all calls, and an exact one for
// searches.
const countsAndLists = "version: 1\naccount: a\ncosts: {search.list: 1, videos.list: 1}\n" +
	"budgets: [{name: all, limit: 100, window: {counter: 24h}}, {name: searches, limit: 10, window: 24h, methods: [search.list]}]\n"

// newCounts returns a function that opens clients of one host.
func newCounts(t *testing.T) (table *costs.Table, file string, open func() *client.Client) {
	table, err := costs.Parse("costs.yaml", []byte(countsAndLists))
	if err != nil {
		t.Fatal(err)
	}
	file, state := filepath.Join(t.TempDir(), "ration.db"), t.TempDir()
	return table, file, func() *client.Client {
		c, err := client.New(table, &client.Options{Ledger: "sqlite:" + file, State: state, Journal: state, Getenv: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

func spendOne(t *testing.T, g *quota.Guard, method string) {
	t.Helper()
	if _, err := g.Spend(t.Context(), quota.Call{Account: "a", Method: method, Units: 1}); err != nil {
		t.Fatal(err)
	}
}

// TestUncountedCallsAreNotMissing: until the first call that an exact window
// covers, a log with counter windows keeps no entries, and has forgotten none.
func TestUncountedCallsAreNotMissing(t *testing.T) {
	t.Parallel()
	_, _, open := newCounts(t)
	c := open()
	for _, method := range []string{"videos.list", "search.list"} {
		spendOne(t, c.Guard(), method)
		if missing, err := c.Missing(t.Context()); err != nil || len(missing) > 0 {
			t.Errorf("after %s: %v, %v; want nothing missing", method, missing, err)
		}
	}
}

// TestCountsHideALoss: a ledger that has forgotten a search has no entries
// either, once a client without a journal makes a call that is only counted.
func TestCountsHideALoss(t *testing.T) {
	t.Parallel()
	table, file, open := newCounts(t)
	c := open()
	spendOne(t, c.Guard(), "search.list")
	spendOne(t, c.Guard(), "videos.list")
	if err := errors.Join(c.Close(), os.RemoveAll(filepath.Dir(file)), os.Mkdir(filepath.Dir(file), 0o700)); err != nil {
		t.Fatal(err)
	}
	stranger, err := ledgertest.SQLite(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	guard, err := quota.NewGuard(stranger, table.Budgets(), nil)
	if err != nil {
		t.Fatal(err)
	}
	spendOne(t, guard, "videos.list")
	if missing, err := open().Missing(t.Context()); err != nil || len(missing) != 1 {
		t.Errorf("%v, %v; want the account", missing, err)
	}
}

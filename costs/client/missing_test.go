package client_test

import (
	"path/filepath"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

// TestUncountedCallsAreNotMissing: until the first call that an exact window
// covers, a log with counter windows keeps no entries, and has forgotten none.
func TestUncountedCallsAreNotMissing(t *testing.T) {
	t.Parallel()
	table, err := costs.Parse("costs.yaml", []byte("version: 1\naccount: a\ncosts: {search.list: 1, videos.list: 1}\n"+
		"budgets: [{name: all, limit: 100, window: {counter: 24h}}, {name: searches, limit: 10, window: 24h, methods: [search.list]}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(table, &client.Options{Ledger: "sqlite:" + filepath.Join(t.TempDir(), "ration.db"), State: t.TempDir(), Journal: t.TempDir(),
		Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for _, method := range []string{"videos.list", "search.list"} {
		if _, err := c.Guard().Spend(t.Context(), quota.Call{Account: "a", Method: method, Units: 1}); err != nil {
			t.Fatal(err)
		}
		if missing, err := c.Missing(t.Context()); err != nil || len(missing) > 0 {
			t.Errorf("after %s: %v, %v; want nothing missing", method, missing, err)
		}
	}
}

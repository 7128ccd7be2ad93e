package client_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

// TestMissingNamesWhatAHostKnowsOfALedgerThatIsGone: an account of which the
// host knows nothing is not missing, and a ledger that exists is restored.
func TestMissingNamesWhatAHostKnowsOfALedgerThatIsGone(t *testing.T) {
	table, err := costs.Parse("costs.yaml",
		[]byte("version: 1\naccount: a\ncosts: {get: 1}\nbudgets: [{name: all, limit: 100, window: 24h}]\n"+
			"---\nversion: 1\naccount: b\ncosts: {put: 1}\nbudgets: [{name: all, limit: 100, window: 24h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ration.db")
	o := &client.Options{Ledger: "sqlite:" + file, State: t.TempDir(), Getenv: func(string) string { return "" }}
	if missing, err := client.Offline(table, o).Missing(); err != nil || len(missing) != 0 {
		t.Errorf("a new host: %v, %v; want nothing missing", missing, err)
	}
	c, err := client.New(table, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Guard().Spend(t.Context(), quota.Call{Account: "a", Method: "get", Units: 1}); err != nil {
		t.Fatal(err)
	}
	if missing, err := c.Missing(); err != nil || len(missing) != 0 {
		t.Errorf("an open ledger: %v, %v; want nothing missing", missing, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	missing, err := client.Offline(table, o).Missing()
	if err != nil || len(missing) != 1 || missing[0].Account != "a" {
		t.Errorf("a ledger that is gone: %v, %v; want account a", missing, err)
	}
}

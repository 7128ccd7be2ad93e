package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestLoweringReachesABoundedNumberOfEntriesBack: what is older stays, and the
// answer says so.
func TestLoweringReachesABoundedNumberOfEntriesBack(t *testing.T) {
	s := newStand(t, nil, "{name: all, limit: 1000, window: 24h}", "[trending]", "US")
	ledger, err := sqliteledger.Open(filepath.Join(s.dir, "ration.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	calls := slices.Repeat([]quota.Call{{Account: "p", Method: "videos.list"}}, 258)
	calls[0].Units = 527
	testledger.Fill(t, ledger, calls...)
	const want = "all had 527 units: none could be taken off, they are older than 256 entries; it has 527 of 1000 " +
		"used, 473 left\n"
	code, out, text := s.run(t, nil, "ledger", "reconcile", "all", "--used", "100", "--force")
	if code != exitDone || out+text != want {
		t.Errorf("exit code %d, it says %q; want %q", code, out+text, want)
	}
}

// TestReconcileWithoutALedgerUsesNoAllowance: what it would enter is not a
// call, so it uses no allowance and announces none.
func TestReconcileWithoutALedgerUsesNoAllowance(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for a ledger that is down")
	}
	s := newStand(t, nil, "{name: all, limit: 1000, window: 24h}", "[trending]", "US")
	costs, err := os.ReadFile(filepath.Join(s.dir, "costs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "costs.yaml", string(costs)+"when_ledger_down: {default: {allow: 5}}\n")
	code, out, text := s.run(t, nil, "--ledger", "redis://127.0.0.1:1", "ledger", "reconcile", "all", "--used", "100")
	if out += text; code != exitLedger || strings.Count(out, "\n") != 1 || strings.Contains(out, "allowance") {
		t.Errorf("exit code %d, it says %q; want one line and exit 69", code, out)
	}
}

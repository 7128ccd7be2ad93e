package journal_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestCallersOfOneBatchAreNotJournaled: callers share a transaction, and one append.
// Each of their grants is restored after the ledger has forgotten, and no other.
func TestCallersOfOneBatchAreNotJournaled(t *testing.T) {
	folder := t.TempDir()
	dir := filepath.Join(folder, "journal")
	shared, err := sqliteledger.Open(filepath.Join(folder, "ration.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := journal.New(shared, dir, nil)
	day := &quota.Charge{Budget: "day", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 100, Window: quota.Sliding(24 * time.Hour)}
	spend := func(l quota.Ledger, client, seq uint64) bool {
		requests := []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{day}}}
		answers, err := l.Spend(context.Background(), &quota.Batch{Account: account, Client: client, Seq: seq, Requests: requests})
		if err != nil {
			t.Error(err)
			return false
		}
		return answers[0].Err == nil
	}
	const callers, each = 16, 8
	var running sync.WaitGroup
	granted := make([]int, callers)
	for i := range callers {
		client := uint64(0) // half of the callers name their batches
		if i%2 == 0 {
			client = quota.NewClient()
		}
		running.Go(func() {
			for n := range each {
				if spend(l, client, uint64(n+1)) {
					granted[i]++
				}
			}
		})
	}
	running.Wait()
	sum := 0
	for _, n := range granted {
		sum += n
	}
	if err := l.Close(); err != nil || sum != 100 {
		t.Fatalf("%v, %d granted; want 100 of %d", err, sum, callers*each)
	}
	forgetful := journal.New(memledger.Open(nil), dir, nil)
	defer forgetful.Close()
	if spend(forgetful, 0, 0) {
		t.Error("granted; want all 100 units restored")
	}
	entries := 0
	for _, err := range forgetful.Entries(t.Context(), quota.Query{Account: account}) {
		if err != nil {
			t.Fatal(err)
		}
		entries++
	}
	if entries != 100 {
		t.Errorf("%d entries restored; want 100", entries)
	}
}

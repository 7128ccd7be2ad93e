package journal_test

import (
	"sync"
	"testing"

	"github.com/ration-dev/ration/quota"
)

// TestCrowdOpensTheAllowance: sixty processes that wait for each other on a
// healthy SQLite ledger spend exactly the limit, and nothing of the allowance.
func TestCrowdOpensTheAllowance(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a crowd of processes, 2 seconds")
	}
	t.Parallel()
	url, hits := counter(t)
	root := t.TempDir()
	var crowd sync.WaitGroup
	for range 60 {
		w := startWorker(t, url, root)
		crowd.Go(func() { w.calls(1000); w.stop() })
	}
	crowd.Wait()
	if n := hits.Load(); n != 500 {
		t.Errorf("%d calls reached the upstream; want 500", n)
	}
	l := fileJournal(t, root)
	recorded := 0
	for _, err := range l.Entries(t.Context(), quota.Query{Account: account}) {
		if err != nil {
			t.Fatal(err)
		}
		recorded++
	}
	if units, err := l.Unrecorded(account); recorded != 500 || units != 0 || err != nil {
		t.Errorf("%d calls are recorded, %d units of the allowance went out, %v; want 500 and none", recorded, units, err)
	}
}

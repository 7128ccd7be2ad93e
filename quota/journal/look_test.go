package journal_test

import (
	"runtime"
	"testing"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestALookReadsTheWholeJournal: what status asks of a journal put all its
// records into memory: 390 MB for a million.
func TestALookReadsTheWholeJournal(t *testing.T) {
	ledger := memledger.Open(nil)
	h := newHost(t, func() quota.Ledger { return ledger })
	many := []quota.Budget{{Account: account, Name: "many", Limit: quota.MaxLimit, Window: budgets[0].Window}}
	open := func() *journal.Ledger {
		l := journal.New(h.open(), h.dir, &journal.Options{Budgets: many})
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	spendMany := func() {
		g, err := quota.NewGuard(open(), many, nil)
		must(t, err)
		for range 20 {
			_, err := g.SpendTogether(t.Context(), quota.Call{Account: account, Method: "videos.list", Units: 1}, 1000, 0)
			must(t, err)
		}
	}
	spendMany()
	ledger = memledger.Open(nil)
	spendMany()

	var before, after runtime.MemStats
	l := open()
	runtime.ReadMemStats(&before)
	missing, err := l.Missing(t.Context(), account)
	must(t, err)
	unrecorded(t, l, 0)
	repairs, err := l.Repairs(account)
	must(t, err)
	runtime.ReadMemStats(&after)
	if !missing.IsZero() || len(repairs) != 1 || repairs[0].Entries != 20_000 {
		t.Errorf("missing since %s, repairs %+v; want one of 20,000 calls", missing, repairs)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("a look at 40,000 records took %d KB of memory; want less than 4 MB", used>>10)
	}
}

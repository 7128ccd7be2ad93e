package journal_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestCallersOfOneBatchAreNotJournaled: callers share a transaction, and one
// append. Each of their grants is restored after the ledger has forgotten, and
// no other.
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

// TestRepeatedBatchIsNotedTwice: a batch is sent again, of which the ledger had
// refused the first call. That is granted now, later than the second one, and
// what was heard of the budget is of its time.
func TestRepeatedBatchIsNotedTwice(t *testing.T) {
	clock, dir := &ledgertest.Clock{}, t.TempDir()
	clock.Set(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	day := quota.Budget{Name: "day", Account: account, Limit: 10, Window: quota.Sliding(24 * time.Hour)}
	open := func() *journal.Ledger {
		return journal.New(memledger.Open(&memledger.Options{Now: clock.Now}), dir, &journal.Options{Budgets: []quota.Budget{day}, Now: clock.Now})
	}
	charges := []*quota.Charge{{Budget: day.Name, Coverage: quota.NewCoverage(quota.Coverage{}), Limit: day.Limit, Window: day.Window}}
	ask := func(l *journal.Ledger, seq uint64, units ...quota.Units) []quota.Answer {
		t.Helper()
		clock.Add(time.Second)
		batch := &quota.Batch{Account: account, Client: 7, Seq: seq}
		for _, u := range units {
			batch.Requests = append(batch.Requests, quota.Request{Method: "m", Units: u, Charges: charges})
		}
		answers, err := l.Spend(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		return answers
	}
	first := open()
	other, err := first.Ledger.Spend(t.Context(), &quota.Batch{Account: account, Client: 8, Seq: 1, Requests: []quota.Request{{Method: "m", Units: 5, Charges: charges}}})
	if err != nil || ask(first, 1, 8, 1)[0].Err == nil {
		t.Fatal(err, "8 of 10 units were granted after 5")
	}
	if err := first.Ledger.Refund(t.Context(), other[0].Receipt); err != nil {
		t.Fatal(err)
	}
	if answers := ask(first, 1, 8, 1); answers[0].Err != nil || answers[1].Err != nil || !answers[0].Receipt.At.After(answers[1].Receipt.At) {
		t.Fatalf("%+v; want that the first is granted now, and the second as before", answers)
	}
	lost := open()
	if answers := ask(lost, 3, 1); answers[0].Err != nil {
		t.Error(answers[0].Err)
	}
	standings, err := lost.Standings(t.Context(), account, "", charges)
	if err != nil || standings[0].Used != 10 {
		t.Errorf("%+v, %v; want the 9 units and the one since", standings, err)
	}
}

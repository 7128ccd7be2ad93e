package journal_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestOutagesKeepANote: a note leaves its window a day after the loss, however
// often the ledger is down meanwhile. Each restoration after an outage moved it
// to the newest answer, and calls were refused for as long as outages followed.
func TestOutagesKeepANote(t *testing.T) {
	search := quota.Budget{Account: account, Name: "search", Limit: 100, Window: quota.Sliding(24 * time.Hour), Methods: []string{"search"}}
	for name, test := range map[string]struct {
		methods  [2]string // of the calls before and after the loss
		searches time.Duration
	}{
		"its budget is heard of again":       {[2]string{"search", "search"}, 48 * time.Hour},
		"a wider budget is heard of":         {[2]string{"search", "m"}, 0},
		"its budget is heard of for a while": {[2]string{"search", "m"}, 20 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWrongClock(t)
			budgets := []quota.Budget{w.budget, search}
			shared := failing(nil)
			open := func(host string) *quota.Guard {
				l := journal.New(shared, filepath.Join(w.dir, host), &journal.Options{Budgets: budgets, Now: w.Now, Allow: func(quota.Call) quota.Units { return 100 }})
				guard, err := quota.NewGuard(l, budgets, nil)
				must(t, err)
				return guard
			}
			spend := func(guard *quota.Guard, method string, calls int) {
				for range calls {
					w.Add(time.Second)
					_, err := guard.Spend(t.Context(), quota.Call{Account: account, Method: method, Units: 1})
					must(t, err)
				}
			}
			forget := func() { shared.Ledger = memledger.Open(&memledger.Options{Now: w.Now}) }
			forget()
			spend(open("other"), "search", 60)
			spend(open("here"), test.methods[0], 1)
			forget()
			lost := w.Now()
			spend(open("here"), test.methods[1], 1)
			for w.Now().Sub(lost) < 46*time.Hour {
				w.Add(2 * time.Hour)
				shared.fail(errDown)
				spend(open("here"), test.methods[1], 1)
				shared.fail(nil)
				spend(open("here"), test.methods[1], 1)
				if w.Now().Sub(lost) < test.searches {
					spend(open("here"), "search", 1)
				}
				balances, err := open("here").Balances(t.Context())
				must(t, err)
				if used, since := balances[0].Used, w.Now().Sub(lost); used > 40 && since > 24*time.Hour {
					t.Fatalf("%d units are used %s after the loss; want at most the calls of a day", used, since)
				}
			}
		})
	}
}

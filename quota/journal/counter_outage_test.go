package journal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/ledgertest"
)

// TestOutageOfACounterGrantsTwice: an account with counter windows alone keeps
// no entries, so what others have spent is in its counts alone. What hosts
// spend within their allowances is added to that, and no loss is reported, in
// this outage and the next.
func TestOutageOfACounterGrantsTwice(t *testing.T) {
	for name, open := range openers(t, redistest.Start(t)) {
		t.Run(name, func(t *testing.T) {
			clock := &ledgertest.Clock{}
			clock.Set(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
			shared, err := open(clock.Now)
			must(t, err)
			t.Cleanup(func() { shared.Close() })
			day := quota.Budget{Account: account, Name: "day", Limit: 100, Window: quota.Counter(24 * time.Hour)}
			folders := []string{t.TempDir(), t.TempDir(), t.TempDir()}
			spend := func(host, most int, down error) (granted int) { // by a new process
				inner := failing(down)
				inner.Ledger = shared
				l := journal.New(inner, folders[host], &journal.Options{Budgets: []quota.Budget{day}, Now: clock.Now, Allow: func(quota.Call) quota.Units { return 25 },
					Report: func(err error) {
						if restored, ok := errors.AsType[*journal.RestoredError](err); !ok || restored.Lost != nil || restored.Units != restored.Owed {
							t.Errorf("host %d: %v; want what was spent in the outage", host, err)
						}
					}})
				g, err := quota.NewGuard(l, []quota.Budget{day}, nil)
				must(t, err)
				granted, _ = calls(g, most)
				clock.Add(time.Minute)
				return granted
			}
			total := spend(0, 20, nil) + spend(1, 10, nil) + spend(2, 10, nil)
			for range 2 {
				total += spend(0, 10, errDown) + spend(1, 10, errDown) // the ledger is down
				total += spend(0, 1, nil) + spend(1, 1, nil) + spend(2, 1, nil)
			}
			if total != 86 {
				t.Fatalf("%d calls were granted; want 86", total)
			}
			if total += spend(2, 200, nil); total != 100 {
				t.Errorf("%d calls were granted; want 100", total)
			}
		})
	}
}

// counted is an account with one counter window on a ledger of which hosts have
// journals.
type counted struct {
	*testing.T
	ledgertest.Clock
	shared  quota.Ledger
	budgets []quota.Budget
	report  func(error)
}

func newCounted(t *testing.T) *counted {
	c := &counted{T: t, budgets: []quota.Budget{{Account: account, Name: "day", Limit: 100, Window: quota.Counter(24 * time.Hour)}}}
	c.Set(noon)
	return c
}

func (c *counted) used(g *quota.Guard) quota.Units {
	c.Helper()
	balances, err := g.Balances(c.Context())
	must(c.T, err)
	return balances[0].Used
}

// TestLossOfACounterGrantsTwice: after a loss, a host's calls are added to what
// the counters of the new log have counted of others since.
func TestLossOfACounterGrantsTwice(t *testing.T) {
	eachCounted(t, func(c *counted, reopen func()) {
		here, there := t.TempDir(), t.TempDir()
		total, _ := calls(c.host(here, nil), 60)
		reopen()
		others, _ := calls(c.host(there, nil), 40)
		more, _ := calls(c.host(here, nil), 100)
		if total += others + more; total != 100 {
			t.Errorf("%d calls were granted; want 100", total)
		}
	})
}

// TestWindowAddedToACounterIsNotALoss: a log begins to keep entries with an
// exact window, and lacks those of earlier calls, which hosts know.
func TestWindowAddedToACounterIsNotALoss(t *testing.T) {
	eachCounted(t, func(c *counted, _ func()) {
		c.report = func(err error) { c.Errorf("%v; want no report", err) }
		here, there := t.TempDir(), t.TempDir()
		_, _ = calls(c.host(here, nil), 20)
		_, _ = calls(c.host(there, nil), 20)
		c.budgets = append(c.budgets, quota.Budget{Account: account, Name: "hour", Limit: 100, Window: quota.Sliding(time.Hour)})
		_, _ = calls(c.host(here, nil), 1)
		c.Add(2 * time.Minute) // a ledger looks for entries once a minute
		_, _ = calls(c.host(there, nil), 1)
	})
}

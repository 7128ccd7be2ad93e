package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestOutageOfACounterGrantsTwice: an account with counter windows alone keeps no
// entries, so what others have spent is in its counts alone. What hosts spend
// within their allowances is added to that, and no loss is reported, in this
// outage and the next.
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
	shared quota.Ledger
	total  int // calls that were granted
}

// spend spends on a host, by a new process, until most calls are granted or one
// is refused.
func (c *counted) spend(folder string, most int) {
	c.Helper()
	c.Add(time.Minute)
	day := []quota.Budget{{Account: account, Name: "day", Limit: 100, Window: quota.Counter(24 * time.Hour)}}
	inner := failing(nil) // a process of its own: no other journal is around it
	inner.Ledger = c.shared
	g, err := quota.NewGuard(journal.New(inner, folder, &journal.Options{Budgets: day, Now: c.Now}), day, nil)
	must(c.T, err)
	granted, _ := calls(g, most)
	c.total += granted
}

// TestLossOfACounterGrantsTwice: after a loss, a host's calls are added to what
// the counters of the new log have counted of others since.
func TestLossOfACounterGrantsTwice(t *testing.T) {
	server := redistest.Start(t)
	for name, open := range openers(t, server) {
		t.Run(name, func(t *testing.T) {
			c := &counted{T: t}
			c.Set(noon)
			reopen := func() { // opens another ledger, which is empty
				if c.shared != nil {
					must(t, c.shared.Close())
				}
				server.Do(t, "flushall")
				var err error
				c.shared, err = open(c.Now)
				must(t, err)
			}
			here, there := t.TempDir(), t.TempDir()
			reopen()
			c.spend(here, 60)
			reopen()
			c.spend(there, 40)
			c.spend(here, 100)
			if c.total != 100 {
				t.Errorf("%d calls were granted; want 100", c.total)
			}
			must(t, c.shared.Close())
		})
	}
}

// TestOlderCopyOfACounterGrantsTwice: an older copy of a log without entries has
// counted what hosts spent before it, and what one of them spent since is added.
func TestOlderCopyOfACounterGrantsTwice(t *testing.T) {
	c, path := &counted{T: t}, filepath.Join(t.TempDir(), "ration.db")
	c.Set(noon)
	open := func() {
		var err error
		c.shared, err = sqliteledger.Open(path, &sqliteledger.Options{Now: c.Now})
		must(t, err)
	}
	here, there := t.TempDir(), t.TempDir()
	open()
	c.spend(there, 50)
	c.spend(here, 10)
	must(t, c.shared.Close())
	older, err := os.ReadFile(path)
	must(t, err)
	open()
	c.spend(here, 30)
	must(t, c.shared.Close())
	must(t, os.WriteFile(path, older, 0o600))
	open()
	c.spend(here, 100)
	if c.total != 100 {
		t.Errorf("%d calls were granted; want 100", c.total)
	}
	must(t, c.shared.Close())
}

// TestWindowAddedToACounterIsNoLoss: a log begins to keep entries with an exact
// window, and lacks those of earlier calls, which hosts know.
func TestWindowAddedToACounterIsNoLoss(t *testing.T) {
	for name, open := range openers(t, redistest.Start(t)) {
		t.Run(name, func(t *testing.T) {
			clock := &ledgertest.Clock{}
			clock.Set(noon)
			shared, err := open(clock.Now)
			must(t, err)
			defer shared.Close()
			counter := quota.Budget{Account: account, Name: "day", Limit: 100, Window: quota.Counter(24 * time.Hour)}
			hour := quota.Budget{Account: account, Name: "hour", Limit: 100, Window: quota.Sliding(time.Hour)}
			spend := func(folder string, most int, budgets ...quota.Budget) {
				clock.Add(2 * time.Minute)
				inner := failing(nil)
				inner.Ledger = shared
				g, err := quota.NewGuard(journal.New(inner, folder, &journal.Options{Budgets: budgets, Now: clock.Now,
					Report: func(err error) { t.Errorf("%v; want no report", err) }}), budgets, nil)
				must(t, err)
				if n, err := calls(g, most); n != most {
					t.Errorf("%d granted, %v; want %d", n, err, most)
				}
			}
			here, there := t.TempDir(), t.TempDir()
			spend(here, 20, counter)
			spend(there, 20, counter)
			spend(here, 1, counter, hour)
			spend(there, 1, counter, hour)
		})
	}
}

package journal_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// These tests are of accounts with counter windows alone, whose logs begin to
// keep entries when a host restores what it was granted.

// host returns a guard of a new process of a host. down is the error of the
// ledger while that process lives, or nil.
func (c *counted) host(folder string, down error) *quota.Guard {
	c.Helper()
	c.Add(time.Minute)
	inner := failing(down)
	inner.Ledger = c.shared
	l := journal.New(inner, folder, &journal.Options{Budgets: c.budgets, Now: c.Now, Allow: func(quota.Call) quota.Units { return 25 }, Report: c.report})
	g, err := quota.NewGuard(l, c.budgets, nil)
	must(c.T, err)
	return g
}

// eachCounted runs a test on each ledger.
func eachCounted(t *testing.T, test func(c *counted, reopen func())) {
	server := redistest.Start(t)
	for name, open := range openers(t, server) {
		t.Run(name, func(t *testing.T) {
			c := newCounted(t)
			reopen := func() { // opens another ledger, which is empty
				if c.shared != nil {
					must(t, c.shared.Close())
				}
				server.Do(t, "flushall")
				var err error
				c.shared, err = open(c.Now)
				must(t, err)
			}
			reopen()
			defer func() { must(t, c.shared.Close()) }()
			test(c, reopen)
		})
	}
}

// TestCallOfBeforeIsSettled: a call in flight, of which the log has kept no
// entry since another host has made it keep them meanwhile, is settled and
// refunded as before, and by a process that does not know what others did only
// raised.
func TestCallOfBeforeIsSettled(t *testing.T) {
	eachCounted(t, func(c *counted, _ func()) {
		here, there := t.TempDir(), t.TempDir()
		var grants []*quota.Grant
		host := c.host(there, nil)
		for _, units := range []quota.Units{1, 40, 10} {
			g, err := host.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: units})
			must(t, err)
			grants = append(grants, g)
		}
		_, _ = calls(c.host(here, errDown), 1)
		_, _ = calls(c.host(here, nil), 1)
		must(t, grants[0].Settle(t.Context(), 30))
		must(t, grants[1].Refund(t.Context()))
		redeemed, err := host.Redeem(grants[2].Token())
		must(t, err)
		if err := redeemed.Settle(t.Context(), 5); err == nil {
			c.Error("a call that others may have lowered was lowered")
		}
		if used := c.used(host); used != 30+10+2 {
			c.Errorf("%d used; want 42", used)
		}
	})
}

// TestRestorationLowersNoCounter: what a counter has counted in the period
// before stays when a restoration begins the next one, and so it does when the
// log is restamped.
func TestRestorationLowersNoCounter(t *testing.T) {
	eachCounted(t, func(c *counted, _ func()) {
		here, there := t.TempDir(), t.TempDir()
		_, _ = calls(c.host(there, nil), 60)
		c.Add(12*time.Hour - 5*time.Minute) // the next day begins
		_, _ = calls(c.host(here, errDown), 1)
		before := c.used(c.host(there, nil))
		host := c.host(here, nil)
		_, _ = calls(host, 1)
		if used := c.used(host); used < before {
			c.Errorf("%d used before the restoration, %d after it and a call", before, used)
		}
		_, err := host.Restamp(t.Context(), account)
		must(t, err)
		if used := c.used(host); used < before {
			c.Errorf("%d used before, %d after a restamp", before, used)
		}
	})
}

// TestLossOfThePeriodBefore: after a loss, a host's calls of the period before
// are added although others have spent in the present one.
func TestLossOfThePeriodBefore(t *testing.T) {
	eachCounted(t, func(c *counted, reopen func()) {
		here, there := t.TempDir(), t.TempDir()
		c.Add(11 * time.Hour)
		_, _ = calls(c.host(here, nil), 90)
		reopen()
		c.Add(time.Hour)
		_, _ = calls(c.host(there, nil), 1)
		host := c.host(here, nil)
		_, _ = calls(host, 1)
		if used := c.used(host); used < 90 { // 90 times 23 hours of 24, and 2
			c.Errorf("%d used; want 88 at least", used)
		}
	})
}

// TestAcceptLossOfACounterInUse: a log that was emptied on purpose, and that
// others use since, is not restored.
func TestAcceptLossOfACounterInUse(t *testing.T) {
	eachCounted(t, func(c *counted, reopen func()) {
		here, there := t.TempDir(), t.TempDir()
		_, _ = calls(c.host(here, nil), 60)
		reopen()
		_, _ = calls(c.host(there, nil), 1)
		must(t, c.host(here, nil).AcceptLoss(t.Context(), account))
		if n, err := calls(c.host(here, nil), 200); n != 99 {
			c.Errorf("%d granted, %v; want 99", n, err)
		}
	})
}

// TestSecondRestorationForgetsNothing: two hosts restore what they spent in an
// outage, and the newest entry of a third one is not missed.
func TestSecondRestorationForgetsNothing(t *testing.T) {
	eachCounted(t, func(c *counted, _ func()) {
		here, there, third := t.TempDir(), t.TempDir(), t.TempDir()
		host := c.host(third, nil)
		_, _ = calls(host, 1)
		_, _ = calls(c.host(here, errDown), 1)
		_, _ = calls(c.host(there, errDown), 1)
		_, _ = calls(host, 1)
		c.used(c.host(here, nil)) // restores, as ration status does
		c.used(c.host(there, nil))
		c.report = func(err error) { c.Errorf("%v; want no report", err) }
		_, _ = calls(c.host(third, nil), 1)
	})
}

// TestOlderCopyOfACounterGrantsTwice: an older copy of a log without entries
// has counted what hosts spent before it, and what one of them spent since is
// added.
func TestOlderCopyOfACounterGrantsTwice(t *testing.T) {
	c, path := newCounted(t), filepath.Join(t.TempDir(), "ration.db")
	open := func() {
		var err error
		c.shared, err = sqliteledger.Open(path, &sqliteledger.Options{Now: c.Now})
		must(t, err)
	}
	total := 0
	spend := func(folder string, most int) {
		granted, _ := calls(c.host(folder, nil), most)
		total += granted
	}
	here, there := t.TempDir(), t.TempDir()
	open()
	spend(there, 50)
	spend(here, 10)
	must(t, c.shared.Close())
	older, err := os.ReadFile(path)
	must(t, err)
	open()
	spend(here, 30)
	must(t, c.shared.Close())
	must(t, os.WriteFile(path, older, 0o600))
	open()
	spend(here, 100)
	if total != 100 {
		t.Errorf("%d calls were granted; want 100", total)
	}
	must(t, c.shared.Close())
}

package quota_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestHistoryKeepsEntriesBeyondTheWindows: the ledger can still list what an
// account spent hours ago, although its only window is a minute.
func TestHistoryKeepsEntriesBeyondTheWindows(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	history := map[string]time.Duration{account: 24 * time.Hour}
	ledger := memledger.Open(&memledger.Options{Now: clock.Now})
	guard, err := quota.NewGuard(ledger, []quota.Budget{budget("minute", 10, time.Minute)},
		&quota.Options{History: history})
	if err != nil {
		t.Fatal(err)
	}
	delete(history, account) // the guard has a copy
	for range 10 {
		if _, err := guard.Spend(t.Context(), call("m", 1)); err != nil {
			t.Fatal(err)
		}
		clock.Add(2 * time.Hour)
	}
	n := 0
	for _, err := range guard.Entries(t.Context(), quota.Query{Account: account}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 10 || guard.Retention(account) != engine.Retention(24*time.Hour) {
		t.Errorf("%d entries after 20 hours, kept for %s; want all 10, and %s", n, guard.Retention(account),
			engine.Retention(24*time.Hour))
	}
}

func TestRetentionCoversWindowsAndHistory(t *testing.T) {
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{
		budget("minute", 10, time.Minute), budget("hour", 10, time.Hour),
		{Account: "listed", Name: "each", Limit: 10, Window: quota.Sliding(time.Minute)},
	}, &quota.Options{History: map[string]time.Duration{account: time.Minute, "listed": time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	for account, want := range map[string]time.Duration{account: engine.Retention(time.Hour),
		"listed": engine.Retention(time.Hour), "unknown": 0} {
		if got := guard.Retention(account); got != want {
			t.Errorf("%s: entries are kept for %s; want %s", account, got, want)
		}
	}
}

func TestHistoryIsChecked(t *testing.T) {
	for history, ok := range map[time.Duration]bool{-time.Microsecond: false, 0: true, time.Nanosecond: false,
		time.Microsecond: true, quota.MaxHistory: true, quota.MaxHistory + time.Microsecond: false} {
		_, err := quota.NewGuard(memledger.Open(nil), nil,
			&quota.Options{History: map[string]time.Duration{account: history}})
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "a history of") {
			t.Errorf("a history of %s: %v", history, err)
		}
	}
}

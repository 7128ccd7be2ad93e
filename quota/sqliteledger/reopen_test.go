package sqliteledger_test

import (
	"os"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestReopenedWindowHoldsWhatHasLeft: the first spend after a restart is
// followed by one that sees the window's own calls, not all that was
// ever spent.
func TestReopenedWindowHoldsWhatHasLeft(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	path, o := fresh(t), &sqliteledger.Options{Now: clock.Now}
	minute, list := charge("minute", 10, quota.Sliding(time.Minute)), charge("list", 10, quota.Sliding(time.Minute), "videos.list")
	l := open(t, path, o)
	spend(t, l, 5, minute, list)
	clock.Add(61 * time.Second)
	spend(t, l, 1, minute, list)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, o)
	clock.Add(time.Second)
	for n, units := range []quota.Units{1, 7, 1} {
		spend(t, l, units, minute, list)
		clock.Add(time.Second)
		for _, c := range []*quota.Charge{minute, list} {
			if got, want := used(t, l, c), []quota.Units{2, 9, 10}[n]; got != want {
				t.Errorf("after spend %d the window of %s holds %d; want %d", n, c.Budget, got, want)
			}
		}
	}
}

// TestShortWindowOfAnotherHandle: a program that knows only a short window
// does not drop what the long window of another program, which is not
// running, needs.
func TestShortWindowOfAnotherHandle(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	path, o := fresh(t), &sqliteledger.Options{Now: clock.Now}
	day, list := charge("day", 100, quota.Sliding(24*time.Hour)), charge("list", 100, quota.Sliding(24*time.Hour), "videos.list")
	minute := charge("minute", 100, quota.Sliding(time.Minute))
	l := open(t, path, o)
	spend(t, l, 80, day, list)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	other := open(t, path, o)
	for range 5 {
		clock.Add(time.Hour)
		spend(t, other, 1, minute)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, path, o)
	for _, c := range []*quota.Charge{day, list} {
		if n := used(t, l, c); n != 85 {
			t.Errorf("%s holds %d; want 85", c.Budget, n)
		}
		answers, err := l.Spend(t.Context(), one(16, c))
		if err != nil || answers[0].Err == nil {
			t.Errorf("16 more of %s: %v, %v; want a refusal", c.Budget, answers, err)
		}
	}
}

// TestClosedLedgerLeavesItsFile: the last handle to be closed leaves no -wal
// file behind, and can be closed again.
func TestClosedLedgerLeavesItsFile(t *testing.T) {
	path := fresh(t)
	l := open(t, path, nil)
	spend(t, l, 1)
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path + "-wal"); !missing(err) {
			t.Errorf("its -wal file: %v; want it gone", err)
		}
	}
}

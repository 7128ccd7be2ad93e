package sqliteledger_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// grants spends one unit n times in one batch.
func grants(t *testing.T, l quota.Ledger, n int, charges ...*quota.Charge) {
	t.Helper()
	batch := one(1, charges...)
	for len(batch.Requests) < n {
		batch.Requests = append(batch.Requests, batch.Requests[0])
	}
	answers, err := l.Spend(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for _, answer := range answers {
		if answer.Err != nil {
			t.Fatal(answer.Err)
		}
	}
}

// TestShortWindowKeepsLittle: a window of a second, with a hundred calls a
// second, keeps little more than Retention says.
func TestShortWindowKeepsLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of calls, 2 seconds")
	}
	const perSecond, minutes = 100, 12
	l, clock := timed(t)
	second, list := charge("second", 2*perSecond, quota.Sliding(time.Second)), charge("list", 2*perSecond, quota.Sliding(time.Second), "videos.list")
	for range minutes * 60 {
		grants(t, l, perSecond, second, list)
		clock.Add(time.Second)
	}
	most := int64(quota.Retention(time.Second)/time.Second) * perSecond * 9 / 8
	for _, table := range []string{"entries", "records"} {
		if rows := count(t, l, table); rows > most {
			t.Errorf("%d %s after %d minutes; want at most %d", rows, table, minutes, most)
		}
	}
	if n := used(t, l, second); n != perSecond-1 {
		t.Errorf("%d used a second later; want all but the first", n)
	}
}

// unused returns a ledger with a list of n records that is no longer in use.
func unused(t *testing.T, n int) (l *sqliteledger.Ledger, clock *ledgertest.Clock, day, list *quota.Charge) {
	l, clock = timed(t)
	day, list = charge("day", quota.MaxLimit, quota.Sliding(24*time.Hour)), charge("list", quota.MaxLimit, quota.Sliding(24*time.Hour), "videos.list")
	grants(t, l, 1, day, list)
	for range 7 { // to four times the window
		clock.Add(12 * time.Hour)
		grants(t, l, 1, day)
	}
	grants(t, l, n, day)
	if rows := count(t, l, "records"); rows < int64(n) {
		t.Fatalf("%d records; want %d at least", rows, n)
	}
	clock.Add(12 * time.Hour)
	return l, clock, day, list
}

// TestUnusedListIsDeleted: the list of a coverage that is no longer in use is
// deleted in steps.
func TestUnusedListIsDeleted(t *testing.T) {
	const n = 2000
	l, _, day, list := unused(t, n)
	least := count(t, l, "records")
	for range 6 {
		grants(t, l, 1, day)
		rows := count(t, l, "records")
		if rows < least-512 {
			t.Fatalf("a spend deleted %d records; want 512 at most", least-rows)
		}
		least = rows
	}
	if lists := count(t, l, "lists"); least > 0 || lists != 1 {
		t.Errorf("%d records and %d lists; want the log's own", least, lists)
	}
	if got := used(t, l, list); got != n+1+6 {
		t.Errorf("%d used; want %d", got, n+1+6)
	}
}

// TestUnusedListComesBack: another handle uses a list while it is
// being deleted.
func TestUnusedListComesBack(t *testing.T) {
	const n = 2000
	l, clock, day, list := unused(t, n)
	grants(t, l, 1, day)
	if rows := count(t, l, "records"); rows == 0 || rows > n {
		t.Fatalf("%d records; want some to be left", rows)
	}
	other := open(t, l.Path(), &sqliteledger.Options{Now: clock.Now, Sync: sqliteledger.Normal})
	for _, l := range []*sqliteledger.Ledger{other, l, other, l, l} {
		grants(t, l, 1, day, list)
	}
	if got := used(t, l, list); got != n+1+1+5 {
		t.Errorf("%d used; want %d", got, n+1+1+5)
	}
}

// TestHistoryIsShared: all processes keep the history that one of them
// asks for.
func TestHistoryIsShared(t *testing.T) {
	l, clock := timed(t)
	second := charge("second", 1000, quota.Sliding(time.Second))
	batch := one(1, second)
	batch.History = 3 * time.Hour
	if _, err := l.Spend(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	for range 22 {
		clock.Add(10 * time.Minute)
		other := open(t, l.Path(), &sqliteledger.Options{Now: clock.Now, Sync: sqliteledger.Normal})
		spend(t, other, 1, second)
		other.Close()
	}
	if n := len(collect(t, l)); n != 21 {
		t.Errorf("%d entries; want those of the last 202.5 minutes: three hours and an eighth", n)
	}
}

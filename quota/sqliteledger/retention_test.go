package sqliteledger_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// timed opens a ledger with its own clock and without syncing.
func timed(t *testing.T) (*sqliteledger.Ledger, *ledgertest.Clock) {
	clock := &ledgertest.Clock{}
	clock.Set(noon)
	return open(t, fresh(t), &sqliteledger.Options{Now: clock.Now, Sync: sqliteledger.Normal}), clock
}

func count(t *testing.T, l *sqliteledger.Ledger, what string) int64 {
	t.Helper()
	n, err := l.Number("SELECT COUNT(*) FROM " + what)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNothingIsScanned: every statement uses an index, so that its cost does
// not grow with the log.
func TestNothingIsScanned(t *testing.T) {
	l := open(t, fresh(t), nil)
	plans, err := l.Plans()
	if err != nil {
		t.Fatal(err)
	}
	if len(plans) < 30 {
		t.Fatalf("%d plans; want those of all statements", len(plans))
	}
	rare := map[string]bool{"labels": true, "label-sweep": true, "client-sweep": true, // for a new coverage, and one in 256 new labels or clients
		"accounts":        true, // once in a process that adds a log
		"accounts-cooled": true, // when a ledger is moved: of accounts, not of entries
		"entries-restamp": true, // of the entries stamped ahead
		"limits":          true, // sorts those of an account: at most 32 of each budget
		"sums-insert":     true, // of a block of entries
		"entries-broken":  true, // these when the file is rechecked, or restored after it was damaged
		"list-check":      true,
		"logs":            true,
		"logs-touch":      true}
	for name, plan := range plans {
		for _, line := range plan {
			scan := strings.HasPrefix(line, "SCAN") && !strings.Contains(line, "json_each") && !strings.Contains(line, "CONSTANT") &&
				!strings.Contains(line, "(subquery") // of rows that were searched for
			if (scan || strings.Contains(line, "TEMP B-TREE")) && !rare[name] {
				t.Errorf("%s: %s", name, line)
			}
		}
	}
}

// TestStormOfTenThousand: when all entries expire at once, answers are right at
// once and rows are deleted in steps.
func TestStormOfTenThousand(t *testing.T) {
	const n = 10_000
	l, clock := timed(t)
	day, list := charge("day", n, hour), charge("list", n, hour, "videos.list")
	batch := one(1, day, list)
	for len(batch.Requests) < 500 {
		batch.Requests = append(batch.Requests, batch.Requests[0])
	}
	for range n / len(batch.Requests) {
		if _, err := l.Spend(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	clock.Add(48 * time.Hour)
	for i := range 30 {
		before := [2]int64{count(t, l, "entries"), count(t, l, "records")}
		spend(t, l, 1, day, list)
		for j, table := range []string{"entries", "records"} {
			if gone := before[j] + 1 - count(t, l, table); gone > 512 {
				t.Fatalf("a spend deleted %d %s; want 512 at most", gone, table)
			}
		}
		for _, c := range []*quota.Charge{day, list} {
			if got := used(t, l, c); got != quota.Units(i+1) {
				t.Fatalf("%s holds %d; want %d", c.Budget, got, i+1)
			}
		}
	}
	for _, table := range []string{"entries", "records"} {
		if rows := count(t, l, table); rows > 50 {
			t.Errorf("%d %s are left; want those of 30 spends and one more", rows, table)
		}
	}
	if got := len(collect(t, l)); got != 30 {
		t.Errorf("%d entries shown; want 30", got)
	}
}

func collect(t *testing.T, l quota.Ledger) (all []quota.Entry) {
	t.Helper()
	for e, err := range l.Entries(t.Context(), quota.Query{Account: "my-project"}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// TestSteadySpendingStaysSmall spends every two minutes for a week on windows
// of an hour and of a day. Each call has a new job and a new process.
func TestSteadySpendingStaysSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of calls, 2 seconds")
	}
	l, clock := timed(t)
	all, list := charge("all", 10_000, quota.Sliding(24*time.Hour)), charge("list", 60, hour, "videos.list")
	const spends, perDay = 4700, 24 * 30
	for i := range spends {
		clock.Add(2 * time.Minute)
		batch := one(1, all, list)
		batch.Client, batch.Seq = uint64(i+1), 1
		batch.Requests[0].Caller.Job = fmt.Sprint("job ", i)
		answers, err := l.Spend(t.Context(), batch)
		if err != nil || answers[0].Err != nil {
			t.Fatal(err, answers)
		}
	}
	if got, other := used(t, l, all), used(t, l, list); got != perDay || other != 30 {
		t.Errorf("%d and %d used; want %d and 30", got, other, perDay)
	}
	for table, most := range map[string]int64{"entries": 2 * perDay, "records": 2 * 30, "labels": 5 * perDay, "clients": 5 + 256} {
		if rows := count(t, l, table); rows > most {
			t.Errorf("%d %s; want at most %d", rows, table, most)
		}
	}
	for _, e := range collect(t, l) {
		if e.Method == "" || e.Caller.Job == "" {
			t.Fatalf("%+v has lost its label", e)
		}
	}
}

// TestIdleKeysAreDropped: the log of a client that has left is deleted.
func TestIdleKeysAreDropped(t *testing.T) {
	l, clock := timed(t)
	each := charge("each", 60, quota.Sliding(time.Minute))
	estimate := charge("estimate", 1000, quota.Counter(time.Minute), "videos.list")
	visit := func(key string) {
		batch := one(1, each, estimate)
		batch.Key = key
		if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
			t.Fatal(err, answers)
		}
	}
	for i := range 1000 {
		visit(fmt.Sprint("client ", i))
		visit("regular")
		clock.Add(2 * time.Second)
	}
	spend(t, l, 1, each)
	for _, table := range []string{"account_logs", "lists", "counters", "clients"} {
		if rows := count(t, l, table); rows > 250 {
			t.Errorf("%d %s; want those of the last minutes", rows, table)
		}
	}
	for _, orphans := range []string{
		"entries WHERE log NOT IN (SELECT log FROM account_logs)", "lists WHERE log NOT IN (SELECT log FROM account_logs)",
		"clients WHERE log NOT IN (SELECT log FROM account_logs)", "records WHERE list NOT IN (SELECT list FROM lists)",
	} {
		if rows := count(t, l, orphans); rows > 0 {
			t.Errorf("%d %s", rows, orphans)
		}
	}
	s, err := l.Standings(t.Context(), "my-project", "regular", []*quota.Charge{each})
	if err != nil || s[0].Used != 29 {
		t.Errorf("%+v, %v; want the regular client's 29 of the last minute", s, err)
	}
}

// TestCacheIsBounded: a handle caches a limited number of logs.
func TestCacheIsBounded(t *testing.T) {
	if n, err := open(t, fresh(t), nil).KnownLogs(3000); err != nil || n > 1024 {
		t.Errorf("%d logs in memory, %v; want 1024 at most", n, err)
	}
}

package sqliteledger_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// size returns the size of a ledger's file after Close.
func size(t *testing.T, spend func(open func() *sqliteledger.Ledger)) int64 {
	t.Helper()
	path := fresh(t)
	handles := []*sqliteledger.Ledger{open(t, path, nil)}
	spend(func() *sqliteledger.Ledger {
		l := open(t, path, &sqliteledger.Options{Sync: sqliteledger.Normal})
		handles = append(handles, l)
		return l
	})
	for _, table := range []string{"entries", "records", "labels", "clients"} {
		if rows := count(t, handles[0], table); rows > 0 {
			t.Errorf("%d %s; want none", rows, table)
		}
	}
	for _, l := range handles {
		l.Close()
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestTenThousandCounterCallsCost313KB: they take as much space as one call,
// with a key and without, by one handle and by many, for any jobs.
func TestTenThousandCounterCallsCost313KB(t *testing.T) {
	each := charge("each", quota.MaxLimit, quota.Counter(10*time.Minute))
	calls := charge("calls", quota.MaxLimit, quota.Counter(time.Hour), "videos.list")
	calls.Coverage = quota.NewCoverage(quota.Coverage{Methods: []string{"videos.list"}, Measure: quota.Calls})
	for _, key := range []string{"", "203.0.113.9"} {
		call := func(l *sqliteledger.Ledger, n, in int) {
			t.Helper()
			batch := one(3, each, calls)
			batch.Key = key
			for len(batch.Requests) < in {
				r := batch.Requests[0]
				r.Caller.Job = fmt.Sprint("job ", n, len(batch.Requests))
				batch.Requests = append(batch.Requests, r)
			}
			answers, err := l.Spend(t.Context(), batch)
			for i := range batch.Requests {
				if err != nil || answers[i].Err != nil {
					t.Fatal(answers, err)
				}
			}
		}
		single := size(t, func(open func() *sqliteledger.Ledger) { call(open(), 0, 1) })
		many := size(t, func(open func() *sqliteledger.Ledger) {
			for range 20 {
				l := open()
				for i := range 25 {
					call(l, i, 20)
				}
			}
		})
		if many > single {
			t.Errorf("key %q: 10,000 calls leave %d bytes, one leaves %d", key, many, single)
		}
	}
}

// TestCountersOfAnExactLogKeepEntries: when the exact window is no longer in
// use, the log drops its entries and keeps counts only.
func TestCountersOfAnExactLogKeepEntries(t *testing.T) {
	l, clock := timed(t)
	each, second := charge("each", 1000, quota.Counter(time.Hour)), charge("second", 100, quota.Sliding(time.Second))
	for range 10 {
		spend(t, l, 1, each, second)
	}
	for range 60 {
		clock.Add(time.Hour)
		spend(t, l, 1, each)
	}
	for _, table := range []string{"entries", "records"} {
		if rows := count(t, l, table); rows != 0 {
			t.Errorf("%d %s; want none", rows, table)
		}
	}
	if n := used(t, l, each); n != 1+1 {
		t.Errorf("%d used; want one of this hour and one of the hour before", n)
	}
	other := open(t, l.Path(), &sqliteledger.Options{Now: clock.Now, Sync: sqliteledger.Normal})
	clock.Add(-90 * time.Second) // the newest stamp is known without an entry
	r, newest := spend(t, other, 1, each, second), clock.Now().Add(90*time.Second)
	if !r.At.Equal(newest.Add(time.Microsecond)) {
		t.Errorf("stamped %s; want a microsecond after %s", r.At, newest)
	}
	if n, m := used(t, l, second), used(t, l, each); n != 1 || m != 3 {
		t.Errorf("%d and %d used; want 1 and 3", n, m)
	}
	if err := l.Settle(t.Context(), r, 5); err != nil {
		t.Fatal(err)
	}
	if n, m := used(t, other, second), used(t, other, each); n != 5 || m != 7 {
		t.Errorf("%d and %d used; want 5 and 7", n, m)
	}
}

// TestUnaskedCounterIsDropped: an unused counter is dropped once its counts are
// too old to matter.
func TestUnaskedCounterIsDropped(t *testing.T) {
	l, clock := timed(t)
	once, each := charge("once", 1000, quota.Counter(time.Minute), "videos.list"), charge("each", 1000, quota.Counter(time.Hour))
	spend(t, l, 1, once, each)
	for range 25 {
		clock.Add(time.Hour)
		if rows := count(t, l, "counters"); rows != 2 {
			t.Fatalf("%d counters; want both for a day", rows)
		}
		if answers, err := l.Spend(t.Context(), &quota.Batch{Account: "my-project", Requests: []quota.Request{{Method: "search.list", Units: 1, Charges: []*quota.Charge{each}}}}); err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
	}
	if rows := count(t, l, "counters"); rows != 1 {
		t.Errorf("%d counters; want the one that is asked", rows)
	}
	spend(t, l, 7, once, each) // by the handle that dropped it
	if n := used(t, open(t, l.Path(), &sqliteledger.Options{Now: clock.Now}), once); n != 7 {
		t.Errorf("%d used; want 7, for every handle", n)
	}
}

// TestIdleCountersStay: logs without entries are deleted once their clients
// have left; those of other clients keep their counts.
func TestIdleCountersStay(t *testing.T) {
	l, clock := timed(t)
	each := charge("each", 1_000_000, quota.Counter(time.Minute))
	for i := range 1000 {
		for _, key := range []string{fmt.Sprint("client ", i), "regular"} {
			batch := one(1, each)
			batch.Key = key
			if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
				t.Fatal(err, answers)
			}
		}
		clock.Add(2 * time.Second)
	}
	for _, table := range []string{"account_logs", "counters"} {
		if rows := count(t, l, table); rows > 250 {
			t.Errorf("%d %s; want those of the last minutes", rows, table)
		}
	}
	if rows := count(t, l, "counters WHERE log NOT IN (SELECT log FROM account_logs)"); rows > 0 {
		t.Errorf("%d counters of no log", rows)
	}
	s, err := l.Standings(t.Context(), "my-project", "regular", []*quota.Charge{each})
	if err != nil || s[0].Used < 30 || s[0].Used > 60 {
		t.Errorf("%+v, %v; want the regular client's minute", s, err)
	}
}

// TestIdleKeyForgetsItsClients: a batch may be repeated for ten minutes, also
// in a log that is otherwise unused.
func TestIdleKeyForgetsItsClients(t *testing.T) {
	l, clock := timed(t)
	second := charge("second", 1000, quota.Sliding(time.Second))
	batch := one(1, second)
	batch.Key, batch.Client, batch.Seq = "k", 7, 1
	first, err := l.Spend(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	visit := func(n int) {
		for i := range n {
			other := one(1, second)
			other.Key = fmt.Sprint(clock.Now(), i)
			if _, err := l.Spend(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		}
	}
	clock.Add(10*time.Minute - time.Second)
	visit(10)
	again, err := l.Spend(t.Context(), batch)
	if err != nil || again[0].Receipt != first[0].Receipt {
		t.Errorf("%+v, %v; want the first answer, %+v", again, err, first)
	}
	clock.Add(11 * time.Minute)
	visit(20)
	if rows := count(t, l, "clients"); rows != 0 {
		t.Errorf("%d clients are remembered", rows)
	}
}

// TestRefusalOfACounterTakesATurn: it comes from the cache, and nothing
// is written.
func TestRefusalOfACounterTakesATurn(t *testing.T) {
	l, clock := timed(t)
	each, day := charge("each", 3, quota.Counter(time.Minute)), charge("day", 1000, quota.Sliding(24*time.Hour))
	for _, charges := range [][]*quota.Charge{{each}, {each, day}} {
		clock.Add(2 * time.Minute)
		spend(t, l, 3, charges...)
		refuse := func() {
			t.Helper()
			if answers, err := l.Spend(t.Context(), one(1, charges...)); err != nil || !errors.Is(answers[0].Err, quota.ErrRefused) {
				t.Fatal(answers, err)
			}
		}
		refuse()
		before, err := l.Commits()
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			refuse()
			clock.Add(time.Millisecond)
		}
		if after, err := l.Commits(); after != before || err != nil {
			t.Errorf("%d commits, %v; want none for a refusal", after-before, err)
		}
	}
}

// TestWindowRefusedForDaysIsUnused: a window stays in use while calls are
// charged to it, though every refusal comes from the cache.
func TestWindowRefusedForDaysIsUnused(t *testing.T) {
	l, clock := timed(t)
	list := charge("list", 10, quota.Sliding(time.Hour), "videos.list")
	spend(t, l, 4, list)
	if err := l.SetCooldown(t.Context(), quota.Cooldown{Account: "my-project", Budget: "list", For: 200 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	for range 199 * 2 {
		clock.Add(30 * time.Minute)
		if answers, err := l.Spend(t.Context(), one(1, list)); err != nil || !errors.Is(answers[0].Err, quota.ErrRefused) {
			t.Fatal(answers, err)
		}
	}
	before, err := l.Commits()
	if err != nil {
		t.Fatal(err)
	}
	clock.Add(time.Hour)
	spend(t, l, 10, list)
	if n := used(t, l, list); n != 10 {
		t.Errorf("%d used; want 10", n)
	}
	if after, err := l.Commits(); after != before+1 || err != nil {
		t.Errorf("%d commits, %v; want one", after-before, err)
	}
}

// TestCounterFilledAfterItsPeriod: a counter that is filled from the log right
// after a period is still right when the clock steps back into that period.
func TestCounterFilledAfterItsPeriod(t *testing.T) {
	for _, asked := range []bool{false, true} {
		l, clock := timed(t)
		day, list := charge("day", 1000, quota.Sliding(24*time.Hour)), charge("list", 1000, quota.Counter(10*time.Minute), "videos.list")
		clock.Set(noon.Add(-10 * time.Minute))
		spend(t, l, 8, day)
		clock.Set(noon)
		spend(t, l, 4, day)
		clock.Set(noon.Add(10*time.Minute + time.Second))
		other := quota.Request{Method: "search.list", Units: 1, Charges: []*quota.Charge{day}}
		if asked {
			other.Charges = append(other.Charges, list)
		}
		if answers, err := l.Spend(t.Context(), &quota.Batch{Account: "my-project", Requests: []quota.Request{other}}); err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
		if n := used(t, l, list); n != 4 {
			t.Errorf("%d used; want 4 of the period before", n)
		}
		clock.Add(-time.Minute)
		if n := used(t, l, list); n != 4+1 { // 59 of 600 seconds of 8
			t.Errorf("%d used after a minute's step back, the counter asked %t; want 4, and 1 that still shows", n, asked)
		}
	}
}

// TestStampsOfALogWithoutEntries: stamps increase even after the clock has
// stepped back, for any counter that counted the newest call.
func TestStampsOfALogWithoutEntries(t *testing.T) {
	l, clock := timed(t)
	short, long := charge("short", 1000, quota.Counter(time.Minute)), charge("long", 1000, quota.Counter(48*time.Hour), "search.list")
	call := func(want time.Time, charges ...*quota.Charge) {
		t.Helper()
		l := open(t, l.Path(), &sqliteledger.Options{Now: clock.Now, Sync: sqliteledger.Normal})
		if r := spend(t, l, 1, charges...); !r.At.Equal(want) {
			t.Fatalf("stamped %s; want %s", r.At, want)
		}
		if rows := count(t, l, "entries"); rows > 0 {
			t.Fatalf("%d entries; want none", rows)
		}
		l.Close()
	}
	call(noon, short, long) // counted by short alone
	clock.Add(-time.Minute)
	call(noon.Add(time.Microsecond), short)
	clock.Add(4 * 24 * time.Hour)
	call(clock.Now(), long) // counted by short, which is not used after this
	clock.Add(25 * time.Hour)
	newest := clock.Now()
	call(newest, long) // counted by no counter, once short was dropped
	clock.Add(-time.Minute)
	call(newest.Add(time.Microsecond), long)
}

// TestRefusalWritesNothing: a refusal is not written, nor is the use of the
// window if it was written within the last hour.
func TestRefusalWritesNothing(t *testing.T) {
	l, clock := timed(t)
	o := &sqliteledger.Options{Now: clock.Now, Sync: sqliteledger.Normal}
	each, day, list := charge("each", 3, quota.Counter(time.Hour)), charge("day", 3, quota.Sliding(24*time.Hour)), charge("list", 3, hour, "videos.list")
	spend(t, l, 3, each, day, list)
	before, err := l.Commits()
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		clock.Add(time.Minute)
		other := open(t, l.Path(), o)
		if answers, err := other.Spend(t.Context(), one(1, each, day, list)); err != nil || !errors.Is(answers[0].Err, quota.ErrRefused) {
			t.Fatal(answers, err)
		}
	}
	if after, err := l.Commits(); after != before || err != nil {
		t.Errorf("%d commits, %v; want none for a refusal", after-before, err)
	}
}

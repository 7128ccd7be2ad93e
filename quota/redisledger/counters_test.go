package redisledger_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

var perMinute = charge("per minute", quota.MaxLimit, quota.Counter(time.Minute))

// memory returns the bytes of all keys of a prefix except meta, whose size does
// not depend on the number of calls.
func memory(t *testing.T, client *redis.Client, l *redisledger.Ledger) (bytes int64) {
	t.Helper()
	log := redisledger.LogKey(l, account)
	for _, key := range do(t, client, "keys", log[:len(log)-len("log")]+"*").([]any) {
		bytes += do(t, client, "memory", "usage", key, "samples", 0).(int64)
	}
	return bytes
}

// TestTenThousandCallsOfACounterCost313KB: the size of a counter does not
// depend on the number of calls, with a key and without.
func TestTenThousandCallsOfACounterCost313KB(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	for _, key := range []string{"", "203.0.113.9"} {
		l := fresh(t, server.URL(), nil)
		spend := func(n int) {
			batch := &quota.Batch{Account: account, Key: key}
			for range n {
				batch.Requests = append(batch.Requests, quota.Request{Method: "m", Units: 1, Charges: []*quota.Charge{perMinute}})
			}
			if answers, err := l.Spend(t.Context(), batch); err != nil || answers[n-1].Err != nil {
				t.Fatal(answers, err)
			}
		}
		spend(1)
		one := memory(t, client, l)
		for range 100 {
			spend(100)
		}
		if many := memory(t, client, l); many != one {
			t.Errorf("key %q: 10,001 calls take %d bytes, one took %d", key, many, one)
		} else {
			t.Logf("key %q: %d bytes", key, many)
		}
	}
}

// TestCountersOnlyUntilAnotherProcessAsksMore: two processes with different
// budgets agree on whether a log keeps entries, in either order and whatever
// they cached.
func TestCountersOnlyUntilAnotherProcessAsksMore(t *testing.T) {
	server := redistest.Start(t)
	for _, key := range []string{"", "203.0.113.9"} {
		few, more := fresh(t, server.URL(), nil), (*redisledger.Ledger)(nil)
		more, err := redisledger.Open(server.URL(), &redisledger.Options{Prefix: fmt.Sprintf("t%d", prefixes.Load())})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = more.Close() })
		one := func(l *redisledger.Ledger, charges ...*quota.Charge) {
			t.Helper()
			r := quota.Request{Method: "m", Units: 1, Charges: charges}
			if answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Key: key, Requests: []quota.Request{r}}); err != nil || answers[0].Err != nil {
				t.Fatal(answers, err)
			}
		}
		holds := func(want ...quota.Units) {
			t.Helper()
			standings, err := few.Standings(t.Context(), account, key, []*quota.Charge{perMinute, day})
			if err != nil || standings[0].Used+standings[0].Over < want[0] || standings[1].Used != want[1] {
				t.Fatalf("%+v, %v; want %d", standings, err, want)
			}
		}
		one(few, perMinute)
		one(more, perMinute)
		holds(2, 0)
		one(more, perMinute, day) // from here on there are entries
		one(few, perMinute)       // few has a stale cache
		holds(4, 2)
		one(few)
		holds(5, 3)
		if n := len(entriesOf(t, few, key)); n != 3 {
			t.Errorf("key %q: %d entries; want the 3 since an exact window was asked", key, n)
		}
	}
}

// TestUncoveredCallBeforeACounterKeepsNothingForEver: a call that no
// budget covers is logged while the account has no budgets. The first
// counter ends that.
func TestUncoveredCallBeforeACounterKeepsNothingForEver(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	l := fresh(t, server.URL(), nil)
	search := charge("search", 1000, quota.Counter(time.Minute), "search")
	mustSpend(t, l, "list", 1)
	if n := len(entries(t, l)); n != 1 {
		t.Fatalf("%d entries; want 1", n)
	}
	mustSpend(t, l, "search", 1, search)
	for range 20 {
		mustSpend(t, l, "list", 1)
		mustSpend(t, l, "search", 1, search)
	}
	if n := do(t, client, "llen", redisledger.LogKey(l, account)).(int64); n != 1 || len(entries(t, l)) != 0 {
		t.Errorf("%d records, %d entries; want one that says the newest stamp", n, len(entries(t, l)))
	}
	if s, err := l.Standings(t.Context(), account, "", []*quota.Charge{search}); err != nil || s[0].Used+s[0].Over != 21 {
		t.Errorf("%+v, %v; want 21", s, err)
	}
}

// TestLostAnswerOfACounterIsInDoubt: without entries it cannot be found out
// whether the call was charged. It is not sent again.
func TestLostAnswerOfACounterIsInDoubt(t *testing.T) {
	server := redistest.Start(t)
	way := &mail{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(way)
	t.Cleanup(func() { _ = given.Close() })
	for i, run := range []bool{true, false} {
		l := redisledger.New(given, &redisledger.Options{Prefix: fmt.Sprint("counter", i), Now: noonUTC})
		mustSpend(t, l, "m", 1, perMinute)
		way.next(run)
		if _, err := spend(t, l, "m", 10, perMinute); !errors.Is(err, quota.ErrInDoubt) || way.sent != 1 {
			t.Errorf("%v after %d commands; want ErrInDoubt after one", err, way.sent)
		}
		want := quota.Units(1)
		if run {
			want = 11
		}
		if sum := used(t, l, perMinute); sum != want {
			t.Errorf("%d units; want %d", sum, want)
		}
		mustSpend(t, l, "m", 1, perMinute)

		// A batch with an id from its caller is recorded in its slot.
		batch := &quota.Batch{Account: account, Client: 7, Seq: 3, Requests: []quota.Request{{Method: "m", Units: 100, Charges: []*quota.Charge{perMinute}}}}
		way.next(run)
		answers, err := l.Spend(t.Context(), batch)
		if err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
		again, err := l.Spend(t.Context(), batch)
		if err != nil || again[0].Err != nil || !again[0].Receipt.At.Equal(answers[0].Receipt.At) {
			t.Fatal(again, err)
		}
		if sum := used(t, l, perMinute); sum != want+101 {
			t.Errorf("%d units; want the batch once, %d", sum, want+101)
		}
	}
}

func noonUTC() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

// TestLostSettleOfACounter: a settle for less is in doubt and not run again,
// since it might return the units twice; one for more is run again and may
// count twice.
func TestLostSettleOfACounter(t *testing.T) {
	server := redistest.Start(t)
	way := &mail{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(way)
	t.Cleanup(func() { _ = given.Close() })
	l := redisledger.New(given, &redisledger.Options{Prefix: "settled", Now: noonUTC})
	calls := charge("calls", 1000, quota.Counter(time.Minute))
	calls.Coverage = quota.NewCoverage(quota.Coverage{Measure: quota.Calls})
	receipt := mustSpend(t, l, "m", 50, perMinute, calls)
	mustSpend(t, l, "m", 50, perMinute, calls)
	receipt.Recorded = &quota.Recorded{Method: "m", Units: 50}
	if err := l.Settle(t.Context(), receipt, 50); err != nil { // from here on the server knows the script
		t.Fatal(err)
	}
	for _, run := range []bool{true, false} {
		way.next(run)
		if err := l.Settle(t.Context(), receipt, 40); !errors.Is(err, quota.ErrInDoubt) {
			t.Errorf("lower: %v; want ErrInDoubt", err)
		}
		way.next(run)
		if err := l.Refund(t.Context(), receipt); !errors.Is(err, quota.ErrInDoubt) {
			t.Errorf("refund: %v; want ErrInDoubt", err)
		}
	}
	if units, n := used(t, l, perMinute), used(t, l, calls); units != 40 || n != 1 {
		t.Errorf("%d units, %d calls; want 10 and 50 given back once, and one call", units, n)
	}
	way.next(false)
	if err := l.Settle(t.Context(), receipt, 70); err != nil || used(t, l, perMinute) != 60 {
		t.Errorf("higher: %v, %d units; want 20 more", err, used(t, l, perMinute))
	}
	receipt.Recorded = &quota.Recorded{Method: "m", Refunded: true}
	if err := l.Settle(t.Context(), receipt, 0); err != nil || used(t, l, calls) != 2 {
		t.Errorf("%v, %d calls; want the refunded call back", err, used(t, l, calls))
	}
	receipt.Recorded = nil
	if err := l.Settle(t.Context(), receipt, 0); err != nil || used(t, l, perMinute) != 60 {
		t.Errorf("%v, %d units; want no change without what was recorded", err, used(t, l, perMinute))
	}
}

// TestLostSettleOfACallBeforeEntries: the log keeps entries, but none of the
// call, which was made before, so that a settle for less is in doubt as well.
// It returned the units twice.
func TestLostSettleOfACallBeforeEntries(t *testing.T) {
	server := redistest.Start(t)
	way := &mail{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(way)
	t.Cleanup(func() { _ = given.Close() })
	for run, want := range map[bool]quota.Units{true: 41, false: 51} {
		l := redisledger.New(given, &redisledger.Options{Prefix: fmt.Sprint("before", run), Now: noonUTC})
		receipt := mustSpend(t, l, "m", 50, perMinute)
		receipt.Recorded = &quota.Recorded{Method: "m", Units: 50}
		mustSpend(t, l, "m", 1, perMinute, day)
		if err := l.Settle(t.Context(), receipt, 50); err != nil { // from here on the server knows the script
			t.Fatal(err)
		}
		way.next(run)
		err := l.Settle(t.Context(), receipt, 40)
		if got := used(t, l, perMinute); got != want || !errors.Is(err, quota.ErrInDoubt) {
			t.Errorf("%d units, %v; want %d, and ErrInDoubt", got, err, want)
		}
	}
}

// TestLostAnswerWhenEntriesWereDropped: between a batch and its second copy the
// log stopped keeping entries and began again, so its own entries may be gone.
func TestLostAnswerWhenEntriesWereDropped(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	way := &mail{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(way)
	t.Cleanup(func() { _ = given.Close() })
	clock := &ledgertest.Clock{}
	clock.Set(noonUTC())
	l := redisledger.New(given, &redisledger.Options{Prefix: "dropped", Now: clock.Now})
	mustSpend(t, l, "m", 1, day)
	log := redisledger.LogKey(l, account)
	record := do(t, client, "lindex", log, -1).(string)
	way.next(true)
	way.after = func() { // another process
		last := do(t, client, "lindex", log, -1).(string)
		do(t, client, "del", log)
		do(t, client, "rpush", log, last[:7]+record[7:13]+"\x80\x00\x00\x00"+"\x00\x00"+record[:0]+"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	}
	clock.Add(time.Second)
	if _, err := spend(t, l, "m", 5, day); !errors.Is(err, quota.ErrInDoubt) {
		t.Errorf("%v; want ErrInDoubt", err)
	}
}

// TestCounterBesideEntriesSettlesByThem: in a log that keeps entries, a
// counter's calls are settled and looked up by their entries.
func TestCounterBesideEntriesSettlesByThem(t *testing.T) {
	server := redistest.Start(t)
	way := &mail{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(way)
	t.Cleanup(func() { _ = given.Close() })
	l := redisledger.New(given, &redisledger.Options{Prefix: "beside", Now: noonUTC})
	mustSpend(t, l, "m", 1, perMinute)
	mustSpend(t, l, "m", 1, perMinute, day)
	for _, run := range []bool{true, false} {
		way.next(run)
		receipt := mustSpend(t, l, "m", 10, perMinute)
		way.next(run)
		if err := l.Settle(t.Context(), receipt, 4); err != nil {
			t.Fatal(err)
		}
	}
	if each, all := used(t, l, perMinute), used(t, l, day); each != 10 || all != 9 {
		t.Errorf("%d and %d units; want 10 and 9", each, all)
	}
}

func entriesOf(t testing.TB, l quota.Ledger, key string) (all []quota.Entry) {
	t.Helper()
	for e, err := range l.Entries(context.Background(), quota.Query{Account: account, Key: key}) {
		if err != nil {
			t.Fatalf("entries: %v", err)
		}
		all = append(all, e)
	}
	return all
}

// TestRestampLosesCounts: calls that a counter counted before the log kept
// entries still count, and a counter that was ahead does not change a
// second one.
func TestRestampLosesCounts(t *testing.T) {
	server := redistest.Start(t)
	for _, exact := range []bool{false, true} {
		clock := &ledgertest.Clock{}
		clock.Set(noonUTC().Add(100 * time.Hour))
		l := fresh(t, server.URL(), clock.Now)
		each, list := charge("each", 1000, quota.Counter(time.Hour)), charge("list", 1000, quota.Counter(2*time.Hour), "videos.list")
		mustSpend(t, l, "videos.list", 5, each, list)
		charges, want := []*quota.Charge{each, list}, 2
		if exact {
			charges, want = append(charges, day), 1
		}
		mustSpend(t, l, "videos.list", 2, charges...)
		clock.Set(noonUTC().Add(time.Minute))
		if n, err := l.Restamp(t.Context(), account, ""); n != want || err != nil {
			t.Errorf("restamped %d, %v; want %d", n, err, want)
		}
		for _, c := range []*quota.Charge{each, list} {
			if sum := used(t, l, c); sum != 7 {
				t.Errorf("%s holds %d; want 7", c.Budget, sum)
			}
		}
		if r := mustSpend(t, l, "m", 1, each); r.At.Sub(clock.Now()) > time.Microsecond {
			t.Errorf("stamped %s; want now, %s", r.At, clock.Now())
		}
	}
}

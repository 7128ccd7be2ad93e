package redisledger_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestCoverageFilledFromSevenHundredEntries: a new budget counts the calls
// already in the log, page by page.
func TestCoverageFilledFromSevenHundredEntries(t *testing.T) {
	server := redistest.Start(t)
	clock := &ledgertest.Clock{}
	clock.Set(noonUTC())
	for _, key := range []string{"", "203.0.113.9"} {
		l := fresh(t, server.URL(), clock.Now)
		for i := range 7 {
			batch := &quota.Batch{Account: account, Key: key}
			for j := range 100 {
				method := "search"
				if j%4 == 0 {
					method = "list"
				}
				batch.Requests = append(batch.Requests, quota.Request{Method: method, Units: quota.Units(1 + i), Charges: []*quota.Charge{day}})
			}
			if _, err := l.Spend(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		late := []*quota.Charge{charge("sliding", 1e6, quota.Sliding(time.Hour), "search"), charge("daily", 1e6, quota.Daily(time.UTC), "search"),
			charge("counter", 1e6, quota.Counter(time.Hour), "search"), charge("none", 1e6, quota.Sliding(time.Hour), "none")}
		want := []quota.Units{75 * 28, 75 * 28, 75 * 28, 0}
		check := func(more quota.Units) {
			t.Helper()
			standings, err := l.Standings(t.Context(), account, key, late)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range standings {
				if w := want[i]; s.Used != w+more && i < 3 || i == 3 && s.Used != w {
					t.Errorf("key %q: %s holds %d; want %d", key, late[i].Budget, s.Used, w+more)
				}
			}
		}
		check(0) // by reading the log
		r := quota.Request{Method: "search", Units: 2, Charges: late}
		if answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Key: key, Requests: []quota.Request{r}}); err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
		check(2) // by lists
	}
}

// TestBatchOfFifteenHundred is more than one command of a script writes, with
// every kind of window.
func TestBatchOfFifteenHundred(t *testing.T) {
	server := redistest.Start(t)
	clock := &ledgertest.Clock{}
	clock.Set(noonUTC())
	search := charge("search", 1e6, quota.Sliding(time.Hour), "m")
	for name, charges := range map[string][]*quota.Charge{"log": {day}, "list": {day, search}, "counter": {perMinute}, "all": {day, search, perMinute}} {
		l := fresh(t, server.URL(), clock.Now)
		batch := &quota.Batch{Account: account, Requests: make([]quota.Request, 1500)}
		for i := range batch.Requests {
			batch.Requests[i] = quota.Request{Method: "m", Units: 2, Charges: charges}
		}
		answers, err := l.Spend(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range answers {
			if a.Err != nil || len(a.Held) != len(charges) || a.Held[0].Used != quota.Units(2*i+2) || a.Receipt.At != clock.Now().Add(time.Duration(i)*time.Microsecond) {
				t.Fatalf("%s: request %d: %+v", name, i, a)
			}
		}
		for _, c := range charges {
			if sum := used(t, l, c); sum != 3000 {
				t.Errorf("%s: %s holds %d; want 3000", name, c.Budget, sum)
			}
		}
	}
}

// TestNotesBehindASettledCall: a settle rewrites only the totals of the notes
// and corrections behind it.
func TestNotesBehindASettledCall(t *testing.T) {
	server := redistest.Start(t)
	l := fresh(t, server.URL(), noonUTC)
	calls := charge("calls", quota.MaxLimit, quota.Sliding(time.Hour))
	calls.Coverage = quota.NewCoverage(quota.Coverage{Measure: quota.Calls})
	receipt := mustSpend(t, l, "m", 10, day, calls)
	for _, r := range []quota.Request{
		{Method: "m", Units: 7, Kind: quota.EntryNote, Calls: 70}, {Method: "m", Kind: quota.EntryCorrection, Calls: quota.MaxUnits},
		{Method: "m", Units: quota.MaxUnits, Kind: quota.EntryNote},
	} {
		r.Force, r.Charges = true, []*quota.Charge{day, calls}
		if answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{r}}); err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
	}
	for _, units := range []quota.Units{3, 30} {
		if err := l.Settle(t.Context(), receipt, units); err != nil {
			t.Fatal(err)
		}
		log, want := entries(t, l), [][3]quota.Units{{units, 1, 0}, {7, 70, 3}, {0, quota.MaxUnits, 4}, {quota.MaxUnits, 0, 3}}
		for i, e := range log {
			if got := [3]quota.Units{e.Units, e.Calls, quota.Units(e.Kind)}; got != want[i] {
				t.Errorf("settled to %d: entry %d is %v; want %v", units, i, got, want[i])
			}
		}
		if sum, n := used(t, l, day), used(t, l, calls); sum != units+7+quota.MaxUnits || n != 71+quota.MaxUnits {
			t.Errorf("settled to %d: %d units, %d calls", units, sum, n)
		}
	}
	if err := l.Refund(t.Context(), receipt); err != nil {
		t.Fatal(err)
	}
	if e := entries(t, l)[0]; e.Kind != quota.EntryRefunded || used(t, l, calls) != 70+quota.MaxUnits {
		t.Errorf("%+v, %d calls; want it refunded", e, used(t, l, calls))
	}
}

// TestAwkwardNamesStayApart: names that need escaping are distinct from their
// escaped forms, and are listed unchanged.
func TestAwkwardNamesStayApart(t *testing.T) {
	server := redistest.Start(t)
	l := fresh(t, server.URL(), nil)
	long := strings.Repeat("%", 49)
	names := []string{"%", "%25", "%2525", "a:b", "a%3Ab", "{a}", "*", "[kh]", "k:x", "\x00", "\xff", long, long + "%", "ключ"}
	one := func(account, key string, units quota.Units) {
		t.Helper()
		r := quota.Request{Method: "m", Units: units, Charges: []*quota.Charge{day}}
		if answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Key: key, Requests: []quota.Request{r}}); err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
	}
	for i, name := range names {
		one(name, "", quota.Units(i+1))
		for j, key := range names {
			one(name, key, quota.Units(100*i+j+1))
		}
	}
	for i, name := range names {
		for j, key := range append([]string{""}, names...) {
			want := quota.Units(i + 1)
			if j > 0 {
				want = quota.Units(100*i + j)
			}
			standings, err := l.Standings(t.Context(), name, key, []*quota.Charge{day})
			if err != nil || standings[0].Used != want {
				t.Errorf("account %q, key %q: %+v, %v; want %d", name, key, standings, err, want)
			}
		}
		var keys []string
		for key, err := range l.Keys(t.Context(), name) {
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		slices.Sort(keys)
		want := slices.Sorted(slices.Values(names))
		if !slices.Equal(keys, want) {
			t.Errorf("account %q: keys %q; want %q", name, keys, want)
		}
	}
}

// TestRestampOfManyEntriesGoesByPages: other processes spend while a long log
// is restamped, and no call is lost or counted twice.
func TestRestampOfManyEntriesGoesByPages(t *testing.T) {
	server := redistest.Start(t)
	clock := &ledgertest.Clock{}
	clock.Set(noonUTC().Add(1000 * time.Hour))
	way := &mail{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(way)
	t.Cleanup(func() { _ = given.Close() })
	l := redisledger.New(given, &redisledger.Options{Prefix: "pages", Now: clock.Now})
	search := charge("search", 1e6, quota.Sliding(time.Hour), "m")
	batch := &quota.Batch{Account: account, Requests: make([]quota.Request, 700)}
	for i := range batch.Requests {
		batch.Requests[i] = quota.Request{Method: "m", Units: 1, Charges: []*quota.Charge{day, search, perMinute}}
	}
	if _, err := l.Spend(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	clock.Set(noonUTC())
	mustSpend(t, l, "m", 5, day, search)
	spent := atomic.Bool{}
	way.each = func() {
		if way.sent == 2 && spent.CompareAndSwap(false, true) {
			mustSpend(t, redisledger.New(raw(t, server), &redisledger.Options{Prefix: "pages", Now: clock.Now}), "m", 7, day, search)
		}
	}
	way.next(false)
	way.hold = 0
	n, err := l.Restamp(t.Context(), account, "")
	if err != nil || n != 702 || !spent.Load() {
		t.Fatalf("%d, %v; want 702 entries, one of them spent meanwhile", n, err)
	}
	way.each = nil
	for _, c := range []*quota.Charge{day, search, perMinute} {
		if sum := used(t, l, c); sum != 712 {
			t.Errorf("%s holds %d; want 712", c.Budget, sum)
		}
	}
	log := entries(t, l)
	for i, e := range log {
		if i > 0 && !e.At.After(log[i-1].At) || e.At.After(clock.Now().Add(702*time.Microsecond)) {
			t.Fatalf("entry %d is stamped %s", i, e.At)
		}
	}
	if n, err := l.Restamp(t.Context(), account, "unknown"); n != 0 || err != nil {
		t.Errorf("%d, %v of a log that is not there", n, err)
	}
}

// TestLostAnswerIsFoundAfterARestamp: a restamp between the copies of a batch
// moves the entries that are searched for.
func TestLostAnswerIsFoundAfterARestamp(t *testing.T) {
	server := redistest.Start(t)
	clock := &ledgertest.Clock{}
	clock.Set(noonUTC().Add(1000 * time.Hour))
	way := &mail{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(way)
	t.Cleanup(func() { _ = given.Close() })
	l := redisledger.New(given, &redisledger.Options{Prefix: "lost", Now: clock.Now})
	other := redisledger.New(raw(t, server), &redisledger.Options{Prefix: "lost", Now: clock.Now})
	mustSpend(t, l, "m", 1, day)
	clock.Set(noonUTC())
	mustSpend(t, l, "m", 1, day) // tells what it asks, so that the next script is the spend's
	way.next(true)
	crowd := &quota.Batch{Account: account, Requests: make([]quota.Request, 300)} // more than one search reads
	for i := range crowd.Requests {
		crowd.Requests[i] = quota.Request{Method: "n", Units: 1, Charges: []*quota.Charge{day}}
	}
	way.after = func() {
		_, err := other.Restamp(context.Background(), account, "")
		if _, spent := other.Spend(context.Background(), crowd); err != nil || spent != nil {
			t.Error(err, spent)
		}
	}
	mustSpend(t, l, "m", 10, day)
	if sum := used(t, l, day); sum != 312 || len(entries(t, l)) != 303 {
		t.Errorf("%d units in %d entries; want 312 in 303", sum, len(entries(t, l)))
	}
}

// TestUnreachableIsDownNotInDoubt: a call that was not sent is never in doubt,
// whatever the error.
func TestUnreachableIsDownNotInDoubt(t *testing.T) {
	if testing.Short() {
		t.Skip("waits five seconds for servers that are down")
	}
	t.Parallel()
	for _, url := range []string{"redis://nowhere.invalid", "redis://127.0.0.1:1", "unix:///nowhere/at/all.sock",
		"redis+cluster://nowhere.invalid:6379", "redis+sentinel://nowhere.invalid/main"} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			l := fresh(t, url, nil)
			_, spent := spend(t, l, "m", 1, day)
			_, looked := l.Standings(t.Context(), account, "", []*quota.Charge{day})
			_, restamped := l.Restamp(t.Context(), account, "")
			settled := l.Settle(t.Context(), quota.Receipt{Account: account, ID: quota.ID{Client: 1, Seq: 1}, At: noonUTC()}, 1)
			cooled := l.SetCooldown(t.Context(), quota.Cooldown{Account: account, For: time.Minute})
			var listed, keyed error
			for _, err := range l.Entries(t.Context(), quota.Query{Account: account}) {
				listed = err
			}
			for _, err := range l.Keys(t.Context(), account) {
				keyed = err
			}
			for what, err := range map[string]error{"spend": spent, "standings": looked, "restamp": restamped, "settle": settled,
				"cooldown": cooled, "entries": listed, "keys": keyed} {
				if !errors.Is(err, quota.ErrLedgerDown) || errors.Is(err, quota.ErrInDoubt) {
					t.Errorf("%s: %s: %v; want ErrLedgerDown", url, what, err)
				}
			}
		})
	}
}

// TestStandingsSayWhatFailed: an error comes without numbers.
func TestStandingsSayWhatFailed(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	l := fresh(t, server.URL(), nil)
	mustSpend(t, l, "m", 1, day, perMinute)
	log := redisledger.LogKey(l, account)
	do(t, client, "del", log)
	do(t, client, "set", log, "something else")
	if s, err := l.Standings(t.Context(), account, "", []*quota.Charge{day}); !errors.Is(err, quota.ErrLedgerConfig) || s != nil {
		t.Errorf("%+v, %v; want ErrLedgerConfig", s, err)
	}
	if s, err := l.Standings(t.Context(), "", "", []*quota.Charge{day}); !errors.Is(err, quota.ErrBadCall) || s != nil {
		t.Errorf("%+v, %v; want ErrBadCall", s, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := l.Standings(ctx, account, "", []*quota.Charge{day}); !errors.Is(err, context.Canceled) || s != nil {
		t.Errorf("%+v, %v; want the context's error", s, err)
	}
}

package redisledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestCachedBeginOfAWindowIsStale: a process that has cached where a window
// begins notices every change by another process to the totals before it.
func TestCachedBeginOfAWindowIsStale(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	hour := charge("hour", 1000, quota.Sliding(time.Hour))
	part := charge("part", 1000, quota.Sliding(time.Hour), "m")
	var receipts []quota.Receipt
	for name, change := range map[string]func(l *redisledger.Ledger, clock *ledgertest.Clock) (want quota.Units){
		"settle before the window": func(l *redisledger.Ledger, _ *ledgertest.Clock) quota.Units {
			if err := l.Settle(t.Context(), receipts[0], 3); err != nil {
				t.Fatal(err)
			}
			return 5 + 1
		},
		"settle of its first call": func(l *redisledger.Ledger, _ *ledgertest.Clock) quota.Units {
			if err := l.Settle(t.Context(), receipts[1], 2); err != nil {
				t.Fatal(err)
			}
			return 2 + 1
		},
		"log deleted": func(l *redisledger.Ledger, _ *ledgertest.Clock) quota.Units {
			log := redisledger.LogKey(l, account)
			for _, key := range do(t, client, "keys", strings.ReplaceAll(log, "[", `\[`)+"*").([]any) {
				do(t, client, "del", key)
			}
			mustSpend(t, l, "m", 7, hour, part)
			return 7
		},
		"clock back and restamped": func(l *redisledger.Ledger, clock *ledgertest.Clock) quota.Units {
			clock.Add(-80 * time.Minute)
			if _, err := l.Restamp(t.Context(), account, ""); err != nil {
				t.Fatal(err)
			}
			return 10 + 5 + 1
		},
	} {
		clock := &ledgertest.Clock{}
		clock.Set(noonUTC())
		a := fresh(t, server.URL(), clock.Now)
		mustSpend(t, a, "m", 1, charge("day", 1e6, quota.Sliding(24*time.Hour)), hour, part) // what the log keeps
		receipts = []quota.Receipt{mustSpend(t, a, "m", 10, hour, part)}
		clock.Add(30 * time.Minute)
		receipts = append(receipts, mustSpend(t, a, "m", 5, hour, part))
		clock.Add(40 * time.Minute)
		mustSpend(t, a, "m", 1, hour, part) // learns where the windows begin
		want := change(a, clock)
		if name == "clock back and restamped" {
			want++ // the first call is in the window again
		}
		batch := &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 4, Charges: []*quota.Charge{hour, part}}}}
		answers, err := a.Spend(t.Context(), batch)
		if err != nil || answers[0].Err != nil {
			t.Fatalf("%s: %v, %v", name, answers, err)
		}
		for i, held := range answers[0].Held {
			if held.Used != want+4 {
				t.Errorf("%s: window %d holds %d; want %d", name, i, held.Used, want+4)
			}
		}
	}
}

// TestCachedBeginIsOfADeletedLog: one process has the log anew, another still
// knows where windows of the old one began. Meta alone tells it, even a meta
// that was lost before.
func TestCachedBeginIsOfADeletedLog(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	hour, day := charge("hour", 1000, quota.Sliding(time.Hour)), charge("day", 1000, quota.Sliding(24*time.Hour))
	for _, withoutMeta := range []bool{false, true} {
		clock := &ledgertest.Clock{}
		clock.Set(noonUTC())
		l := fresh(t, server.URL(), clock.Now)
		log := redisledger.LogKey(l, account)
		mustSpend(t, l, "m", 10, hour, day)
		clock.Add(2 * time.Hour)
		if withoutMeta {
			do(t, client, "del", strings.TrimSuffix(log, "log")+"meta")
		}
		mustSpend(t, l, "m", 1, hour, day)
		clock.Add(2 * time.Minute)
		mustSpend(t, l, "m", 1, hour, day) // learns where the windows begin
		do(t, client, "del", log)
		other := redisledger.New(client, &redisledger.Options{Now: clock.Now, Prefix: fmt.Sprintf("t%d", prefixes.Load())})
		mustSpend(t, other, "m", 20, hour, day)
		mustSpend(t, other, "m", 4, hour, day)
		answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{hour, day}}}})
		if err != nil || answers[0].Err != nil || answers[0].Held[0].Used != 25 || answers[0].Held[1].Used != 25 {
			t.Errorf("meta lost %t: %+v, %v; want the 25 units of the new log", withoutMeta, answers, err)
		}
	}
}

// TestCachedBeginSparesTheSearch: a decision that knows where its windows begin
// reads the newest record of each list and nothing else of it.
func TestCachedBeginSparesTheSearch(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = given.Close() })
	now := noonUTC()
	l := redisledger.New(given, &redisledger.Options{Prefix: "edges", Now: func() time.Time { return now }})
	hour, part := charge("hour", 1e6, quota.Sliding(time.Hour)), charge("part", 1e6, quota.Daily(time.UTC), "m")
	for range 100 {
		mustSpend(t, l, "m", 1, hour, part)
		now = now.Add(time.Minute)
	}
	mustSpend(t, l, "m", 1, hour, part)
	do(t, client, "config", "resetstat")
	mustSpend(t, l, "m", 1, hour, part)
	stats := do(t, client, "info", "commandstats").(string)
	for command, want := range map[string]int{"lindex": 2, "lrange": 0, "llen": 0, "rpush": 2} {
		if got := strings.Contains(stats, fmt.Sprintf("cmdstat_%s:calls=%d,", command, want)); got != (want > 0) || want == 0 && strings.Contains(stats, "cmdstat_"+command+":") {
			t.Errorf("%s is not called %d times: %s", command, want, stats)
		}
	}
}

// TestRecentSettleSparesOtherProcesses: most calls are settled within seconds.
// A settle of a call that is up to a minute older than the newest one leaves
// what other processes have cached as it is; that of an older call drops it.
func TestRecentSettleSparesOtherProcesses(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	hour := charge("hour", 1000, quota.Sliding(time.Hour))
	const minute = time.Minute
	for age, want := range map[time.Duration]string{30 * time.Second: "1", minute: "1", minute + time.Microsecond: "3"} {
		clock := &ledgertest.Clock{}
		clock.Set(noonUTC())
		l := fresh(t, server.URL(), clock.Now)
		mustSpend(t, l, "m", 1, hour) // the oldest call
		clock.Add(time.Second)
		call := mustSpend(t, l, "m", 10, hour)
		clock.Add(age)
		mustSpend(t, l, "m", 1, hour)
		other := redisledger.New(client, &redisledger.Options{Now: clock.Now, Prefix: fmt.Sprintf("t%d", prefixes.Load())})
		if err := other.Settle(t.Context(), call, 5); err != nil {
			t.Fatal(err)
		}
		do(t, client, "config", "resetstat")
		mustSpend(t, l, "m", 1, hour)
		if stats := do(t, client, "info", "commandstats").(string); !strings.Contains(stats, "cmdstat_evalsha:calls="+want+",") {
			t.Errorf("a call settled %s after it: not %s scripts for the next one: %s", age, want, stats)
		}
		if got := used(t, l, hour); got != 8 {
			t.Errorf("a call settled %s after it: %d units; want 8", age, got)
		}
	}
}

// TestSettledFirstCallOfAWindow: a process knows what the first call of a
// window counts. Another process lowers that call when it is exactly a minute
// older than the newest one; the first said that it would make room for more.
func TestSettledFirstCallOfAWindow(t *testing.T) {
	server := redistest.Start(t)
	clock := &ledgertest.Clock{}
	for _, age := range []time.Duration{time.Minute - time.Microsecond, time.Minute, time.Minute + time.Microsecond} {
		clock.Set(noonUTC())
		l := fresh(t, server.URL(), clock.Now)
		window := charge("window", 20, quota.Sliding(90*time.Second))
		day := charge("day", 1000, quota.Sliding(24*time.Hour))
		mustSpend(t, l, "m", 1, day, window) // the oldest call, outside of the window later
		clock.Add(time.Minute)
		call := mustSpend(t, l, "m", 10, day, window)
		clock.Add(age)
		last := mustSpend(t, l, "m", 10, day, window) // learns where the window begins
		other := redisledger.New(raw(t, server), &redisledger.Options{Now: clock.Now, Prefix: fmt.Sprintf("t%d", prefixes.Load())})
		if err := other.Settle(t.Context(), call, 2); err != nil {
			t.Fatal(err)
		}
		_, err := spend(t, l, "m", 12, day, window)
		refusal, ok := errors.AsType[*quota.RefusedError](err)
		if want := last.At.Add(90 * time.Second); !ok || !refusal.RetryAt.Equal(want) {
			t.Errorf("%s: %v; want a refusal until %s", age, err, want)
		}
	}
}

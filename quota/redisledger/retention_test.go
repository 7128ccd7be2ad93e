package redisledger_test

import (
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

// TestLongWindowKeepsWhatALongProcessAsks: a process reports its demands again
// and again, so that other processes that start and end do not shorten the log.
// When it ends, the log shrinks.
func TestLongWindowKeepsWhatALongProcessAsks(t *testing.T) {
	server := redistest.Start(t)
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	prefix := fmt.Sprintf("t%d", prefixes.Add(1))
	open := func() *redisledger.Ledger {
		l, err := redisledger.Open(server.URL(), &redisledger.Options{Now: clock.Now, Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	week, short := charge("week", 1e6, quota.Sliding(7*24*time.Hour), "m"), charge("short", 1e6, quota.Sliding(time.Minute), "m")
	long, brief := open(), open()
	mustSpend(t, long, "m", 1, week)
	for range 60 * 4 { // 60 days
		clock.Add(6 * time.Hour)
		mustSpend(t, brief, "m", 1, short)
		mustSpend(t, long, "m", 1, week)
	}
	if sum, n := used(t, long, week), len(entries(t, long)); sum != 57 || n < 57 || n > 72 {
		t.Fatalf("%d units, %d entries; want those of a week, and an eighth more", sum, n)
	}
	for range 4 * 31 { // the process that asked ended
		clock.Add(6 * time.Hour)
		mustSpend(t, brief, "m", 1, short)
	}
	if n := len(entries(t, brief)); n > 2 {
		t.Errorf("%d entries a month after the week was last asked", n)
	}
}

// TestHistoryKeepsEntriesOfACounter: a history keeps entries whatever the
// windows, and when no process asks for it any longer the log keeps none.
func TestHistoryKeepsEntriesOfACounter(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	clock := &ledgertest.Clock{}
	clock.Set(noonUTC())
	l := fresh(t, server.URL(), clock.Now)
	one := func(history time.Duration) {
		t.Helper()
		r := quota.Request{Method: "m", Units: 1, Charges: []*quota.Charge{perMinute}}
		if answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, History: history, Requests: []quota.Request{r}}); err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
	}
	one(time.Hour)
	for range 30 {
		clock.Add(time.Minute)
		one(time.Hour)
	}
	if n := len(entries(t, l)); n != 31 {
		t.Errorf("%d entries; want 31", n)
	}
	for range 24 * 4 {
		clock.Add(time.Hour)
		one(0)
	}
	if n := do(t, client, "llen", redisledger.LogKey(l, account)).(int64); n != 1 || len(entries(t, l)) != 0 {
		t.Errorf("%d records, %d entries; want none four days after the history was asked", n, len(entries(t, l)))
	}
}

// setBack makes the records of a log, its lists and its counters older, and
// sets the account's keys to expire in a minute.
func setBack(t *testing.T, client *redis.Client, l *redisledger.Ledger, by time.Duration) {
	t.Helper()
	log := redisledger.LogKey(l, account)
	older := func(record string) string {
		stamp := int64(0)
		for i := range 7 {
			stamp = stamp<<8 | int64(record[i])
		}
		if stamp == 0 {
			return record
		}
		stamp -= by.Microseconds()
		b := []byte(record)
		for i := 6; i >= 0; i-- {
			b[i], stamp = byte(stamp), stamp>>8
		}
		return string(b)
	}
	for _, key := range do(t, client, "keys", strings.TrimSuffix(log, "log")+"*").([]any) {
		if do(t, client, "type", key) == "list" {
			for i, record := range do(t, client, "lrange", key, 0, -1).([]any) {
				do(t, client, "lset", key, i, older(record.(string)))
			}
		} else if name := key.(string); strings.HasPrefix(name, log+":") && do(t, client, "strlen", key).(int64) == 19 {
			do(t, client, "set", key, older(do(t, client, "get", key).(string)))
		}
		do(t, client, "pexpire", key, 60_000)
	}
}

// TestKeysOutliveTheirWindows: every path through the script renews the expiry
// of each key, which lives for at least two horizons after the last call, and
// without an end that a clock could reach by a mistake if it cannot be filled
// from the log.
func TestKeysOutliveTheirWindows(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	search := charge("search", 1e6, quota.Sliding(time.Hour), "m")
	floored := charge("floored", 1e6, quota.Sliding(24*time.Hour))
	floored.Floors = []quota.Floor{{Coverage: quota.NewCoverage(quota.Coverage{Regions: []string{"IN"}}), Units: 5}}
	for name, c := range map[string]struct {
		charges []*quota.Charge
		client  uint64
		least   time.Duration
	}{
		"the log alone":    {[]*quota.Charge{day}, 0, 48 * time.Hour},
		"lists beside it":  {[]*quota.Charge{day, search}, 0, 2 * time.Hour},
		"a named batch":    {[]*quota.Charge{day, search}, 7, 2 * time.Hour},
		"floors":           {[]*quota.Charge{floored}, 0, 48 * time.Hour},
		"a counter":        {[]*quota.Charge{perMinute}, 0, 4 * time.Minute},
		"a counter beside": {[]*quota.Charge{day, perMinute}, 0, 4 * time.Minute},
	} {
		l := fresh(t, server.URL(), nil)
		seq := uint64(1)
		one := func() {
			t.Helper()
			r := quota.Request{Method: "m", Units: 1, Charges: c.charges, Caller: quota.Caller{Region: "IN"}}
			if answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Client: c.client, Seq: seq, Requests: []quota.Request{r}}); err != nil || answers[0].Err != nil {
				t.Fatal(answers, err)
			}
			seq++
		}
		one()
		setBack(t, client, l, 2*time.Hour)
		one()
		one()
		log := redisledger.LogKey(l, account)
		for _, key := range do(t, client, "keys", strings.TrimSuffix(log, "log")+"*").([]any) {
			least := c.least
			if isSlot := strings.HasPrefix(key.(string), log+":c"); isSlot && len(key.(string)) == len(log)+14 {
				least = 10*time.Minute - 30*time.Second
			} else if key == log && len(c.charges) > 0 && c.charges[0] != perMinute || strings.HasSuffix(key.(string), ":meta") {
				least = spare + 48*time.Hour
			} else if do(t, client, "type", key) == "string" || key == log {
				least += spare
			}
			if left := time.Duration(do(t, client, "pttl", key).(int64)) * time.Millisecond; left < least {
				t.Errorf("%s: %s lives for %s; want %s at least", name, key, left, least)
			}
		}
	}
}

// TestAdditionRenewsTheLifeOfItsKeys: what a settle adds late lives as long as
// what a spend adds.
func TestAdditionRenewsTheLifeOfItsKeys(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	l := fresh(t, server.URL(), nil)
	charges := []*quota.Charge{day, charge("search", 1e6, quota.Sliding(time.Hour), "m"), perMinute}
	far := mustSpend(t, l, "m", 10, charges...)
	batch := &quota.Batch{Account: account, Requests: make([]quota.Request, quota.MaxSettle+1)}
	for i := range batch.Requests {
		batch.Requests[i] = quota.Request{Method: "m", Units: 1, Charges: charges}
	}
	if _, err := l.Spend(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	setBack(t, client, l, 2*time.Hour)
	far.At = far.At.Add(-2 * time.Hour)
	if err := l.Settle(t.Context(), far, 17); err != nil {
		t.Fatal(err)
	}
	log := redisledger.LogKey(l, account)
	for _, key := range do(t, client, "keys", log+"*").([]any) {
		left, least := time.Duration(do(t, client, "pttl", key).(int64))*time.Millisecond, 4*time.Minute
		if key == log {
			least = 48 * time.Hour
		}
		if left < least {
			t.Errorf("%s lives for %s after the addition; want %s at least", key, left, least)
		}
	}
	if sum := used(t, l, day); sum != 17+quota.MaxSettle+1 {
		t.Errorf("%d units; want 7 more", sum)
	}
}

// TestLongerCooldownLivesLonger: a second cooldown, which ends later, must not
// go with the first.
func TestLongerCooldownLivesLonger(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	for name, second := range map[string]quota.Cooldown{
		"until": {Account: account, Budget: "b", Until: time.Now().Add(50 * time.Hour)},
		"for":   {Account: account, Budget: "b", For: 50 * time.Hour},
		"other": {Account: account, For: 50 * time.Hour},
	} {
		l := fresh(t, server.URL(), nil)
		for _, c := range []quota.Cooldown{{Account: account, Budget: "b", For: time.Minute}, second} {
			if err := l.SetCooldown(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		cool := strings.TrimSuffix(redisledger.LogKey(l, account), "log") + "cool"
		if left := time.Duration(do(t, client, "pttl", cool).(int64)) * time.Millisecond; left < 50*time.Hour || left > 51*time.Hour {
			t.Errorf("%s: cooldowns live for %s; want 50 hours and some minutes", name, left)
		}
	}
}

// TestCooldownGoesByTheServersClock: the host's clock may be wrong.
func TestCooldownGoesByTheServersClock(t *testing.T) {
	server := redistest.Start(t)
	l := fresh(t, server.URL(), nil)
	redisledger.SetHost(l, func() time.Time { return time.Now().Add(-72 * time.Hour) })
	if err := l.SetCooldown(t.Context(), quota.Cooldown{Account: account, Budget: "day", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	_, err := spend(t, l, "m", 1, day)
	refused, ok := err.(*quota.RefusedError)
	if !ok || refused.RetryAfter < 59*time.Minute || refused.RetryAfter > time.Hour {
		t.Errorf("%v; want a refusal for an hour", err)
	}
}

package redisledger_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestSameAsInMemory plays random games, with numbers up to the limits and with
// restorations, on this ledger and on memledger. The Lua scripts and package
// decide give the same answers.
func TestSameAsInMemory(t *testing.T) {
	server := redistest.Start(t)
	rapid.Check(t, func(rt *rapid.T) {
		clock := &ledgertest.Clock{}
		clock.Set(time.Date(2027, 3, 13, 12, 0, 0, 0, time.UTC))
		g := &game{T: rt, clock: clock, client: quota.NewClient(), seq: 1, listed: 48 * time.Hour,
			ledgers: [2]quota.Ledger{memledger.Open(&memledger.Options{Now: clock.Now}), fresh(t, server.URL(), clock.Now)}}
		defer g.ledgers[1].Close()
		g.begin()
		rt.Repeat(map[string]func(*rapid.T){
			"spend": g.spend, "resend": g.resend, "correct": g.correct, "cool": g.cool, "advance": g.advance, "floors": func(*rapid.T) { g.drawFloors() }, "": g.compare,
			"restore": g.restore,
		})
	})
}

// TestClockWrongSameAsInMemory plays with a clock that is wrong at times, by
// less than the slack of any window, and with logs that are restamped.
func TestClockWrongSameAsInMemory(t *testing.T) {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	clockWrong(t, 170*time.Minute, quota.Sliding(24*time.Hour), quota.Sliding(30*time.Hour), quota.Daily(pacific), quota.Counter(13*time.Hour))
}

// TestCountersSameAsInMemory plays with estimates only, in logs without
// entries. A ledger may drop a counter that no batch has named during four
// of its lengths, by its own clock. One that is ahead by less than two of them
// drops none that still counts.
func TestCountersSameAsInMemory(t *testing.T) {
	clockWrong(t, 18*time.Hour, quota.Counter(time.Second), quota.Counter(7*time.Minute), quota.Counter(9*time.Hour))
}

func clockWrong(t *testing.T, by time.Duration, windows ...quota.Window) {
	server := redistest.Start(t)
	rapid.Check(t, func(rt *rapid.T) {
		clock := &ledgertest.Clock{}
		clock.Set(time.Date(2027, 3, 13, 12, 0, 0, 0, time.UTC))
		g := &game{T: rt, clock: clock, client: quota.NewClient(), seq: 1, windows: windows, noLog: windows[0].Estimate(), wrongBy: by, listed: time.Minute,
			ledgers: [2]quota.Ledger{memledger.Open(&memledger.Options{Now: clock.Now}), fresh(t, server.URL(), clock.Now)}}
		defer g.ledgers[1].Close()
		g.begin()
		rt.Repeat(map[string]func(*rapid.T){
			"spend": g.spend, "resend": g.resend, "correct": g.correct, "cool": g.cool, "advance": g.advance, "": g.compare,
			"wrong": g.wrong, "restamp": g.restamp,
		})
	})
}

// TestPlainSameAsInMemory plays with sliding budgets over all calls, which take
// the shortest path through the script: runs of identical calls meet small
// limits exactly while the windows move over the log.
func TestPlainSameAsInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long games, 2 seconds")
	}
	server := redistest.Start(t)
	rapid.Check(t, func(rt *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 4))
		clock := &ledgertest.Clock{}
		clock.Set(time.Date(2027, 3, 13, 12, 0, 0, 0, time.UTC))
		g := &game{T: rt, clock: clock, unnamed: true, listed: time.Minute,
			ledgers: [2]quota.Ledger{memledger.Open(&memledger.Options{Now: clock.Now}), fresh(t, server.URL(), clock.Now)}}
		defer g.ledgers[1].Close()
		limit := rapid.Int64Range(1, 60).Draw(rt, "limit")
		all := quota.NewCoverage(quota.Coverage{})
		for i, seconds := range []int64{60, 17, 4}[:1+random.IntN(3)] {
			own := max(limit>>i, 1+random.Int64N(limit))
			g.charges = append(g.charges, &quota.Charge{Budget: fmt.Sprint("b", i), Limit: quota.Units(own), Window: quota.Sliding(time.Duration(seconds) * time.Second), Coverage: all})
			limit = own
		}
		for range 60 {
			batch := &quota.Batch{Account: account}
			r := quota.Request{Method: "m", Units: quota.Units(min(limit, random.Int64N(9)+1)), Charges: g.charges, Force: random.IntN(20) == 0}
			for range 1 + random.IntN(3)*random.IntN(4) {
				batch.Requests = append(batch.Requests, r)
			}
			g.play(batch)
			clock.Add(time.Duration(random.Int64N(4e9)) * time.Nanosecond)
			g.compare(rt)
		}
	})
}

// TestFloorsSameAsInMemory plays with one sliding budget with floors for
// eight regions, and hundreds of calls, so that the search for the retry time
// is long.
func TestFloorsSameAsInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long games, 4 seconds")
	}
	server := redistest.Start(t)
	rapid.Check(t, func(rt *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 5))
		clock := &ledgertest.Clock{}
		clock.Set(time.Date(2027, 3, 13, 12, 0, 0, 0, time.UTC))
		g := &game{T: rt, clock: clock, unnamed: true, listed: time.Minute,
			ledgers: [2]quota.Ledger{memledger.Open(&memledger.Options{Now: clock.Now}), fresh(t, server.URL(), clock.Now)}}
		defer g.ledgers[1].Close()
		floors := make([]quota.Floor, 8)
		for i := range floors {
			floors[i] = quota.Floor{Coverage: quota.NewCoverage(quota.Coverage{Regions: []string{fmt.Sprint("R", i)}}), Units: quota.Units(random.IntN(200) + 1)}
		}
		limit := quota.Units(1600 + random.IntN(1600))
		all := quota.NewCoverage(quota.Coverage{})
		for i := range 9 { // the last is for all other regions
			c := &quota.Charge{Budget: "b", Limit: limit, Window: quota.Sliding(time.Minute), Coverage: all}
			c.Floors = append(slices.Clone(floors[:i]), floors[min(i+1, 8):]...)
			g.charges = append(g.charges, c)
		}
		weight := random.IntN(9) + 1
		for range 40 {
			batch := &quota.Batch{Account: account}
			for range 1 + random.IntN(40) {
				region := min(random.IntN(8+weight), 8)
				r := quota.Request{Method: "m", Units: quota.Units(1 + random.IntN(1+random.IntN(60))), Charges: g.charges[region : region+1], Force: random.IntN(30) == 0}
				r.Caller.Region = fmt.Sprint("R", region)
				batch.Requests = append(batch.Requests, r)
			}
			g.play(batch)
			clock.Add(time.Duration(random.Int64N(3e9)) * time.Nanosecond)
		}
	})
}

// TestLongDivisionIsInexact compares the long division in Lua with big
// integers, mostly with products that are exact multiples or off by one.
func TestLongDivisionIsInexact(t *testing.T) {
	client := raw(t, redistest.Start(t))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		c := random.Int64N(1<<45) + 1
		a, b := random.Int64N(1<<48), min(c, 1<<45)
		if i%2 == 1 {
			b = random.Int64N(c) + 1
		}
		c -= int64(i % 3 * (i % 2)) // off by one or two
		c = max(c, b)
		product := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		if i%5 == 0 { // one less than a multiple of c
			a = c*(random.Int64N(1<<48/c)+1) - 1
			product.Mul(big.NewInt(a), big.NewInt(b))
		}
		quotient, rest := product.QuoRem(product, big.NewInt(c), new(big.Int))
		want := fmt.Sprintf("%s %t", quotient, rest.Sign() > 0)
		script := redisledger.CommonLua + "local q, rest = counters().product(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]))\nreturn string.format('%.0f %s', q, tostring(rest))"
		if got := do(t, client, "eval", script, 0, a, b, c); got != want {
			t.Fatalf("%d*%d/%d is %s; want %s", a, b, c, got, want)
		}
	}
}

// nearWrap sets the running totals of all lists, of one record each, to 16
// below the number at which they start anew.
func nearWrap(t *testing.T, client *redis.Client) {
	t.Helper()
	for _, key := range do(t, client, "keys", "*:log*").([]any) {
		if name := key.(string); len(name) < len("t1:{my-project}:log:c") || name[len(name)-13] != 'c' {
			record := []byte(do(t, client, "lindex", name, 0).(string))
			copy(record[7:13], "\xff\xff\xff\xff\xff\xf0") // 16 below 2^48
			do(t, client, "lset", name, 0, string(record))
		}
	}
}

// TestWrappedTotalsChangeADecision begins just below the number at which
// running totals start anew: nothing may show, in the log or in a list beside
// it.
func TestWrappedTotalsChangeADecision(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	l := fresh(t, server.URL(), clock.Now)
	all, search := charge("all", 100, quota.Sliding(time.Hour)), charge("search", 60, quota.Sliding(time.Hour), "search")
	first := mustSpend(t, l, "search", 10, all, search)
	nearWrap(t, client)
	for i := range 5 {
		clock.Add(time.Second)
		want := quota.Units(10*i + 20)
		answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{{Method: "search", Units: 10, Charges: []*quota.Charge{all, search}}}})
		if err != nil || answers[0].Err != nil || answers[0].Held[0].Used != want || answers[0].Held[1].Used != want {
			t.Fatalf("%+v, %v; want a grant that says %d units", answers, err, want)
		}
		if a, s := used(t, l, all), used(t, l, search); a != want || s != want {
			t.Fatalf("%d and %d units; want %d", a, s, want)
		}
	}
	_, err := spend(t, l, "search", 15, all, search)
	if refused, ok := err.(*quota.RefusedError); !ok || refused.RetryAfter != time.Hour-4*time.Second || refused.Remaining != 0 {
		t.Fatalf("%v; want a refusal until the second entry leaves", err)
	}
	if err := l.Settle(t.Context(), first, 3); err != nil {
		t.Fatal(err)
	}
	mustSpend(t, l, "search", 7, all, search)
	clock.Add(time.Hour - 5*time.Second)
	if a, s := used(t, l, all), used(t, l, search); a != 57 || s != 57 {
		t.Fatalf("%d and %d units; want 57", a, s)
	}
}

// TestDayFreesWhileTotalsWrap: the calls around midnight, which count in both
// days, do not hide that those before it leave with the first.
func TestDayFreesWhileTotalsWrap(t *testing.T) {
	server := redistest.Start(t)
	clock := &ledgertest.Clock{}
	clock.Set(noonUTC())
	l := fresh(t, server.URL(), clock.Now)
	daily := charge("daily", 100, quota.Daily(time.UTC))
	mustSpend(t, l, "m", 10, daily)
	nearWrap(t, raw(t, server))
	clock.Add(12*time.Hour - 10*time.Second)
	for i, units := range []quota.Units{20, 30} {
		answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: units, Charges: []*quota.Charge{daily}}}})
		want := quota.Held{Used: 30 + 30*quota.Units(i), FreesIn: 10*time.Second + quota.DefaultMargin - time.Duration(i)*time.Microsecond}
		if err != nil || answers[0].Err != nil || answers[0].Held[0] != want {
			t.Fatalf("%+v, %v; want a grant that says %+v", answers, err, want)
		}
	}
	_, err := spend(t, l, "m", 50, daily)
	if refused, ok := err.(*quota.RefusedError); !ok || refused.RetryAfter != 10*time.Second+quota.DefaultMargin {
		t.Errorf("%v; want a refusal until the day ends", err)
	}
}

// TestLogIsFull: what one log holds stays below what its totals can tell
// apart, forced calls and settles included.
func TestLogIsFull(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	l := fresh(t, server.URL(), nil)
	receipt := mustSpend(t, l, "m", 1, day)
	mustSpend(t, l, "m", 1, day)
	key := do(t, client, "keys", "*:log").([]any)[0].(string)
	record := []byte(do(t, client, "lindex", key, 1).(string))
	copy(record[7:13], "\xfd\xff\xff\xff\xff\xff") // the last but two of 256 blocks of 2^40 is used up
	do(t, client, "lset", key, 1, string(record))
	forced := quota.Request{Method: "m", Units: quota.MaxUnits, Force: true, Charges: []*quota.Charge{day}}
	answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{forced, forced, forced}})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if a.Err == nil || a.Err.Error() != redisledger.ErrFull.Error() {
			t.Errorf("request %d: %+v; want that the log is full", i, a)
		}
	}
	if err := l.Settle(t.Context(), receipt, quota.MaxUnits); err == nil || err.Error() != redisledger.ErrFull.Error() {
		t.Errorf("settle: %v; want that the log is full", err)
	}
	if n := len(entries(t, l)); n != 2 {
		t.Errorf("%d entries; want 2", n)
	}
}

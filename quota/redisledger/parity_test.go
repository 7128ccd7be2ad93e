package redisledger_test

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/redistest"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestSameAsInMemory plays random games, with numbers as large as they may be,
// on this ledger and on the one in memory: every answer is the same, by the
// script in Lua and by package decide in Go.
func TestSameAsInMemory(t *testing.T) {
	server := redistest.Start(t)
	rapid.Check(t, func(rt *rapid.T) {
		clock := &ledgertest.Clock{}
		clock.Set(time.Date(2027, 3, 13, 12, 0, 0, 0, time.UTC))
		g := &game{T: rt, clock: clock, client: quota.NewClient(), seq: 1,
			ledgers: [2]quota.Ledger{memledger.Open(&memledger.Options{Now: clock.Now}), fresh(t, server.URL(), clock.Now)}}
		defer g.ledgers[1].Close()
		g.begin()
		rt.Repeat(map[string]func(*rapid.T){
			"spend": g.spend, "resend": g.resend, "correct": g.correct, "cool": g.cool, "advance": g.advance, "": g.compare,
		})
	})
}

// TestPlainSameAsInMemory is one sliding budget over all calls, decided by the shortest
// way through the script: small limits, met exactly, by runs of calls that are the same.
func TestPlainSameAsInMemory(t *testing.T) {
	server := redistest.Start(t)
	rapid.Check(t, func(rt *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 4))
		clock := &ledgertest.Clock{}
		clock.Set(time.Date(2027, 3, 13, 12, 0, 0, 0, time.UTC))
		g := &game{T: rt, clock: clock, unnamed: true,
			ledgers: [2]quota.Ledger{memledger.Open(&memledger.Options{Now: clock.Now}), fresh(t, server.URL(), clock.Now)}}
		defer g.ledgers[1].Close()
		limit := rapid.Int64Range(1, 60).Draw(rt, "limit")
		g.charges = []*quota.Charge{{Budget: "b", Limit: quota.Units(limit), Window: quota.Sliding(time.Minute), Coverage: quota.NewCoverage(quota.Coverage{})}}
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

type game struct {
	*rapid.T
	clock    *ledgertest.Clock
	ledgers  [2]quota.Ledger
	charges  []*quota.Charge
	client   uint64
	seq      uint64
	last     *quota.Batch
	unnamed  bool // the ledgers name the batch
	receipts []quota.Receipt
}

var (
	gameKeys    = []string{"", "203.0.113.9"}
	gameMethods = []string{"search.list", "videos.list", "a\x00}b"}
	gameCallers = []quota.Caller{{}, {Lane: "cron", Job: "j", Region: "IN"}, {Lane: "backfill", Region: "US"}}
)

// begin makes the budgets, and all of them known to both logs: a keyed log
// keeps its entries for the windows that were asked of it.
func (g *game) begin() {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		g.Fatal(err)
	}
	windows := []quota.Window{quota.Sliding(24 * time.Hour), quota.Sliding(time.Hour), quota.Sliding(time.Minute), quota.Daily(pacific),
		quota.Counter(7 * time.Minute), quota.Counter(9 * time.Hour)}
	coverages := []quota.Coverage{{}, {Measure: quota.Calls}, {Methods: gameMethods[:2]}, {Except: gameMethods[1:2]},
		{Lanes: []string{"cron"}, Regions: []string{"IN", "US"}}}
	limits := rapid.OneOf(rapid.Int64Range(1, 50), rapid.Int64Range(1, int64(quota.MaxUnits)*4), rapid.Int64Range(1, int64(quota.MaxLimit)))
	for i := range rapid.IntRange(1, 7).Draw(g.T, "budgets") {
		g.charges = append(g.charges, &quota.Charge{Budget: fmt.Sprint("b", i), Limit: quota.Units(limits.Draw(g.T, "limit")),
			Coverage: quota.NewCoverage(rapid.SampledFrom(coverages).Draw(g.T, "coverage")), Window: rapid.SampledFrom(windows).Draw(g.T, "window")})
	}
	for _, key := range gameKeys {
		g.play(&quota.Batch{Account: account, Key: key, Requests: []quota.Request{{Method: "first", Force: true, Charges: g.charges}}})
	}
}

func (g *game) same(what string, mem, red any) {
	if diff := cmp.Diff(mem, red, cmp.Comparer(func(a, b error) bool { return cmp.Equal(fmt.Sprintf("%#v", a), fmt.Sprintf("%#v", b)) })); diff != "" {
		g.Fatalf("%s: in memory -, in Redis +\n%s", what, diff)
	}
}

func (g *game) play(batch *quota.Batch) {
	if !g.unnamed {
		batch.Client, batch.Seq = g.client, g.seq
		g.seq += uint64(len(batch.Requests))
	}
	g.last = batch
	for _, answer := range g.send() {
		if answer.Err == nil && !g.unnamed {
			g.receipts = append(g.receipts, answer.Receipt)
		}
	}
}

func (g *game) send() []quota.Answer {
	var answers [2][]quota.Answer
	for i, l := range g.ledgers {
		var err error
		if answers[i], err = l.Spend(context.Background(), g.last); err != nil {
			g.Fatal(err)
		}
	}
	for i := range answers[0] {
		mem, red := answers[0][i].Receipt, answers[1][i].Receipt
		if g.unnamed { // ids are then of the ledgers' own making
			mem.ID, red.ID = quota.ID{}, quota.ID{}
		}
		g.same(fmt.Sprintf("request %d: %+v", i, g.last.Requests[i]), mem, red)
		g.same(fmt.Sprintf("request %d: %+v", i, g.last.Requests[i]), describe(answers[0][i].Err), describe(answers[1][i].Err))
	}
	return answers[0]
}

// describe returns all that an error says.
func describe(err error) string {
	if refused, ok := err.(*quota.RefusedError); ok {
		return fmt.Sprintf("%+v", *refused)
	}
	return fmt.Sprint(err)
}

func (g *game) spend(t *rapid.T) {
	units := rapid.OneOf(rapid.Int64Range(1, 9), rapid.Int64Range(1, int64(quota.MaxUnits)), rapid.Just(int64(quota.MaxUnits)))
	batch := &quota.Batch{Account: account, Key: rapid.SampledFrom(gameKeys).Draw(t, "key")}
	for range rapid.IntRange(1, 5).Draw(t, "requests") {
		r := quota.Request{Method: rapid.SampledFrom(gameMethods).Draw(t, "method"), Caller: rapid.SampledFrom(gameCallers).Draw(t, "caller"),
			Units: quota.Units(units.Draw(t, "units")), Force: rapid.IntRange(0, 9).Draw(t, "force") == 0}
		for _, c := range g.charges {
			if c.Coverage.Covers(r.Method, r.Caller) {
				r.Charges = append(r.Charges, c)
			}
		}
		batch.Requests = append(batch.Requests, r)
	}
	for rapid.IntRange(0, 3).Draw(t, "again") == 0 && len(batch.Requests) < 40 { // callers that ask the same
		batch.Requests = append(batch.Requests, batch.Requests[len(batch.Requests)-1])
	}
	g.unnamed = rapid.Bool().Draw(t, "unnamed")
	g.play(batch)
}

func (g *game) resend(t *rapid.T) {
	if g.last.Client == 0 {
		t.Skip("it has no id")
	}
	g.unnamed = false
	g.send()
}

func (g *game) correct(t *rapid.T) {
	receipt := rapid.SampledFrom(g.receipts).Draw(t, "receipt")
	units := quota.Units(rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, int64(quota.MaxUnits))).Draw(t, "to"))
	refund := rapid.Bool().Draw(t, "refund")
	var errs [2]error
	for i, l := range g.ledgers {
		if refund {
			errs[i] = l.Refund(context.Background(), receipt)
		} else {
			errs[i] = l.Settle(context.Background(), receipt, units)
		}
	}
	g.same("settle", describe(errs[0]), describe(errs[1]))
}

func (g *game) cool(t *rapid.T) {
	budget := rapid.SampledFrom([]string{"", "b0", "b1"}).Draw(t, "budget")
	until := g.clock.Now().Add(time.Duration(rapid.Int64Range(-60e6, 600e6).Draw(t, "until")) * time.Microsecond)
	lift := rapid.Bool().Draw(t, "lift")
	for _, l := range g.ledgers {
		err := l.SetCooldown(context.Background(), quota.Cooldown{Account: account, Budget: budget, Until: until, Reason: "said so"})
		if lift {
			err = l.ClearCooldown(context.Background(), account, budget)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (g *game) advance(t *rapid.T) {
	most := rapid.SampledFrom([]int64{10, 1e6, 60e6, 3600e6, 20 * 3600e6}).Draw(t, "at most")
	g.clock.Add(time.Duration(rapid.Int64Range(1, most).Draw(t, "advance")) * time.Microsecond)
}

func (g *game) compare(*rapid.T) {
	for _, key := range gameKeys {
		var standings [2][]quota.Standing
		var logs [2][]quota.Entry
		for i, l := range g.ledgers {
			var err error
			if standings[i], err = l.Standings(context.Background(), account, key, g.charges); err != nil {
				g.Fatal(err)
			}
			for e, err := range l.Entries(context.Background(), quota.Query{Account: account, Key: key, Since: g.clock.Now().Add(-time.Minute)}) {
				if err != nil {
					g.Fatal(err)
				}
				logs[i] = append(logs[i], e)
			}
		}
		g.same("standings of "+key, standings[0], standings[1])
		for i := range min(len(logs[0]), len(logs[1])) {
			if logs[0][i].ID.Client != g.client {
				logs[0][i].ID, logs[1][i].ID = quota.ID{}, quota.ID{}
			}
		}
		g.same("log of "+key, logs[0], logs[1])
	}
}

// TestProduct holds the long division in Lua against big integers, above all
// where the product is a whole multiple or just beside one.
func TestProduct(t *testing.T) {
	client := raw(t, redistest.Start(t))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		c := random.Int64N(1<<45) + 1
		a, b := random.Int64N(1<<48), min(c, 1<<45)
		if i%2 == 1 {
			b = random.Int64N(c) + 1
		}
		c -= int64(i % 3 * (i % 2)) // beside a multiple
		c = max(c, b)
		product := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
		if i%5 == 0 { // one less than a multiple of c
			a = c*(random.Int64N(1<<48/c)+1) - 1
			product.Mul(big.NewInt(a), big.NewInt(b))
		}
		quotient, rest := product.QuoRem(product, big.NewInt(c), new(big.Int))
		want := fmt.Sprintf("%s %t", quotient, rest.Sign() > 0)
		script := redisledger.CommonLua + "local q, rest = product(tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]))\nreturn string.format('%.0f %s', q, tostring(rest))"
		if got := do(t, client, "eval", script, 0, a, b, c); got != want {
			t.Fatalf("%d*%d/%d is %s; want %s", a, b, c, got, want)
		}
	}
}

// TestTotalsWrap begins just below the number at which running totals start
// anew: nothing may show, in the log or in a list beside it.
func TestTotalsWrap(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	l := fresh(t, server.URL(), clock.Now)
	all, search := charge("all", 100, quota.Sliding(time.Hour)), charge("search", 60, quota.Sliding(time.Hour), "search")
	first := mustSpend(t, l, "search", 10, all, search)
	for _, key := range do(t, client, "keys", "*:log*").([]any) {
		if name := key.(string); len(name) < len("t1:{my-project}:log:c") || name[len(name)-13] != 'c' {
			record := []byte(do(t, client, "lindex", name, 0).(string))
			copy(record[7:13], "\xff\xff\xff\xff\xff\xf0") // 16 below 2^48
			do(t, client, "lset", name, 0, string(record))
		}
	}
	for i := range 5 {
		clock.Add(time.Second)
		mustSpend(t, l, "search", 10, all, search)
		if a, s := used(t, l, all), used(t, l, search); a != s || a != quota.Units(10*i+20) {
			t.Fatalf("%d and %d units; want %d", a, s, 10*i+20)
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
	forced := quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: quota.MaxUnits, Force: true, Charges: []*quota.Charge{day}}}}
	answers, err := l.Spend(t.Context(), &forced)
	if err != nil || answers[0].Err == nil || answers[0].Err.Error() != redisledger.ErrFull.Error() {
		t.Errorf("%+v, %v; want that the log is full", answers, err)
	}
	if err := l.Settle(t.Context(), receipt, quota.MaxUnits); err == nil || err.Error() != redisledger.ErrFull.Error() {
		t.Errorf("settle: %v; want that the log is full", err)
	}
	if n := len(entries(t, l)); n != 2 {
		t.Errorf("%d entries; want 2", n)
	}
}

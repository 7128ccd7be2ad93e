package redisledger_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
)

// game makes the same random calls on two ledgers and compares the answers.
type game struct {
	*rapid.T
	clock    *ledgertest.Clock
	ledgers  [2]quota.Ledger
	charges  []*quota.Charge
	beside   map[string][]*quota.Charge // the charges for calls of each region
	client   uint64
	seq      uint64
	last     *quota.Batch
	unnamed  bool // the ledgers choose the batch's id
	receipts []quota.Receipt
	restored []quota.Entry // of client+1
	listed   time.Duration // how much of the logs is compared

	windows []quota.Window // of the budgets; any if empty
	noLog   bool           // the windows are estimates
	wrongBy time.Duration  // largest error of the clock; beyond it ledgers may drop different entries
}

var (
	gameKeys    = []string{"", "203.0.113.9"}
	gameMethods = []string{"search.list", "videos.list", "a\x00}b"}
	gameCallers = []quota.Caller{{}, {Lane: "cron", Job: "j", Region: "IN"}, {Lane: "backfill", Region: "US"}}
	gameRegions = []string{"", "IN", "US"}
)

// begin makes the budgets, and charges both logs with each: a keyed log keeps
// its entries for the windows that it has seen.
func (g *game) begin() {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		g.Fatal(err)
	}
	windows := []quota.Window{quota.Sliding(24 * time.Hour), quota.Sliding(time.Hour), quota.Sliding(time.Minute), quota.Daily(pacific),
		quota.Counter(7 * time.Minute), quota.Counter(9 * time.Hour)}
	if g.windows != nil {
		windows = g.windows
	}
	coverages := []quota.Coverage{{}, {Measure: quota.Calls}, {Methods: gameMethods[:2]}, {Except: gameMethods[1:2]},
		{Lanes: []string{"cron"}, Regions: []string{"IN", "US"}}}
	limits := rapid.OneOf(rapid.Int64Range(1, 50), rapid.Int64Range(1, int64(quota.MaxUnits)*4), rapid.Int64Range(1, int64(quota.MaxLimit)))
	for i := range rapid.IntRange(1, 7).Draw(g.T, "budgets") {
		g.charges = append(g.charges, &quota.Charge{Budget: fmt.Sprint("b", i), Limit: quota.Units(limits.Draw(g.T, "limit")),
			Coverage: quota.NewCoverage(rapid.SampledFrom(coverages).Draw(g.T, "coverage")), Window: rapid.SampledFrom(windows).Draw(g.T, "window")})
	}
	g.drawFloors()
	for _, key := range gameKeys {
		g.play(&quota.Batch{Account: account, Key: key, Requests: []quota.Request{{Method: "first", Force: true, Charges: g.beside[""]}}})
	}
}

// drawFloors draws the floors of two regions.
func (g *game) drawFloors() {
	g.beside = map[string][]*quota.Charge{}
	for _, c := range g.charges {
		left, until := int64(c.Limit), time.Duration(rapid.SampledFrom([]int64{0, 1, 7}).Draw(g.T, "until"))*time.Hour
		floors := map[string]int64{}
		for _, region := range gameRegions[1:] {
			if rapid.Bool().Draw(g.T, "kept") && !c.Window.Estimate() {
				floors[region] = rapid.Int64Range(1, max(left, 1)).Draw(g.T, "floor")
				left -= floors[region]
			}
		}
		for _, region := range gameRegions {
			own := *c
			for _, other := range gameRegions[1:] {
				if other == region || floors[other] < 1 || left < 0 {
					continue
				}
				coverage := *c.Coverage
				coverage.Regions = []string{other}
				own.Floors = append(own.Floors, quota.Floor{Coverage: quota.NewCoverage(coverage), Units: quota.Units(floors[other])})
				if c.Window.Kind() == quota.KindDaily {
					own.FloorUntil = until
				}
			}
			g.beside[region] = append(g.beside[region], &own)
		}
	}
}

func (g *game) same(what string, mem, red any) {
	sameError := cmp.Comparer(func(a, b error) bool { return cmp.Equal(fmt.Sprintf("%#v", a), fmt.Sprintf("%#v", b)) })
	if diff := cmp.Diff(mem, red, sameError, cmpopts.IgnoreFields(quota.Receipt{}, "Epoch")); diff != "" { // which is drawn
		g.Fatalf("%s: in memory -, in Redis +\n%s", what, diff)
	}
}

func (g *game) play(batch *quota.Batch) {
	if !g.unnamed {
		batch.Client, batch.Seq = g.client, g.seq
		g.seq += uint64(len(batch.Requests))
	}
	g.last = batch
	for i, answer := range g.send(false) {
		if r := &batch.Requests[i]; answer.Err == nil && !g.unnamed && r.Kind == quota.EntryCall {
			answer.Receipt.Recorded = &quota.Recorded{Method: r.Method, Caller: r.Caller, Units: r.Units}
			answer.Receipt.Epoch = 0 // each ledger has drawn another
			g.receipts = append(g.receipts, answer.Receipt)
		}
	}
}

func (g *game) send(resent bool) []quota.Answer {
	var answers [2][]quota.Answer
	for i, l := range g.ledgers {
		var err error
		if answers[i], err = l.Spend(context.Background(), g.last); err != nil {
			g.Fatal(err)
		}
	}
	for i := range answers[0] {
		mem, red := answers[0][i].Receipt, answers[1][i].Receipt
		isRefused := answers[0][i].Err != nil
		// Memory drops idle logs. When a counter is no longer in use, and the log
		// keeps entries again, is not specified.
		keepsNone := mem.At.IsZero() || g.noLog && red.At.IsZero()
		if isRefused && keepsNone {
			red = mem
		}
		if g.unnamed || isRefused { // the ledgers' ids differ, perhaps of the newest entry
			mem.ID, red.ID = quota.ID{}, quota.ID{}
		}
		g.same(fmt.Sprintf("request %d: %+v", i, g.last.Requests[i]), mem, red)
		if !resent {
			g.same(fmt.Sprintf("request %d: %+v", i, g.last.Requests[i]), answers[0][i].Held, answers[1][i].Held)
		}
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
		if r.Force && rapid.Bool().Draw(t, "not a call") {
			r.Kind = rapid.SampledFrom([]quota.EntryKind{quota.EntryNote, quota.EntryCorrection}).Draw(t, "kind")
			r.Calls = quota.Units(rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, int64(quota.MaxUnits))).Draw(t, "calls"))
		}
		for _, c := range g.beside[r.Caller.Region] {
			if c.Coverage.Covers(r.Method, r.Caller) {
				r.Charges = append(r.Charges, c)
			}
		}
		batch.Requests = append(batch.Requests, r)
	}
	for rapid.IntRange(0, 3).Draw(t, "again") == 0 && len(batch.Requests) < 40 { // identical requests
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
	g.send(true)
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

// restore restores calls of another client that the logs have never held, or
// some that an earlier restoration had, and what that client has heard.
func (g *game) restore(t *rapid.T) {
	r := quota.Restoration{Account: account, Key: rapid.SampledFrom(gameKeys).Draw(t, "key"), History: 48 * time.Hour, Lost: rapid.Bool().Draw(t, "lost")}
	now := g.clock.Now()
	for range rapid.IntRange(1, 4).Draw(t, "entries") {
		ago := time.Duration(rapid.Int64Range(1, 30*3600e6).Draw(t, "ago")) * time.Microsecond
		g.seq++
		g.restored = append(g.restored, quota.Entry{At: now.Add(-ago), ID: quota.ID{Client: g.client + 1, Seq: g.seq}, Method: rapid.SampledFrom(gameMethods).Draw(t, "method"),
			Caller: rapid.SampledFrom(gameCallers).Draw(t, "caller"), Units: quota.Units(rapid.Int64Range(0, 9).Draw(t, "units")), Calls: 1})
	}
	r.Entries = g.restored[rapid.IntRange(0, len(g.restored)-1).Draw(t, "from"):]
	last := slices.MaxFunc(r.Entries, func(a, b quota.Entry) int { return a.At.Compare(b.At) })
	for _, c := range g.charges {
		if c.Coverage.Covers(last.Method, last.Caller) && rapid.Bool().Draw(t, "heard") {
			r.Heard = append(r.Heard, quota.WindowUse{Client: g.client + 1, Budget: c.Budget, Coverage: c.Coverage, Since: c.Window.Since(last.At), At: last.At,
				Used: quota.Units(rapid.Int64Range(1, 99).Draw(t, "used"))})
		}
	}
	var results [2]quota.RestoreResult
	for i, l := range g.ledgers {
		var err error
		if results[i], err = l.Restore(context.Background(), &r); err != nil {
			t.Fatal(err)
		}
		results[i].Known.Epoch = 0
		for n := range results[i].Gaps {
			results[i].Gaps[n].Epoch = 0
		}
	}
	g.same("restored", results[0], results[1])
}

func (g *game) cool(t *rapid.T) {
	budget := rapid.SampledFrom([]string{"", "b0", "b1"}).Draw(t, "budget")
	until := g.clock.Now().Add(time.Duration(rapid.OneOf(rapid.Int64Range(-60e6, 600e6), rapid.Int64Range(0, 100*3600e6)).Draw(t, "until")) * time.Microsecond)
	lift := rapid.Bool().Draw(t, "lift")
	c := quota.Cooldown{Account: account, Budget: budget, Until: until, Reason: "said so"}
	if rapid.Bool().Draw(t, "for") {
		c.For = until.Sub(g.clock.Now())
	}
	for _, l := range g.ledgers {
		err := l.SetCooldown(context.Background(), c)
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

// wrong sets the clock forward for one spend.
func (g *game) wrong(t *rapid.T) {
	now := g.clock.Now()
	g.clock.Add(time.Duration(rapid.Int64Range(1, g.wrongBy.Microseconds()).Draw(t, "wrong")) * time.Microsecond)
	g.spend(t)
	g.clock.Set(now)
}

func (g *game) restamp(t *rapid.T) {
	key := rapid.SampledFrom(gameKeys).Draw(t, "key")
	listed := false
	for range g.ledgers[0].Entries(context.Background(), quota.Query{Account: account, Key: key}) {
		listed = true
	}
	var changed [2]int
	for i, l := range g.ledgers {
		var err error
		if changed[i], err = l.Restamp(context.Background(), account, key); err != nil {
			t.Fatal(err)
		}
	}
	if g.noLog && listed { // the counters are no longer in use: a ledger may keep entries or not
		return
	}
	g.same("restamped", changed[0], changed[1])
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
			for e, err := range l.Entries(context.Background(), quota.Query{Account: account, Key: key, Since: g.clock.Now().Add(-g.listed)}) {
				if err != nil {
					g.Fatal(err)
				}
				logs[i] = append(logs[i], e)
			}
		}
		for i := range standings {
			for n := range standings[i] {
				if g.restored != nil {
					standings[i][n].Earlier = 0 // what was dropped before a restoration may count or not
				}
			}
		}
		g.same("standings of "+key, standings[0], standings[1])
		for i := range min(len(logs[0]), len(logs[1])) {
			if client := logs[0][i].ID.Client; client != g.client && client != g.client+1 {
				logs[0][i].ID, logs[1][i].ID = quota.ID{}, quota.ID{}
			}
		}
		if !g.noLog { // when a counter is no longer in use is not specified
			g.same("log of "+key, logs[0], logs[1])
		}
	}
}

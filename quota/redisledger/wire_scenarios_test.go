package redisledger_test

import (
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// wireScenarios are what TestWire plays, each on an empty server. New coverages
// become known one after the other, since a batch names them in random order.
var wireScenarios = map[string]func(w *wire){
	"learn": wireLearn, "spend": wireSpend, "refusals": wireRefusals, "resent": wireResent, "settle": wireSettle,
	"standings": wireStandings, "entries": wireEntries, "restamp": wireRestamp, "restore": wireRestore,
	"cooldowns": wireCooldowns, "keys": wireKeys,
}

var (
	wireFloored = func() *quota.Charge {
		c := charge("daily", 100, quota.Daily(time.UTC), "search")
		floor := quota.Floor{Coverage: quota.NewCoverage(quota.Coverage{Methods: []string{"search"}, Regions: []string{"IN"}}), Units: 20}
		c.Floors, c.FloorUntil = []quota.Floor{floor}, time.Hour
		return c
	}()
	wireFloor  = &quota.Charge{Budget: "floor", Coverage: wireFloored.Floors[0].Coverage, Limit: 100, Window: wireFloored.Window}
	wireMinute = charge("minute", 50, quota.Counter(time.Minute))
	wireNarrow = &quota.Charge{Budget: "narrow", Limit: 5, Window: quota.Sliding(time.Hour), Coverage: quota.NewCoverage(quota.Coverage{
		Measure: quota.Calls, Methods: []string{"list"}, Lanes: []string{"cron"}, Regions: []string{"IN", "US"}})}
	wireExcept = &quota.Charge{Budget: "except", Limit: 500, Window: quota.Sliding(time.Hour), Coverage: quota.NewCoverage(quota.Coverage{Except: []string{"search"}})}

	wireSearch = quota.Request{Method: "search", Units: 30, Charges: []*quota.Charge{day, wireFloored}}
	wireList   = quota.Request{Method: "list", Units: 1, Charges: []*quota.Charge{day, wireMinute}}
	wireNote   = quota.Request{Method: "list", Units: 5, Kind: quota.EntryNote, Calls: 2, Force: true}
)

func wireLearn(w *wire) {
	w.step("an account that the server does not know")
	_, err := w.Standings(w.t.Context(), account, "", []*quota.Charge{day})
	w.must(err)
	w.step("two coverages, a limit that is configured, and a label")
	limited := *wireNarrow
	limited.Config = quota.Config{Name: "host/costs.yaml", Changed: w.now.Add(-time.Hour)}
	caller := quota.Caller{Lane: "cron", Job: "trending", Region: "IN"}
	w.spend(7, 1, quota.Request{Method: "list", Units: 1, Caller: caller, Charges: []*quota.Charge{&limited}})
	w.spend(7, 2, quota.Request{Method: "list", Units: 1, Caller: caller, Charges: []*quota.Charge{wireExcept}})
	w.step("another process reads them")
	w.reopen()
	_, err = w.Standings(w.t.Context(), account, "", []*quota.Charge{day})
	w.must(err)
	w.step("the limits are forgotten")
	w.must(w.ClearLimits(w.t.Context(), account))
}

func wireSpend(w *wire) {
	w.know("", day, wireFloor, wireFloored, wireMinute)
	w.silently(func() {
		w.spend(7, 1, wireNote, wireSearch)
		w.now = w.now.Add(2 * time.Minute)
		w.spend(7, 5, wireList)
	})
	w.step("two lists, a search that fits, one that is refused, and a note")
	w.spend(7, 9, wireList, wireList, wireSearch, wireSearch, wireNote)
	w.step("a list from a process whose clock is far behind")
	batch := &quota.Batch{Account: account, Client: 8, Seq: 1, Requests: []quota.Request{wireList}, Clock: w.now.Add(-time.Hour)}
	w.now = w.now.Add(10 * time.Minute)
	_, err := w.Spend(w.t.Context(), batch)
	w.line("error: " + err.Error())
}

func wireRefusals(w *wire) {
	w.know("", day, wireFloor, wireFloored, wireMinute, wireNarrow)
	w.silently(func() { w.spend(7, 1, wireSearch, wireSearch) })
	w.step("spent, with floors; spent, without")
	forty := quota.Request{Method: "list", Units: 40, Charges: []*quota.Charge{wireMinute}}
	w.spend(7, 3, wireSearch, forty, forty)
	w.step("a cooldown of one budget")
	w.must(w.SetCooldown(w.t.Context(), quota.Cooldown{Account: account, Budget: "day", For: time.Hour, Reason: "quota exceeded"}))
	w.spend(7, 6, wireList, wireSearch)
	w.step("far ahead of the server's clock")
	w.now = w.now.Add(-time.Hour)
	w.spend(7, 9, wireList)
}

func wireResent(w *wire) {
	w.know("", day)
	call := quota.Request{Method: "list", Units: 1, Charges: []*quota.Charge{day}}
	w.step("the answer to a batch with an id is lost")
	w.lose = true
	w.spend(7, 1, call, call)
	w.step("the batch comes once more")
	w.spend(7, 1, call, call)
	w.step("the answer to a batch that has no id is lost")
	w.lose = true
	w.spend(0, 0, call)
	w.step("one that is earlier than the client's last")
	_, err := w.Spend(w.t.Context(), &quota.Batch{Account: account, Client: 7, Requests: []quota.Request{call}})
	w.line("error: " + err.Error())
}

func wireSettle(w *wire) {
	w.know("", day, wireMinute, wireExcept)
	var receipts []quota.Receipt
	w.silently(func() {
		for i := range 3 {
			answers := w.spend(7, uint64(1+i), quota.Request{Method: "list", Units: 5, Charges: []*quota.Charge{day, wireMinute, wireExcept}})
			receipts = append(receipts, answers[0].Receipt)
		}
	})
	w.step("lowered, without what was recorded")
	w.must(w.Settle(w.t.Context(), receipts[0], 3))
	w.step("raised")
	receipts[1].Recorded = &quota.Recorded{Method: "list", Units: 5, Shared: true}
	w.must(w.Settle(w.t.Context(), receipts[1], 300))
	w.step("refunded")
	receipts[2].Recorded = &quota.Recorded{Method: "list", Units: 5}
	w.must(w.Refund(w.t.Context(), receipts[2]))
	w.step("refunded in a log that keeps no entries")
	const key = "counted"
	w.know(key, wireMinute)
	w.silently(func() {
		call := quota.Request{Method: "list", Units: 5, Charges: []*quota.Charge{wireMinute}}
		answers, err := w.Spend(w.t.Context(), &quota.Batch{Account: account, Key: key, Client: 7, Seq: 1, Requests: []quota.Request{call, call}})
		w.must(err)
		receipts[0] = answers[0].Receipt
	})
	receipts[0].Recorded = receipts[2].Recorded
	w.must(w.Refund(w.t.Context(), receipts[0]))
}

func wireStandings(w *wire) {
	charges := []*quota.Charge{day, wireFloored, wireMinute, wireNarrow}
	w.know("", day, wireFloor, wireFloored, wireMinute)
	w.silently(func() {
		w.spend(7, 1, wireSearch, wireList)
		w.must(w.SetCooldown(w.t.Context(), quota.Cooldown{Account: account, Budget: "minute", Until: w.now.Add(time.Hour), Reason: "slow down"}))
	})
	w.step("with a coverage that the server does not know")
	_, err := w.Standings(w.t.Context(), account, "", charges)
	w.must(err)
}

func wireEntries(w *wire) {
	w.know("", day)
	w.silently(func() {
		w.now = w.now.Add(time.Minute)
		for i := range 3 {
			w.now = w.now.Add(time.Minute)
			w.spend(7, uint64(1+10*i), wireNote, quota.Request{Method: "search", Units: 30, Charges: []*quota.Charge{day},
				Caller: quota.Caller{Lane: "cron", Job: "trending", Region: "IN"}})
		}
	})
	query := quota.Query{Account: account, Since: w.now.Add(-time.Minute), Until: w.now.Add(time.Second)}
	for _, newest := range []bool{false, true} {
		w.step(map[bool]string{false: "oldest first", true: "newest first"}[newest])
		query.Newest = newest
		for _, err := range w.Entries(w.t.Context(), query) {
			w.must(err)
		}
	}
	w.step("sums, of one label")
	query.Since = w.now.Add(time.Microsecond)
	for _, err := range w.Sums(w.t.Context(), query) {
		w.must(err)
	}
}

func wireRestamp(w *wire) {
	w.know("", day, wireMinute, wireExcept)
	call := quota.Request{Method: "list", Units: 2, Charges: []*quota.Charge{day, wireMinute, wireExcept}}
	w.silently(func() {
		w.spend(7, 1, call)
		w.now = w.now.Add(30 * time.Hour)
		w.spend(7, 2, call, call)
		w.must(w.SetCooldown(w.t.Context(), quota.Cooldown{Account: account, For: time.Hour, Reason: "stop"}))
		w.now = w.now.Add(-29 * time.Hour)
	})
	w.step("two entries and a cooldown are ahead")
	_, err := w.Restamp(w.t.Context(), account, "")
	w.must(err)
}

func wireRestore(w *wire) {
	key := strings.Repeat("k", 49)
	for _, key := range []string{"", key} {
		w.know(key, day, wireMinute)
	}
	var granted quota.Receipt
	w.silently(func() { granted = w.spend(7, 1, wireList)[0].Receipt })
	w.now = w.now.Add(time.Minute)
	lost := quota.Entry{At: w.now.Add(-time.Second), ID: quota.ID{Client: 9, Seq: 1}, Method: "list", Units: 100, Calls: 1}
	heard := quota.WindowUse{Client: 9, Budget: "day", Coverage: day.Coverage, Since: w.now.Add(-time.Hour), At: lost.At, Used: 130}
	restore := func(key string, epoch uint64) {
		w.t.Helper()
		heard.Epoch = epoch
		done, err := w.Restore(w.t.Context(), &quota.Restoration{Account: account, Key: key, Lost: true,
			Entries: []quota.Entry{lost}, Heard: []quota.WindowUse{heard}, Lives: []quota.Life{{Client: 9, Seq: 1, Since: lost.At, Epoch: epoch}}})
		w.must(err)
		if done.Entries != 1 {
			w.t.Errorf("%+v; want one entry", done)
		}
	}
	w.step("a call, and a note for what others had spent, in a log of a long key")
	restore(key, 0)
	w.step("the same in the account's log, of which an older copy had taken the place, and which grows meanwhile, and of which a call is settled")
	w.meanwhile = func() {
		w.spend(7, 2, wireList)
		w.must(w.Settle(w.t.Context(), granted, 5))
	}
	restore("", granted.Epoch)
}

func wireCooldowns(w *wire) {
	w.know("", day)
	set := func(step string, c quota.Cooldown) {
		w.t.Helper()
		w.step(step)
		c.Account = account
		w.must(w.SetCooldown(w.t.Context(), c))
	}
	set("of a budget, for an hour", quota.Cooldown{Budget: "day", For: time.Hour, Reason: "quota exceeded"})
	set("of another, until a time", quota.Cooldown{Budget: "minute", Until: w.now.Add(time.Hour), Reason: "slow down"})
	set("of the account", quota.Cooldown{For: time.Minute, Reason: "stop"})
	moved := (&quota.Move{Ledger: "redis://new", ID: "17"}).Cooldown()
	set("of a move, which sets that aside", moved)
	w.step("lifted")
	w.must(w.ClearCooldown(w.t.Context(), account, "minute"))
	w.step("listed")
	_, err := w.Cooldowns(w.t.Context(), account)
	w.must(err)
}

func wireKeys(w *wire) {
	for _, key := range []string{"203.0.113.9", strings.Repeat("%", 49)} {
		w.know(key, day, wireMinute)
		w.step("a call of a key")
		call := quota.Request{Method: "list", Units: 1, Charges: []*quota.Charge{day, wireMinute}}
		_, err := w.Spend(w.t.Context(), &quota.Batch{Account: account, Key: key, Client: 7, Seq: 1, Requests: []quota.Request{call}})
		w.must(err)
	}
	w.step("the account's keys")
	for _, err := range w.Keys(w.t.Context(), account) {
		w.must(err)
	}
	w.step("all accounts")
	for _, err := range w.Accounts(w.t.Context()) {
		w.must(err)
	}
}

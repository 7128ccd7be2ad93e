package ledgertest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/quota"
)

func settleDown(w *world) {
	day := charge("day", 10, minute)
	first := w.spend(6, day)
	w.clock.Add(time.Second)
	w.spend(4, day)
	w.settle(first, 1)
	w.used(5, day)
	w.spend(5, day)
	w.clock.Add(58 * time.Second)
	w.refuse(2, "day", 2*time.Second, 0, day) // 1 at 1 s, 4 and 5 at 2 s
	w.refuse(1, "day", time.Second, 0, day)
}

func settleUp(w *world) {
	day := charge("day", 10, minute)
	r := w.spend(2, day)
	w.settle(r, 25)
	w.used(25, day)
	w.refuse(1, "day", time.Minute, 0, day)
	w.clock.Add(time.Minute)
	w.used(0, day)
	w.spend(10, day)
}

func settleToZeroAndAgain(w *world) {
	day := charge("day", 10, minute)
	first := w.spend(5, day)
	w.spend(5, day)
	for _, step := range []struct{ units, used quota.Units }{{0, 5}, {0, 5}, {3, 8}, {3, 8}, {5, 10}} {
		w.settle(first, step.units)
		w.used(step.used, day)
	}
	for _, units := range []quota.Units{-1, quota.MaxUnits + 1} {
		w.fails(w.Settle(w.ctx, first, units), quota.ErrBadCall, fmt.Sprintf("settle to %d", units))
	}
	w.used(10, day)
}

func settleAfterExpiry(w *world) {
	day := charge("day", 10, minute)
	old := w.spend(5, day)
	w.clock.Add(time.Minute)
	w.spend(3, day)
	w.settle(old, 9)
	w.used(3, day)
	w.clock.Add(72 * time.Hour) // long gone from the log as well
	w.spend(1, day)
	w.settle(old, 2)
	w.used(1, day)
	w.settle(quota.Receipt{Account: "nobody", ID: old.ID, At: old.At}, 3)
	stranger := old
	stranger.ID.Seq++
	w.settle(stranger, 4)
	w.used(1, day)
}

func settleFar(w *world) {
	day := charge("day", 10_000, minute)
	far, edge := w.spend(10, day), w.spend(10, day)
	for range quota.MaxSettle {
		w.spend(1, day)
	}
	const base = 20 + quota.MaxSettle
	w.settle(edge, 4)
	w.used(base-6, day)
	w.fails(w.Settle(w.ctx, far, 4), quota.ErrStays, "settle down far from the tail")
	w.fails(w.Refund(w.ctx, far), quota.ErrStays, "refund far from the tail")
	w.used(base-6, day)
	w.settle(far, 10)
	before := len(w.log())
	w.settle(far, 17)
	w.used(base+1, day)
	log := w.log()
	last := log[len(log)-1]
	want := last
	want.ID, want.Method = far.ID, "m"
	want.Units, want.Calls = 7, 0
	if len(log) != before+1 || last != want {
		w.Fatalf("after a settle up far from the tail the newest entry is %+v; want one of 7 units more, no call", last)
	}
}

func settleCountsEverywhere(w *world) {
	all := charge("all", 1000, minute)
	search := charge("search", 1000, minute, methods("search"))
	estimate := charge("estimate", 1000, quota.Counter(time.Minute))
	calls := charge("calls", 1000, minute, counted)
	r := w.grant(request("search", 100, all, search, calls, estimate))
	w.grant(request("list", 1, all, calls, estimate))
	w.settle(r, 40)
	w.used(41, all, estimate)
	w.used(40, search)
	w.used(2, calls)
	if log := w.log(); log[0].Units != 40 {
		w.Fatalf("the log says %d units; want what it was settled to, 40", log[0].Units)
	}
	w.clock.Add(30 * time.Second)
	later := charge("later", 1000, minute, methods("search", "x"))
	w.used(40, later)
}

func refund(w *world) {
	day, calls := charge("day", 10, minute), charge("calls", 1, minute, counted)
	r := w.spend(10, day, calls)
	for range 2 {
		w.refund(r)
		w.used(0, day, calls)
	}
	if log := w.log(); len(log) != 1 || log[0].Units != 0 || log[0].Calls != 0 {
		w.Fatalf("log %+v; want the entry with nothing left of it", log)
	}
	w.spend(10, day, calls)
}

// cooldownFar: no time overflows, and all times can be encoded as JSON.
func cooldownFar(w *world) {
	far := map[string]time.Time{
		"300-years": w.clock.Now().AddDate(300, 0, 0), "last-second": time.Unix(quota.MaxUnix, 0), "year-10000": time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		"year-300000": time.Date(300000, 1, 1, 0, 0, 0, 0, time.UTC), "beyond-microseconds": time.Unix(1<<55, 0),
	}
	cooldowns := []quota.Cooldown{{Account: account, Budget: "for-292-years", For: math.MaxInt64}}
	for budget, until := range far {
		cooldowns = append(cooldowns, quota.Cooldown{Account: account, Budget: budget, Until: until})
	}
	for _, c := range cooldowns {
		w.cool(c)
		answer := w.ask(&quota.Batch{Account: account, Requests: []quota.Request{request("m", 1, charge(c.Budget, 10, minute))}})[0]
		const years = 200 * 365 * 24 * time.Hour
		refused, ok := errors.AsType[*quota.RefusedError](answer.Err)
		isLong := ok && refused.RetryAfter >= years && refused.RetryAt.Sub(w.clock.Now()) >= years
		if !isLong || refused.RetryAt.Unix() > quota.MaxUnix {
			w.Errorf("%s: %v, after %d at %s; want it refused for long", c.Budget, answer.Err, refused.RetryAfter, refused.RetryAt)
		}
	}
}

func cooldown(w *world) {
	day, search := charge("day", 10, minute), charge("search", 10, minute, methods("search"))
	w.spend(9, day)
	until := w.clock.Now().Add(time.Hour)
	w.cool(quota.Cooldown{Account: account, Budget: "search", Until: until, Reason: "quotaExceeded"})
	w.spend(1, day) // another budget's calls go on
	refused := w.refused(w.batch(request("search", 1, day, search))[0], "search", time.Hour, 10)
	if refused.Reason != quota.ReasonCooldown || refused.Detail != "quotaExceeded" {
		w.Fatalf("refused for %q, %q; want the cooldown and its reason", refused.Reason, refused.Detail)
	}
	w.cool(quota.Cooldown{Account: account, Until: until.Add(time.Hour), Reason: "all of it"})
	w.refused(w.batch(request("list", 1))[0], "", 2*time.Hour, 0)
	w.warm("")
	w.clock.Add(time.Hour - µs)
	w.refused(w.batch(request("search", 1, search))[0], "search", µs, 10)
	w.clock.Add(µs)
	w.grant(request("search", 1, search))
}

func cooldownNeverShortened(w *world) {
	day := charge("day", 10, minute)
	begin := w.clock.Now()
	for _, hours := range []time.Duration{2, 1, 3, 2} {
		reason := fmt.Sprint(int(hours))
		w.cool(quota.Cooldown{Account: account, Budget: "day", Until: begin.Add(hours * time.Hour), Reason: reason})
	}
	c := w.standings(day)[0].Cooldown
	isLongest := c != nil && c.Until.Equal(begin.Add(3*time.Hour)) && c.Reason == "3"
	if !isLongest || c.Account != account || c.Budget != "day" {
		w.Fatalf("standing shows cooldown %+v; want the one of 3 hours", c)
	}
	w.warm("day")
	w.spend(1, day)
}

func cooldownLongReason(w *world) {
	day := charge("day", 10, minute)
	for budget, word := range map[string]string{"day": "é", "": "日", "other": "x"} { // of 2, 3 and 1 bytes
		reason := strings.Repeat(word, 300)
		c := quota.Cooldown{Account: account, Budget: budget, Until: noon.Add(time.Hour), Reason: reason}
		w.cool(c)
		want := reason[:quota.MaxReason/len(word)*len(word)]
		if got := w.standings(charge(budget, 10, minute))[0].Cooldown; got == nil || got.Reason != want {
			w.Fatalf("of 300 times %q is kept %+v; want the first %d bytes", word, got, len(want))
		}
		if refused, _ := errors.AsType[*quota.RefusedError](w.batch(request("m", 1, day))[0].Err); budget != "other" && (refused == nil || refused.Detail != want) {
			w.Fatalf("refused: %+v; want the first %d bytes of the reason", refused, len(want))
		}
		w.warm(budget)
	}
}

// cooldownHoldsKeys: a cooldown of an account applies to all its keys.
func cooldownHoldsKeys(w *world) {
	day := charge("day", 10, minute)
	keyed := func(key string) quota.Answer {
		return w.ask(&quota.Batch{Account: account, Key: key, Requests: []quota.Request{request("m", 1, day)}})[0]
	}
	if err := keyed("known").Err; err != nil {
		w.Fatal(err)
	}
	for _, budget := range []string{"", "day"} {
		w.cool(quota.Cooldown{Account: account, Budget: budget, Until: w.clock.Now().Add(time.Hour), Reason: "stop"})
		for key, remaining := range map[string]quota.Units{"known": 9, "new": 10, "": 10} {
			if budget == "" {
				remaining = 0 // of no budget
			}
			if refused := w.refused(keyed(key), budget, time.Hour, remaining); refused.Detail != "stop" || refused.Key != key {
				w.Fatalf("key %q: %+v; want the account's cooldown", key, refused)
			}
			if s := w.standingsOf(key, day)[0]; s.Cooldown == nil || s.Cooldown.Reason != "stop" {
				w.Fatalf("key %q: %+v; want the account's cooldown", key, s)
			}
		}
		w.warm(budget)
		for _, key := range []string{"known", "new", ""} {
			if err := keyed(key).Err; err != nil {
				w.Fatalf("key %q after the cooldown was lifted: %v", key, err)
			}
		}
		w.clock.Add(2 * time.Minute)
		if err := keyed("known").Err; err != nil {
			w.Fatal(err)
		}
	}
}

func entries(w *world) {
	const n = 1203 // more than two pages
	var want []quota.Entry
	for i := range n {
		r := request(fmt.Sprint("m", i%7), 1+quota.Units(i)%9)
		r.Caller = quota.Caller{Lane: "cron", Job: fmt.Sprint("job", i%3), Region: "US"}
		receipt := w.grant(r)
		want = append(want, quota.Entry{At: receipt.At, ID: receipt.ID, Method: r.Method, Caller: r.Caller, Units: r.Units, Calls: 1})
		w.clock.Add(time.Millisecond)
	}
	check := func(query quota.Query, want []quota.Entry) {
		w.Helper()
		query.Account = account
		if got := collect(w, w.Entries(w.ctx, query)); !slices.Equal(got, want) { // a diff of thousands takes a second
			w.Fatalf("%+v: (-want +got)\n%s", query, cmp.Diff(want, got))
		}
	}
	check(quota.Query{}, want)
	check(quota.Query{Since: want[100].At, Until: want[900].At}, want[100:900])
	check(quota.Query{Since: want[n-1].At.Add(µs)}, nil)
	for range w.Entries(w.ctx, quota.Query{Account: account}) {
		break // a reader may stop
	}
	for range w.Entries(w.ctx, quota.Query{Account: "nobody"}) {
		w.Fatal("an account that never spent has entries")
	}
}

// entriesBetween: Since and Until are exact to the nanosecond.
func entriesBetween(w *world) {
	first := w.spend(1).At
	w.clock.Add(µs)
	w.spend(1)
	for _, q := range []struct {
		since, until time.Duration // from the first; 0 until is none
		want         int
	}{{0, 0, 2}, {1, 0, 1}, {µs, 0, 1}, {µs + 1, 0, 0}, {-1, 1, 1}, {0, µs, 1}, {0, µs + 1, 2}, {1, µs, 0}, {-µs - 1, -1, 0}} {
		query := quota.Query{Account: account, Since: first.Add(q.since)}
		if q.until != 0 {
			query.Until = first.Add(q.until)
		}
		if n := len(collect(w, w.Entries(w.ctx, query))); n != q.want {
			w.Errorf("from %s to %s after the first entry: %d entries; want %d", q.since, q.until, n, q.want)
		}
	}
}

func standings(w *world) {
	pacific := zone(w, "America/Los_Angeles")
	sliding := charge("sliding", 10, minute)
	daily := charge("daily", 10, quota.Daily(pacific))
	estimate := charge("estimate", 10, quota.Counter(time.Minute))
	charges := []*quota.Charge{sliding, daily, estimate}
	for i, s := range w.standings(charges...) {
		isEmpty := s.Used == 0 && s.NextFree.IsZero() && s.Cooldown == nil
		if !isEmpty || !s.At.Equal(noon) {
			w.Fatalf("%s of an empty ledger: %+v", charges[i].Budget, s)
		}
	}
	w.spend(3, sliding)
	w.clock.Add(10 * time.Second)
	w.spend(4, sliding)
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, pacific)
	s := w.standings(charges...)
	for i, want := range []quota.Standing{
		{At: noon.Add(10 * time.Second), Since: noon.Add(-50*time.Second + µs), Used: 7, NextFree: noon.Add(time.Minute)},
		{At: noon.Add(10 * time.Second), Since: midnight.AddDate(0, 0, -1).Add(-quota.DefaultMargin).UTC(), Used: 7, NextFree: midnight.Add(quota.DefaultMargin).UTC()},
		{At: noon.Add(10 * time.Second), Used: 7, NextFree: s[2].NextFree},
	} {
		if s[i] != want {
			w.Errorf("%s: %+v; want %+v", charges[i].Budget, s[i], want)
		}
	}
	if free := s[2].NextFree; !free.After(noon.Add(time.Minute)) || free.After(noon.Add(2*time.Minute)) {
		w.Errorf("the estimate falls next at %s; want within the next period", free)
	}
}

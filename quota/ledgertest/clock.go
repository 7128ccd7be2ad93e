package ledgertest

import (
	"errors"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// stampFarAhead: answers report a wrong clock that freezes a budget.
func stampFarAhead(w *world) {
	pacific := zone(w, "America/Los_Angeles")
	day, calendar := charge("day", 10, quota.Sliding(24*time.Hour)), charge("calendar", 100, quota.Daily(pacific))
	each := charge("each", 20, quota.Counter(time.Minute), methods("m"))
	w.clock.Add(87_596 * time.Hour)
	w.spend(4, day, calendar, each)
	w.clock.Set(noon.Add(time.Hour))
	w.spend(2, day, calendar, each)
	answer := w.batch(request("m", 5, day, calendar))[0]
	refused, ok := errors.AsType[*quota.RefusedError](answer.Err)
	isWithinDay := ok && refused.RetryAfter > 0 && refused.RetryAfter <= 24*time.Hour
	if !isWithinDay || refused.Ahead < 87_594*time.Hour {
		w.Fatalf("%v, %+v; want a refusal of at most a day that says how far ahead the newest entry is", answer.Err, refused)
	}
	full := charge("calendar", 8, quota.Daily(pacific))
	refused, ok = errors.AsType[*quota.RefusedError](w.batch(request("m", 5, full))[0].Err)
	if !ok || refused.RetryAfter > full.Window.Horizon() || refused.Ahead == 0 {
		w.Fatalf("%+v; want a refusal of at most a day", refused)
	}
	if s := w.standings(day, each)[0]; s.Ahead < 87_594*time.Hour || s.NextFree.After(w.clock.Now().Add(24*time.Hour)) {
		w.Fatalf("standing %+v; want to be told", s)
	}
	w.restamp(2)
	w.restamp(0)
	w.used(6, day, calendar, each)
	if log := w.log(); len(log) != 2 || !slices.IsSortedFunc(log, func(a, b quota.Entry) int { return a.At.Compare(b.At) }) || log[1].At.After(w.clock.Now()) {
		w.Fatalf("log %+v; want the same entries in their order, none ahead of now", log)
	}
	if s := w.standings(day)[0]; s.Ahead != 0 {
		w.Fatalf("standing %+v; want none ahead", s)
	}
	w.refuse(5, "day", 24*time.Hour-µs, 4, day)
	w.clock.Add(time.Second)
	if r := w.spend(1, charge("unlimited", 1000, minute)); !r.At.Equal(w.clock.Now()) {
		w.Fatalf("stamped %s after the repair; want %s", r.At, w.clock.Now())
	}
	w.refuse(4, "day", 24*time.Hour-time.Second-µs, 3, day)
	w.clock.Add(-time.Second)
	w.clock.Add(2 * time.Minute)
	w.used(0, each)
	w.clock.Add(-2 * time.Minute)
	w.clock.Add(24*time.Hour - µs)
	w.spend(5, day)
}

// restampedAfterAnEntryOfNow: entries that were stamped ahead follow the one
// that is stamped now.
func restampedAfterAnEntryOfNow(w *world) {
	day := charge("day", 10, quota.Sliding(24*time.Hour))
	for i, step := range []time.Duration{0, -µs, µs} {
		now := noon.Add(time.Duration(i) * 48 * time.Hour)
		w.clock.Set(now.Add(step))
		w.spend(4, day)
		w.clock.Set(now.Add(20 * time.Hour))
		w.spend(2, day)
		w.spend(1, day)
		w.clock.Set(now)
		if _, err := w.Restamp(w.ctx, account, ""); err != nil {
			w.Fatal(err)
		}
		w.used(7, day)
		log := w.log()
		last := log[len(log)-3:]
		isOrdered := last[0].At.Before(last[1].At) && last[1].At.Before(last[2].At)
		isSame := last[0].Units == 4 && last[2].Units == 1
		if !isOrdered || !isSame || last[2].At.After(now.Add(3*µs)) {
			w.Fatalf("log %+v; want the entries in their order, and stamped now", last)
		}
		w.spend(1, day)
	}
}

// restampedAfterEntriesWereDropped: while the clock was ahead, the ledger
// dropped entries that a window counts or subtracts. What it has dropped is
// not used.
func restampedAfterEntriesWereDropped(w *world) {
	all, some := charge("all", 200, quota.Sliding(24*time.Hour)), charge("some", 200, quota.Sliding(24*time.Hour), methods("m"))
	for range 20 {
		w.spend(100, all, some)
		w.clock.Add(20 * time.Hour)
	}
	now := w.clock.Now()
	w.clock.Add(1000 * time.Hour)
	w.spend(1, all, some)
	w.clock.Set(now)
	w.restamp(1)
	if s := w.standings(all, some); s[0].Used > 101 || s[1].Used > 101 {
		w.Fatalf("standings %+v; want at most the 101 units of the last day", s)
	}
	w.spend(99, all, some)
}

// counterFarAhead: the same for a log that keeps no entries.
func counterFarAhead(w *world) {
	each := charge("each", 10, quota.Counter(time.Minute))
	w.clock.Add(1000 * time.Hour)
	w.spend(10, each)
	w.clock.Set(noon)
	refused, ok := errors.AsType[*quota.RefusedError](w.batch(request("m", 1, each))[0].Err)
	if !ok || refused.RetryAfter > 2*time.Minute || refused.Ahead == 0 {
		w.Fatalf("%+v; want a refusal of at most two periods that says what is wrong", refused)
	}
	w.restamp(1)
	w.clock.Add(2 * time.Minute)
	w.spend(10, each)
}

// cooldownFarAhead: Restamp shortens a cooldown of a minute that a wrong
// clock set for years. A cooldown until a time stays, because an operator set
// that time.
func cooldownFarAhead(w *world) {
	day := charge("day", 10, minute)
	week := charge("week", 10, minute)
	named := charge("named", 10, minute)
	w.clock.Add(87_596 * time.Hour)
	w.spend(1, day)
	for _, budget := range []string{"day", "week"} {
		w.cool(quota.Cooldown{Account: account, Budget: budget, For: time.Minute, Reason: "slow"})
	}
	w.cool(quota.Cooldown{Account: account, For: time.Second})
	until := w.clock.Now()
	w.cool(quota.Cooldown{Account: account, Budget: "named", For: time.Second})
	w.cool(quota.Cooldown{Account: account, Budget: "named", Until: until.Add(time.Hour)})
	w.clock.Set(noon)
	w.cool(quota.Cooldown{Account: account, Budget: "later", For: time.Minute})
	w.clock.Add(time.Second)
	if _, err := w.Restamp(w.ctx, account, "key"); err != nil {
		w.Fatal(err)
	}
	refused := w.refused(w.batch(request("m", 1, week))[0], "week", time.Minute, 9)
	if refused.Ahead < 87_595*time.Hour {
		w.Fatalf("%+v; want a refusal that says how far ahead the newest entry is", refused)
	}
	w.restamp(1)
	w.refuse(1, "day", time.Minute, 9, day)
	w.refuse(1, "later", 59*time.Second, 9, charge("later", 10, minute))
	answers := w.ask(&quota.Batch{Account: account, Key: "key", Requests: []quota.Request{request("m", 1, week)}})
	if refused := w.refused(answers[0], "week", time.Minute, 10); refused.Detail != "slow" {
		w.Fatalf("%+v; want the reason kept", refused)
	}
	w.clock.Add(time.Second)
	w.restamp(0)
	w.clock.Add(time.Minute - time.Second)
	w.spend(1, day, week)
	w.refuse(1, "named", until.Add(time.Hour).Sub(w.clock.Now()), 9, named)
}

// cooldownFarAheadOfAnEmptyLog: a cooldown that a wrong clock set for a
// minute never holds up a call for longer, even where no entry shows that it
// was wrong.
func cooldownFarAheadOfAnEmptyLog(w *world) {
	day := charge("day", 10, minute)
	w.clock.Add(87_596 * time.Hour)
	w.cool(quota.Cooldown{Account: account, For: time.Minute, Reason: "slow"})
	w.clock.Set(noon)
	w.refuse(1, "", time.Minute, 0, day)
	if s := w.standings(day)[0]; s.Cooldown == nil || !s.Cooldown.Until.Equal(noon.Add(time.Minute)) {
		w.Fatalf("%+v; want a cooldown of a minute", s)
	}
	w.restamp(0)
	w.clock.Add(time.Minute)
	w.spend(1, day)
}

// cooldownAfterOneFarAhead: a cooldown of an hour is in force after Restamp,
// even if a wrong clock had set one of a minute that seemed to end later.
func cooldownAfterOneFarAhead(w *world) {
	hour := noon.Add(time.Hour)
	w.clock.Add(87_596 * time.Hour)
	for _, budget := range []string{"for", "until", "shorter"} {
		w.cool(quota.Cooldown{Account: account, Budget: budget, For: time.Minute})
	}
	w.clock.Set(noon)
	w.cool(quota.Cooldown{Account: account, Budget: "for", For: time.Hour})
	w.cool(quota.Cooldown{Account: account, Budget: "until", Until: hour})
	w.cool(quota.Cooldown{Account: account, Budget: "shorter", For: time.Second})
	w.restamp(0)
	w.refuse(1, "for", time.Hour, 10, charge("for", 10, minute))
	w.refuse(1, "until", time.Hour, 10, charge("until", 10, minute))
	w.refuse(1, "shorter", time.Minute, 10, charge("shorter", 10, minute))
}

// retryAtAfterAStepBack: within MaxStepBack, RetryAt is exact even if it
// is later than now plus the window. With a bound, the call would be
// refused again.
func retryAtAfterAStepBack(w *world) {
	hourly := charge("hourly", 10, quota.Sliding(time.Hour))
	w.spend(10, hourly)
	w.clock.Add(-quota.MaxStepBack)
	w.refuse(1, "hourly", time.Hour+quota.MaxStepBack, 0, hourly)
	w.clock.Add(time.Hour + quota.MaxStepBack - µs)
	w.refuse(1, "hourly", µs, 0, hourly)
	w.clock.Add(µs)
	w.spend(10, hourly)
}

func (w *world) cool(c quota.Cooldown) {
	w.Helper()
	if err := w.SetCooldown(w.ctx, c); err != nil {
		w.Fatal(err)
	}
}

func (w *world) restamp(want int) {
	w.Helper()
	if n, err := w.Restamp(w.ctx, account, ""); err != nil || n != want {
		w.Fatalf("restamped %d entries, %v; want %d", n, err, want)
	}
}

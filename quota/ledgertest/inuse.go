package ledgertest

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// windowAskedAnew: a window that is charged all the time stays in use, even if
// each batch has its own equal window, like those of several guards.
func windowAskedAnew(w *world) {
	hours := func() *quota.Charge { return charge("hours", 5, quota.Sliding(5*time.Hour), methods("m")) }
	for i := range 60 {
		w.spend(1, hours())
		w.used(min(5, quota.Units(i+1)), hours())
		w.refuse(1, "hours", 5*time.Hour-61*time.Minute*min(4, time.Duration(i)), 0, charge("hours", min(5, quota.Units(i+1)), quota.Sliding(5*time.Hour), methods("m")))
		w.clock.Add(61 * time.Minute)
	}
}

// forgottenBudgetAskedAgain: a budget that was out of use for days counts the
// calls of its window.
func forgottenBudgetAskedAgain(w *world) {
	hour := quota.Sliding(time.Hour)
	day := charge("day", 1000, hour, methods("m"))
	search := charge("search", 5, hour, methods("m", "search"))
	later := charge("later", 1000, hour, methods("m", "list"))
	w.spend(1, day, search)
	w.clock.Add(72 * time.Hour)
	for range 5 {
		w.spend(1, day, later)
		w.clock.Add(time.Second)
	}
	w.refuse(1, "search", time.Hour-5*time.Second, 0, search)
}

// windowBesideACounter: a window over all calls is asked again after days in
// which a counter alone was. It counts from then on.
func windowBesideACounter(w *world) {
	day, each := charge("day", 10, quota.Sliding(24*time.Hour)), charge("each", 1000, quota.Counter(time.Minute))
	w.spend(1, day, each)
	for range 10 * 24 * 3 {
		w.clock.Add(20 * time.Minute)
		w.spend(1, each)
	}
	before := w.standings(day)[0].Used // entries of the last hour may be kept
	for range 10 - before {
		w.clock.Add(time.Second)
		w.spend(1, day, each)
	}
	w.used(10, day)
}

// counterRestampedWithEntries: a counter keeps what it counted before the log
// kept entries.
func counterRestampedWithEntries(w *world) {
	each, day := charge("each", 20, quota.Counter(time.Minute)), charge("day", 100, quota.Sliding(24*time.Hour))
	w.clock.Add(1000 * time.Hour)
	w.spend(10, each)
	w.spend(1, each, day)
	w.clock.Set(noon)
	if _, err := w.Restamp(w.ctx, account, ""); err != nil {
		w.Fatal(err)
	}
	w.used(11, each)
	w.used(1, day)
}

// counterRestampedAfterAPeriod: Restamp counts the previous period too, which
// the counter lost when the clock went ahead.
func counterRestampedAfterAPeriod(w *world) {
	each, day := charge("each", 20, quota.Counter(time.Minute)), charge("day", 100, quota.Sliding(24*time.Hour))
	w.clock.Set(noon.Add(-30 * time.Second))
	w.spend(10, each, day)
	w.clock.Add(20 * time.Hour)
	w.spend(4, each, day)
	w.clock.Set(noon)
	w.restamp(1)
	w.used(14, each, day)
	w.clock.Add(30 * time.Second)
	w.used(9, each)
}

// windowAskedFarAhead: a window that was asked while the clock was ahead goes
// out of use after Restamp, and the log keeps no entries for it.
func windowAskedFarAhead(w *world) {
	if testing.Short() {
		w.Skip("makes 2,900 calls one after the other, a second")
	}
	hour := charge("hour", 1000, quota.Sliding(time.Hour))
	for i, window := range []quota.Window{quota.Sliding(7 * 24 * time.Hour), quota.Counter(7 * 24 * time.Hour)} {
		week := charge("week", 1000, window, methods("rare"))
		now := w.clock.Now()
		w.clock.Add(87_596 * time.Hour)
		w.grant(request("rare", 1, hour, week))
		w.clock.Set(now)
		w.restamp(1)
		for range 60 * 24 {
			w.clock.Add(time.Hour)
			w.spend(1, hour)
		}
		if n := len(w.log()); n > 2 {
			w.Fatalf("window %d: the log keeps %d entries; want those of the last hour", i, n)
		}
	}
}

// windowOfOneCharge: a window that only one charge asks stays in use, and its
// entries stay in the log, for as long as calls are charged to it.
func windowOfOneCharge(w *world) {
	hours := charge("hours", 5, quota.Sliding(5*time.Hour), methods("m"))
	for i := range 100 {
		w.spend(1, hours)
		w.used(min(5, quota.Units(i+1)), hours)
		w.clock.Add(61 * time.Minute)
	}
}

// counterSettlesBeyondTheWindow: a counter is settled after the exact windows
// beside it have let the call go.
func counterSettlesBeyondTheWindow(w *world) {
	short := charge("short", 100, minute)
	each := charge("each", 100, quota.Counter(time.Hour))
	calls := charge("calls", 10, quota.Counter(time.Hour), counted)
	settled, refunded := w.spend(40, short, each, calls), w.spend(20, short, each, calls)
	w.clock.Add(30 * time.Minute)
	w.spend(1, short, each, calls)
	w.used(61, each)
	w.settle(settled, 10)
	w.used(31, each)
	w.refund(refunded)
	w.used(11, each)
	w.used(2, calls)
	w.used(1, short)
}

// longerWindowAfterAnIdleTime: a longer window is asked of a coverage whose
// entries have left the log. What they counted stays gone.
func longerWindowAfterAnIdleTime(w *world) {
	short, other := charge("short", 10, minute, methods("m")), charge("other", 10, minute)
	w.spend(3, short, other)
	for range 4 {
		w.clock.Add(5 * time.Minute)
		w.grant(request("other", 1, other))
	}
	w.clock.Add(time.Second)
	long := charge("long", 10, quota.Sliding(time.Hour), methods("m"))
	w.spend(1, short, long)
	w.used(1, short, long)
	w.spend(9, short, long)
	w.refuse(1, "long", time.Hour, 0, short, long)
}

package ledgertest

import (
	"time"

	"github.com/ration-dev/ration/quota"
)

// grantSaysWhatIsLeft: a grant reports what its windows hold.
func grantSaysWhatIsLeft(w *world) {
	pacific := zone(w, "America/Los_Angeles")
	day, search := charge("day", 100, quota.Sliding(24*time.Hour)), charge("search", 50, minute, methods("search"))
	calendar, each := charge("calendar", 100, quota.Daily(pacific)), charge("each", 100, quota.Counter(time.Minute))
	calls := charge("calls", 9, minute, counted)
	all := []*quota.Charge{day, search, calendar, each, calls}
	midnight := time.Date(2026, 11, 21, 8, 0, 30, 0, time.UTC)
	first := w.batch(request("search", 10, all...))[0]
	w.held(first, quota.Held{Used: 10, FreesIn: noon.Add(24 * time.Hour).Sub(w.clock.Now())}, quota.Held{Used: 10, FreesIn: noon.Add(time.Minute).Sub(w.clock.Now())},
		quota.Held{Used: 10, FreesIn: midnight.Sub(noon)}, quota.Held{Used: 10, FreesIn: noon.Add(time.Minute + 6*time.Second).Sub(w.clock.Now())},
		quota.Held{Used: 1, FreesIn: noon.Add(time.Minute).Sub(w.clock.Now())})
	w.clock.Add(time.Second)
	batch := w.batch(request("list", 5, day, calls), request("search", 100, search, day), request("list", 5, day, calls), request("list", 5, day, calls))
	w.held(batch[0], quota.Held{Used: 15, FreesIn: noon.Add(24 * time.Hour).Sub(w.clock.Now())}, quota.Held{Used: 2, FreesIn: noon.Add(time.Minute).Sub(w.clock.Now())})
	w.held(batch[2], quota.Held{Used: 20, FreesIn: noon.Add(24 * time.Hour).Sub(w.clock.Now())}, quota.Held{Used: 3, FreesIn: noon.Add(time.Minute).Sub(w.clock.Now())})
	w.held(batch[3], quota.Held{Used: 25, FreesIn: noon.Add(24 * time.Hour).Sub(w.clock.Now())}, quota.Held{Used: 4, FreesIn: noon.Add(time.Minute).Sub(w.clock.Now())})
	floored := floors{"IN": 30}.from("US", 5, day)
	w.held(w.batch(floored)[0], quota.Held{Used: 30, Kept: 30, FreesIn: noon.Add(24 * time.Hour).Sub(w.clock.Now())})
	w.held(w.batch(forced(request("list", 90, day)))[0], quota.Held{Used: 120, FreesIn: noon.Add(24 * time.Hour).Sub(w.clock.Now())})
	w.held(w.batch(request("list", 5))[0])
	w.clock.Add(time.Hour) // the minute is empty, so this call returns first
	w.held(w.batch(request("search", 7, search))[0], quota.Held{Used: 7, FreesIn: time.Minute})
}

func (w *world) held(answer quota.Answer, want ...quota.Held) {
	w.Helper()
	if answer.Err != nil || len(answer.Held) != len(want) {
		w.Fatalf("%+v; want a grant that says what %d windows hold", answer, len(want))
	}
	for i, held := range answer.Held {
		if held.Used != want[i].Used || held.Kept != want[i].Kept || answer.Receipt.At.Add(held.FreesIn) != w.clock.Now().Add(want[i].FreesIn) {
			w.Errorf("window %d holds %d, keeps %d, frees in %s; want %d, %d, %s", i, held.Used, held.Kept, held.FreesIn,
				want[i].Used, want[i].Kept, want[i].FreesIn)
		}
	}
}

// nextFreeAroundMidnight: what is spent within the margin also counts the
// next day.
func nextFreeAroundMidnight(w *world) {
	calendar := charge("calendar", 100, quota.Daily(time.UTC))
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	w.clock.Set(midnight.Add(-10 * time.Second))
	w.held(w.batch(request("m", 4, calendar))[0], quota.Held{Used: 4, FreesIn: 24*time.Hour + 40*time.Second})
	if s := w.standings(calendar)[0]; !s.NextFree.Equal(midnight.Add(24*time.Hour + 30*time.Second)) {
		w.Fatalf("standing %+v; want the return of the day after", s)
	}
}

// noteOfManyCalls: one entry may count many units and calls.
func noteOfManyCalls(w *world) {
	day, calls := charge("day", 1000, minute), charge("calls", 300, minute, counted)
	search := charge("search", 300, minute, counted, methods("search"))
	w.grant(entered(request("search", 40, day, calls), quota.EntryNote, 200))
	w.used(40, day)
	w.used(200, calls, search)
	w.refuse(961, "day", time.Minute, 960, day)
	w.grant(request("search", 1, search))
	w.used(201, calls, search)
	w.clock.Add(time.Second)
	w.grant(entered(request("list", 0, calls), quota.EntryCorrection, quota.MaxUnits))
	w.used(201+quota.MaxUnits, calls)
	w.used(41, day)
	counts := func(e quota.Entry, units, calls quota.Units) bool { return e.Units == units && e.Calls == calls }
	if log := w.log(); len(log) != 3 || !counts(log[0], 40, 200) || !counts(log[2], 0, quota.MaxUnits) {
		w.Fatalf("log %+v; want three entries that say what they count", log)
	}
	each := charge("each", 300, quota.Counter(time.Minute), counted)
	w.ask(&quota.Batch{Account: account, Key: "k", Requests: []quota.Request{entered(request("m", 0, each), quota.EntryNote, 7)}})
	if s := w.standingsOf("k", each)[0]; s.Used != 7 {
		w.Fatalf("standing %+v; want 7 calls", s)
	}
}

// entryKindIsStored: the kind of an entry does not depend on names that
// callers choose.
func entryKindIsStored(w *world) {
	day := charge("day", 1000, quota.Sliding(time.Hour))
	enter := func(kind quota.EntryKind, units quota.Units) {
		r := entered(request("m", units, day), kind, 0)
		r.Caller.Job = "reconcile"
		w.grant(r)
	}
	enter(quota.EntryCall, 1)
	enter(quota.EntryNote, 0)
	enter(quota.EntryCorrection, 3)
	w.refund(w.spend(4, day))
	settled := w.spend(5, day)
	w.settle(settled, 0)
	far := w.spend(6, day)
	for range quota.MaxSettle + 1 {
		w.spend(1, day)
	}
	w.settle(far, 16)
	log := w.log()
	kinds := []quota.EntryKind{log[0].Kind, log[1].Kind, log[2].Kind, log[3].Kind, log[4].Kind, log[5].Kind, log[len(log)-1].Kind}
	want := []quota.EntryKind{quota.EntryCall, quota.EntryNote, quota.EntryCorrection, quota.EntryRefunded, quota.EntryCall, quota.EntryCall, quota.EntryAddition}
	for i := range want {
		if kinds[i] != want[i] {
			w.Fatalf("kinds %v; want %v", kinds, want)
		}
	}
}

// cooldownIsADuration: the host's clock does not affect Cooldown.For.
func cooldownIsADuration(w *world) {
	day := charge("day", 10, minute)
	w.cool(quota.Cooldown{Account: account, Budget: "day", For: 90 * time.Second, Until: noon.Add(-time.Hour), Reason: "wait"})
	w.refuse(1, "day", 90*time.Second, 10, day)
	w.cool(quota.Cooldown{Account: account, Budget: "day", For: time.Nanosecond, Reason: "shorter"})
	w.refuse(1, "day", 90*time.Second, 10, day)
	w.clock.Add(90*time.Second - µs)
	w.refuse(1, "day", µs, 10, day)
	w.clock.Add(µs)
	w.spend(1, day)
	w.cool(quota.Cooldown{Account: account, For: time.Nanosecond})
	if answer := w.batch(request("m", 1, day))[0]; answer.Err == nil {
		w.Fatal("granted; want even a nanosecond's cooldown to hold for a microsecond")
	}
}

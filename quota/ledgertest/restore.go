package ledgertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// restorations returns the subtests about logs that have forgotten.
func restorations() []subtest {
	return []subtest{
		{"ForgottenLifeIsNoticed", forgottenLife},
		{"ForgottenTailIsNoticed", forgottenTail},
		{"RefusalNamesTheLog", refusalNamesTheLog},
		{"RefusalNamesARestoredEntry", refusalNamesARestoredEntry},
		{"RestoredWithItsOwnTimes", restoredWithItsOwnTimes},
		{"RestoredTwiceCountsOnce", restoredTwice},
		{"RestoredBetweenOtherEntries", restoredBetween},
		{"RestoredUnitsAreRaisedNeverLowered", restoredUnitsAreRaised},
		{"RestoredEntryIsSettled", restoredEntryIsSettled},
		{"RestoredEntriesOfOneID", restoredEntriesOfOneID},
		{"RestoredKeyIsListed", restoredKeyIsListed},
		{"RestoredAheadIsStampedNow", restoredAhead},
		{"RestoredBeyondRetentionIsIgnored", restoredBeyondRetention},
		{"RestoredByOneHostHoldsForAll", restoredByOneHost},
		{"RestorationDropsTheRestOfATrimmedLog", restoredIntoTrimmedLog},
		{"RestoredHostKnowsOnlyAnEntryOfAnother", restoredKnowsItsOwn},
		{"RestoredNarrowBudgetsAreNotCountedTwice", restoredNarrowBudgets},
		{"RestoredCallsAreCounted", restoredCalls},
		{"RestoredBesideACounter", restoredBesideACounter},
		{"RestoredAfterTwoLosses", restoredAfterTwoLosses},
		{"RestoredFromANote", restoredFromANote},
		{"RestoredAllowanceOfAnAbsentHost", restoredAllowance},
		{"RestoredIntoAnOlderCopy", restoredIntoAnOlderCopy},
		{"RestoredIntoAUsedCopy", restoredIntoAUsedCopy},
		{"RestoredByTheLatestStatement", restoredLatestStatement},
		{"AcceptedLossIsNotRestored", acceptedLoss},
		{"AcceptedLossRemovesNotes", acceptedNotes},
		{"MalformedRestorationChangesNothing", malformedRestoration},
	}
}

// host is a client of the ledger that knows what it was granted.
type host struct {
	*world
	client  uint64
	entries []quota.Entry
	heard   map[string]quota.WindowUse // by budget
}

func newHost(w *world) *host {
	return &host{world: w, client: quota.NewClient(), heard: map[string]quota.WindowUse{}}
}

// call spends units of a method in the account "old", as the host remembers it.
func (h *host) call(method string, units quota.Units, charges ...*quota.Charge) quota.Receipt {
	h.Helper()
	answer := h.granted(&quota.Batch{Account: "old", Requests: []quota.Request{request(method, units, charges...)}})[0]
	receipt := answer.Receipt
	h.entries = append(h.entries, quota.Entry{At: receipt.At, ID: receipt.ID, Method: method, Units: units, Calls: 1})
	for i, charge := range charges {
		h.heard[charge.Budget] = quota.WindowUse{Client: h.client, Budget: charge.Budget, Coverage: charge.Coverage,
			Since: receipt.At.Add(time.Microsecond - charge.Window.Length()), At: receipt.At, Used: answer.Held[i].Used}
	}
	return receipt
}

// restore restores what the host knows into the log of account.
func (h *host) restore() quota.RestoreResult {
	h.Helper()
	return h.restored(&quota.Restoration{Account: account, History: 48 * time.Hour, Entries: h.entries, Heard: slices.Collect(maps.Values(h.heard))})
}

func (w *world) restored(r *quota.Restoration) quota.RestoreResult {
	w.Helper()
	done, err := w.Restore(w.ctx, r)
	if err != nil {
		w.Fatalf("restore: %v", err)
	}
	return done
}

// restoredWithItsOwnTimes: after a restoration, units return when they would
// have without the loss.
func restoredWithItsOwnTimes(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	h := newHost(w)
	h.call("a", 30, day)
	w.clock.Add(time.Hour)
	h.call("b", 40, day)
	w.clock.Add(time.Hour)
	done := h.restore()
	if done.Entries != 2 || done.Units != 70 || done.Noted != 0 {
		w.Fatalf("%+v; want both entries and no note", done)
	}
	w.used(70, day)
	w.refuse(40, "day", 22*time.Hour, 30, day)
	w.refuse(61, "day", 23*time.Hour, 30, day)
	w.spend(30, day)
	log := w.log()
	if len(log) != 3 || log[0] != h.entries[0] || log[1] != h.entries[1] {
		w.Fatalf("%+v; want %+v first", log, h.entries)
	}
	w.clock.Add(22*time.Hour + time.Microsecond)
	w.used(70, day)
}

// restoredTwice: a restoration that is repeated changes nothing, and what it
// returns lets the client go on.
func restoredTwice(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	h, dead := newHost(w), newHost(w)
	dead.call("m", 10, day)
	h.call("m", 20, day)
	first := h.restore()
	log := w.log()
	second := h.restore()
	changed := second.Entries != 0 || second.Units != 0 || !slices.Equal(w.log(), log)
	if changed || first.Noted != 10 {
		w.Fatalf("%+v, %+v; want the same log", first, second)
	}
	w.used(30, day)
	for _, known := range []quota.Receipt{first.Known, second.Known} {
		w.ask(&quota.Batch{Account: account, Known: known, Requests: []quota.Request{request("m", 1)}})
	}
}

// restoredBetween: entries are merged with those that the log has got since,
// even if two have one timestamp.
func restoredBetween(w *world) {
	day := charge("day", 1000, quota.Sliding(24*time.Hour))
	search := charge("search", 500, quota.Sliding(time.Hour), methods("search"))
	h := newHost(w)
	for range 300 { // more than ledger pages and caches hold
		h.call("search", 1, day, search)
		w.spend(1, day, search)
		w.clock.Add(time.Second)
	}
	h.restore()
	w.used(600, day)
	w.used(300, search)
	log := w.log()
	if len(log) != 600 {
		w.Fatalf("%d entries; want 600", len(log))
	}
	for i := 1; i < len(log); i++ {
		if !log[i].At.After(log[i-1].At) {
			w.Fatalf("entries %d and %d are stamped %s and %s", i-1, i, log[i-1].At, log[i].At)
		}
	}
	w.clock.Set(noon.Add(time.Hour + 99*time.Second + 500*time.Millisecond))
	w.used(200, search)
	w.spend(1, day, search)
}

// restoredUnitsAreRaised: an entry that was settled keeps the higher of the
// two costs. What was heard counts it as the restoration does.
func restoredUnitsAreRaised(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	h := newHost(w)
	h.call("a", 10, day)
	h.call("b", 20, day)
	h.restore()
	h.entries[0].Units, h.entries[1].Units = 15, 5
	heard := h.heard["day"]
	heard.Used += 5 - 15
	h.heard["day"] = heard
	if done := h.restore(); done.Units != 5 {
		w.Fatalf("%+v; want 5 more units", done)
	}
	w.used(35, day)
}

// restoredEntryIsSettled: a receipt from before the loss still settles and
// refunds its entry.
func restoredEntryIsSettled(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	h := newHost(w)
	a, b := h.call("a", 30, day), h.call("b", 40, day)
	h.restore()
	a.Account, b.Account = account, account
	w.settle(a, 7)
	w.used(47, day)
	w.refund(b)
	w.used(7, day)
}

// restoredAhead: an entry whose timestamp is far ahead of the clock counts from
// now on.
func restoredAhead(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	h := newHost(w)
	w.clock.Add(30 * 24 * time.Hour)
	h.call("m", 10, day)
	w.clock.Set(noon)
	h.restore()
	w.used(10, day)
	w.refuse(91, "day", 24*time.Hour, 90, day)
}

// restoredBeyondRetention: what no window can see stays lost.
func restoredBeyondRetention(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	h := newHost(w)
	h.call("m", 10, day)
	w.clock.Add(90 * 24 * time.Hour)
	w.spend(1, day)
	if done := h.restore(); done.Entries != 0 || done.Noted != 0 || len(w.log()) != 1 {
		w.Fatalf("%+v, %d entries", done, len(w.log()))
	}
	w.used(1, day)
}

// restoredByOneHost: one host restores what it heard that all had spent.
// Its note shrinks as the others return, in any order, and goes when the
// log is exact.
func restoredByOneHost(w *world) {
	day := charge("day", 500, quota.Sliding(24*time.Hour))
	a := newHost(w)
	b := newHost(w)
	c := newHost(w)
	for i := range 30 {
		w.clock.Add(time.Minute)
		a.call("a", 5, day)
		b.call("b", 3, day)
		if i < 20 {
			c.call("c", 2, day)
		}
	}
	w.clock.Add(time.Minute)
	if done := a.restore(); done.Units != 150 || done.Noted != 127 { // the last call of b is not known to a
		w.Fatalf("%+v; want 150 units and a note of 127", done)
	}
	w.used(277, day)
	b.restore()
	w.used(280, day)
	if done := c.restore(); done.Noted != 0 {
		w.Fatalf("%+v; want no note", done)
	}
	w.used(280, day)
	a.restore()
	if log := w.log(); len(log) != 80 {
		w.Fatalf("%d entries; want the 80 calls", len(log))
	}
	w.clock.Set(noon.Add(24*time.Hour + time.Minute)) // the first of each are about to leave
	w.clock.Add(10 * time.Second)
	w.used(270, day)
}

// restoredNarrowBudgets: a note about a narrow budget counts for the wider one
// that heard the same calls.
func restoredNarrowBudgets(w *world) {
	budgets := []quota.Budget{
		{Account: account, Name: "day", Limit: 1000, Window: quota.Sliding(24 * time.Hour)},
		{Account: account, Name: "search", Limit: 500, Window: quota.Sliding(24 * time.Hour), Methods: []string{"search"}},
		{Account: account, Name: "burst", Limit: 200, Window: quota.Sliding(10 * time.Minute), Methods: []string{"search"}},
	}
	charges := make([]*quota.Charge, len(budgets))
	for i, coverage := range quota.Coverages(budgets) {
		charges[i] = &quota.Charge{Budget: budgets[i].Name, Coverage: coverage, Limit: budgets[i].Limit, Window: budgets[i].Window}
	}
	h, dead := newHost(w), newHost(w)
	dead.call("list", 300, charges[0])
	dead.call("search", 100, charges...)
	w.clock.Add(15 * time.Minute)
	dead.call("search", 50, charges...)
	h.call("search", 10, charges...)
	h.restore()
	w.used(460, charges[0])
	w.used(160, charges[1])
	w.used(60, charges[2])
	w.clock.Add(10*time.Minute + time.Second)
	w.used(0, charges[2])
	w.used(160, charges[1])
}

// restoredCalls: calls that others made are noted in a budget of calls.
func restoredCalls(w *world) {
	calls := charge("calls", 100, quota.Sliding(24*time.Hour), counted)
	h, dead := newHost(w), newHost(w)
	for range 7 {
		dead.call("m", 50, calls)
	}
	h.call("m", 50, calls)
	h.restore()
	w.used(8, calls)
}

// restoredBesideACounter: a counter of a log with entries never counts less
// than before, and counts what was restored.
func restoredBesideACounter(w *world) {
	each, day := charge("each", 100, quota.Counter(time.Minute)), charge("day", 100, quota.Sliding(24*time.Hour))
	w.spend(3, each)
	w.spend(4, each, day)
	h := newHost(w)
	h.call("m", 20, day)
	h.restore()
	if s := w.standings(each)[0]; s.Used < 24 || s.Used > 27 {
		w.Fatalf("%+v; want 24 to 27", s)
	}
	w.used(24, day)
}

func malformedRestoration(w *world) {
	good := quota.Entry{At: noon, ID: quota.ID{Client: 1, Seq: 1}, Method: "m", Units: 1, Calls: 1}
	for i, change := range []func(*quota.Restoration){
		func(r *quota.Restoration) { r.Account = "" },
		func(r *quota.Restoration) { r.Entries[0].ID = quota.ID{} },
		func(r *quota.Restoration) { r.Entries[0].At = time.Time{} },
		func(r *quota.Restoration) { r.Entries[0].Units = -1 },
		func(r *quota.Restoration) { r.Entries[0].Units = quota.MaxUnits + 1 },
		func(r *quota.Restoration) {
			r.Heard = []quota.WindowUse{{Client: 1, Budget: "b", Since: noon, At: noon}}
		},
		func(r *quota.Restoration) { r.Lives = []quota.Life{{Client: 1, Epoch: 1}} },
		func(r *quota.Restoration) { r.Lives = []quota.Life{{Epoch: 1, Since: noon}} },
		func(r *quota.Restoration) { r.Gaps = []quota.Gap{{Epoch: 1, From: noon, To: noon}} },
		func(r *quota.Restoration) { r.Gaps = []quota.Gap{{To: noon}} },
	} {
		r := &quota.Restoration{Account: account, History: time.Hour, Entries: []quota.Entry{good}}
		change(r)
		_, err := w.Restore(w.ctx, r)
		w.fails(err, quota.ErrBadCall, fmt.Sprint("case ", i))
	}
	canceled, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := w.Restore(canceled, &quota.Restoration{Account: account, Entries: []quota.Entry{good}}); err == nil {
		w.Fatal("restored with a context that had ended")
	}
	if log := w.log(); len(log) != 0 {
		w.Fatalf("%+v", log)
	}
}

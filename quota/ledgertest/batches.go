package ledgertest

import (
	"time"

	"github.com/ration-dev/ration/quota"
)

// batches returns the subtests about what one request of a batch means for the
// next, and about answers that end at the same time.
func batches() []subtest {
	return []subtest{
		{"RetryAtOfSeveralAmountsInABatch", retryAtOfSeveralAmounts},
		{"CounterPeriodEndsInsideABatch", counterPeriodEndsInsideABatch},
		{"FirstReasonOfThoseThatEndTogether", firstReasonOfThoseThatEndTogether},
		{"SettleUpOfSeveralFarEntries", settleUpOfSeveralFarEntries},
		{"TestClockIsNotRealTime", testClockIsNotRealTime},
	}
}

// retryAtOfSeveralAmounts: each refusal of a batch has its own RetryAt, by its
// own amount and by what was granted before it.
func retryAtOfSeveralAmounts(w *world) {
	day := charge("day", 10, minute)
	for range 2 { // at 0 s and 10 s
		w.spend(4, day)
		w.clock.Add(10 * time.Second)
	}
	answers := w.batch(request("m", 6, day), request("m", 10, day), request("m", 6, day), request("m", 2, day), request("m", 6, day))
	for i, after := range []time.Duration{40 * time.Second, 50 * time.Second, 40 * time.Second} {
		w.refused(answers[i], "day", after, 2)
	}
	w.refused(answers[4], "day", 50*time.Second, 0)
}

// counterPeriodEndsInsideABatch: the calls of a batch are a microsecond apart,
// so the last of them may count in the next period.
func counterPeriodEndsInsideABatch(w *world) {
	each := charge("each", 100, quota.Counter(time.Minute))
	r := request("m", 10, each)
	w.clock.Set(noon.Add(time.Minute - 2*µs))
	w.batch(r, r, r, r, r)
	w.clock.Set(noon.Add(90 * time.Second))
	w.used(30+20/2, each)
}

// firstReasonOfThoseThatEndTogether: a refusal names the first budget in
// the order of the request's charges, and units before a cooldown before
// the account's.
func firstReasonOfThoseThatEndTogether(w *world) {
	first, second := charge("first", 10, minute), charge("second", 10, minute)
	w.spend(10, first, second)
	refused := func(charges ...*quota.Charge) *quota.RefusedError {
		w.Helper()
		return w.refused(w.batch(request("m", 1, charges...))[0], charges[0].Budget, time.Minute, 0)
	}
	refused(first, second)
	refused(second, first)
	w.cool(quota.Cooldown{Account: account, Until: noon.Add(time.Minute), Reason: "account"})
	w.cool(quota.Cooldown{Account: account, Budget: "second", Until: noon.Add(time.Minute), Reason: "second"})
	for _, r := range []*quota.RefusedError{refused(first, second), refused(second, first)} {
		if r.Reason != quota.ReasonSpent {
			w.Errorf("refused for %q %q; want that the units are spent", r.Reason, r.Detail)
		}
	}
	w.cool(quota.Cooldown{Account: account, Until: noon.Add(time.Hour), Reason: "account"})
	w.cool(quota.Cooldown{Account: account, Budget: "second", Until: noon.Add(time.Hour), Reason: "second"})
	r := w.refused(w.batch(request("m", 1, first, second))[0], "second", time.Hour, 0)
	if r.Reason != quota.ReasonCooldown || r.Detail != "second" {
		w.Errorf("refused for %q %q; want the budget's cooldown before the account's", r.Reason, r.Detail)
	}
}

// settleUpOfSeveralFarEntries: the additions of two clients' entries of one
// number, of two of one client's, and a second one of an entry, are not taken
// for each other.
func settleUpOfSeveralFarEntries(w *world) {
	day := charge("day", 10_000, minute)
	var far []quota.Receipt
	one, other := quota.NewClient(), quota.NewClient()
	for _, id := range []quota.ID{{Client: one, Seq: 1}, {Client: one, Seq: 2}, {Client: other, Seq: 1}} {
		batch := &quota.Batch{Account: account, Client: id.Client, Seq: id.Seq, Requests: []quota.Request{request("m", 10, day)}}
		far = append(far, w.granted(batch)[0].Receipt)
	}
	for range quota.MaxSettle + 1 {
		w.spend(1, day)
	}
	sum := quota.Units(30 + quota.MaxSettle + 1)
	for _, receipt := range far {
		w.settle(receipt, 17)
		sum += 7
		w.used(sum, day)
	}
	w.settle(far[0], 19)
	w.used(sum+9, day)
}

// testClockIsNotRealTime: a Guard on such a ledger must not cache refusals by
// the host's clock.
func testClockIsNotRealTime(w *world) {
	if quota.RealTime(w.Ledger) {
		w.Fatal("the ledger says that its clock is real; want false on a test's clock")
	}
}

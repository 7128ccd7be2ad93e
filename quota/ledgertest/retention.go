package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// counterKeepsNoLog: a log that is only asked counter windows keeps no entries,
// with a key and without.
func counterKeepsNoLog(w *world) {
	each := charge("each", 1000, quota.Counter(time.Minute))
	search := charge("search", 300, quota.Counter(time.Hour), methods("search"), counted)
	for _, key := range []string{"", "203.0.113.9"} {
		for i := range 300 {
			r := request("search", 3, each, search)
			if i%3 > 0 {
				r = request("list", 1, each)
			}
			w.grantKeyed(key, r)
		}
		if log := w.entries(key); len(log) != 0 {
			w.Fatalf("%d entries with key %q; want none beside the counts, the first is %+v", len(log), key, log[0])
		}
		if s := w.standingsOf(key, each, search); s[0].Used != 500 || s[1].Used != 100 {
			w.Fatalf("standings %+v; want 500 units and 100 calls", s)
		}
	}
	w.clock.Add(90 * time.Second)
	w.used(250, each)
	w.used(100, search)
}

// counterStatesItsError: Standing.Over bounds the error of an estimate.
func counterStatesItsError(w *world) {
	each := charge("each", 100, quota.Counter(time.Minute))
	w.clock.Add(59 * time.Second)
	w.spend(80, each)
	w.clock.Add(31 * time.Second)
	if s := w.standings(each)[0]; s.Used != 40 || s.Over != 40 {
		w.Fatalf("standing %+v; want 40 used, and up to 40 more", s)
	}
}

// counterSettles: without an entry, the receipt says what was counted.
func counterSettles(w *world) {
	each, calls := charge("each", 100, quota.Counter(time.Minute)), charge("calls", 10, quota.Counter(time.Minute), counted)
	first, second := w.spend(40, each, calls), w.spend(30, each, calls)
	w.settle(first, 7) // the receipt does not say what was counted
	w.used(70, each)
	first.Recorded, second.Recorded = &quota.Recorded{Method: "m", Units: 40}, &quota.Recorded{Method: "m", Units: 30}
	w.settle(first, 10)
	w.used(40, each)
	w.used(2, calls)
	first.Recorded.Units = 10
	w.clock.Add(70 * time.Second) // another period
	w.settle(first, 22)
	w.clock.Add(-10 * time.Second)
	w.used(52, each)
	w.refund(second)
	w.used(22, each)
	w.used(1, calls)
	first.Recorded.Units = 22
	w.clock.Add(2 * time.Minute)
	w.settle(first, 5)
	w.used(0, each)
}

// counterOfASharedCall: without an entry, nothing tells whether another process
// has lowered a call before.
func counterOfASharedCall(w *world) {
	each, calls := charge("each", 100, quota.Counter(time.Minute)), charge("calls", 10, quota.Counter(time.Minute), counted)
	receipt := w.spend(40, each, calls)
	receipt.Recorded = &quota.Recorded{Method: "m", Units: 40, Shared: true}
	for range 2 {
		w.fails(w.Settle(w.ctx, receipt, 10), quota.ErrStays, "settle down")
		w.fails(w.Refund(w.ctx, receipt), quota.ErrStays, "refund")
		w.settle(receipt, 40)
	}
	w.used(40, each)
	w.used(1, calls)
	w.settle(receipt, 50)
	w.used(50, each)
}

// counterOfAnotherLife: a call that an earlier life of the log has granted
// lowers nothing that this one has counted, whether or not it has begun to keep
// entries.
func counterOfAnotherLife(w *world) {
	each, calls := charge("each", 100, quota.Counter(time.Minute)), charge("calls", 10, quota.Counter(time.Minute), counted)
	lost := w.spend(40, each, calls)
	lost.Recorded = &quota.Recorded{Method: "m", Units: 40}
	lost.Epoch ^= 1
	for n, more := range [][]*quota.Charge{nil, {charge("day", 100, quota.Sliding(time.Hour))}} {
		w.spend(1, append(more, each)...)
		w.settle(lost, 10)
		w.refund(lost)
		w.used(quota.Units(41+n), each)
		w.used(quota.Units(2+n), calls)
	}
	w.settle(lost, 50) // what it cost more is new
	w.used(52, each)
}

// counterBesideAWindow: a counter agrees with the entries of an exact window.
func counterBesideAWindow(w *world) {
	each, day := charge("each", 100, quota.Counter(time.Minute)), charge("day", 100, quota.Sliding(time.Hour))
	r := w.spend(40, each, day)
	w.spend(2, each)
	w.used(42, each, day)
	w.settle(r, 7)
	w.used(9, each, day)
	if log := w.log(); len(log) != 2 {
		w.Fatalf("%d entries; want 2", len(log))
	}
}

// retentionFollowsTheWindows: a log keeps its entries for as long as
// Retention says.
func retentionFollowsTheWindows(w *world) {
	second := charge("second", 1000, quota.Sliding(time.Second))
	for range 30 {
		w.spend(1, second)
		w.clock.Add(10 * time.Second)
	}
	w.spend(1, second)
	since := w.clock.Now().Add(-quota.Retention(time.Second))
	if log := w.log(); len(log) < 12 || len(log) > 14 || log[0].At.Before(since) {
		w.Fatalf("%d entries since %s; want those of the last two minutes", len(log), log[0].At)
	}
	w.history = time.Hour
	for range 30 {
		w.spend(1, second)
		w.clock.Add(10 * time.Second)
	}
	if log := w.log(); len(log) < 40 {
		w.Fatalf("%d entries with a history of an hour; want those of the last five minutes too", len(log))
	}
}

// retentionShrinks: a window that is no longer in use keeps nothing.
func retentionShrinks(w *world) {
	for _, longest := range []func(*quota.Coverage){counted, func(*quota.Coverage) {}} {
		month, short := charge("month", 1000, quota.Sliding(30*24*time.Hour), longest), charge("short", 1000, minute, methods("m"))
		w.spend(1, month, short)
		for range 30 * 6 { // two generations of the longest window
			w.clock.Add(24 * time.Hour)
			w.spend(1, short)
			if n := len(w.log()); n > 40 {
				w.Fatalf("%d entries; want those of a month and its slack at most", n)
			}
		}
		if n := len(w.log()); n > 3 {
			w.Fatalf("%d entries; want what a minute needs", n)
		}
	}
}

// keysListed: Keys includes logs without entries.
func keysListed(w *world) {
	day, each := charge("day", 10, minute), charge("each", 10, quota.Counter(time.Minute))
	var want []string
	for i, key := range []string{"203.0.113.9", "a b/{c}%\n", "ключ"} {
		r := request("m", 1, day)
		if i == 0 {
			r = request("m", 1, each)
		}
		w.grantKeyed(key, r)
		want = append(want, key)
	}
	for i := range 300 {
		key := fmt.Sprint("client ", i)
		w.grantKeyed(key, request("m", 1, each))
		want = append(want, key)
	}
	w.spend(1, day)
	w.ask(&quota.Batch{Account: "another", Key: "other", Requests: []quota.Request{request("m", 1, day)}})
	got := collect(w, w.Keys(w.ctx, account))
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(slices.Compact(got), want) {
		w.Fatalf("%d keys %q; want %d", len(got), got, len(want))
	}
	for range w.Keys(w.ctx, account) {
		break // an iteration may end early
	}
	for key, err := range w.Keys(w.ctx, "unknown") {
		w.Fatalf("key %q, %v of an account without a log", key, err)
	}
}

// manyLiveKeys: logs in use are not dropped as idle, however many there are.
func manyLiveKeys(w *world) {
	if testing.Short() {
		w.Skip("makes 4,500 calls one after the other, 1 to 2 seconds")
	}
	hour := charge("hour", 1, quota.Sliding(time.Hour))
	const live = 1500
	key := func(i int) string { return fmt.Sprint("client ", i) }
	for i := range live {
		w.grantKeyed(key(i), request("m", 1, hour))
	}
	w.clock.Add(59 * time.Minute)
	for i := range live {
		w.grantKeyed(fmt.Sprint("another ", i), request("m", 1, hour))
	}
	for i := range live {
		answers := w.ask(&quota.Batch{Account: account, Key: key(i), Requests: []quota.Request{request("m", 1, hour)}})
		w.fails(answers[0].Err, quota.ErrRefused, key(i)+", whose hour is not over")
	}
}

// entriesBeyondRetention: entries that have not been dropped yet are
// not listed.
func entriesBeyondRetention(w *world) {
	short := charge("short", 10_000, minute)
	for range 700 {
		w.spend(1, short)
	}
	w.clock.Add(quota.Retention(time.Minute) + time.Second)
	last := w.spend(1, short)
	if log := w.log(); len(log) != 1 || !log[0].At.Equal(last.At) {
		w.Fatalf("%d entries; want the last alone", len(log))
	}
	checkListings(w, w.ctx, w, quota.Query{Account: account})
}

// earlierOutlivesTheLog: Standing.Earlier counts what the log no longer holds.
func earlierOutlivesTheLog(w *world) {
	short := charge("short", 100_000, minute)
	everything := &quota.Charge{Coverage: quota.NewCoverage(quota.Coverage{}), Limit: quota.MaxLimit, Window: minute}
	earlier := func(want quota.Units) {
		w.Helper()
		if s := w.standings(everything)[0]; s.Earlier != want {
			w.Fatalf("%+v; want %d units earlier", s, want)
		}
	}
	earlier(0)
	for range 300 {
		w.spend(2, short)
	}
	w.settle(w.spend(9, short), 5)
	earlier(0)
	w.clock.Add(2 * time.Minute)
	earlier(605)
	for n := range quota.Units(20) { // each drops some
		w.clock.Add(quota.Retention(time.Minute) + time.Second)
		earlier(605 + n)
		w.spend(1, short)
		earlier(605 + n)
	}
	if n := len(w.log()); n > 2 {
		w.Fatalf("the log holds %d entries; want the last alone", n)
	}
}

// cancelledListing: an incomplete listing ends with an error.
func cancelledListing(w *world) {
	for range 3 {
		w.spend(1, charge("day", 10, minute))
	}
	w.grantKeyed("k", request("m", 1, charge("day", 10, minute)))
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	var got error
	for _, err := range w.Entries(ctx, quota.Query{Account: account}) {
		got = err
	}
	w.fails(got, context.Canceled, "entries")
	got = nil
	for _, err := range w.Keys(ctx, account) {
		got = err
	}
	w.fails(got, context.Canceled, "keys")
	got = nil
	for sum, err := range w.Sums(ctx, quota.Query{Account: account}) {
		if got = err; err == nil {
			w.Fatalf("sum %+v; want the context's error alone", sum)
		}
	}
	w.fails(got, context.Canceled, "sums")
}

// settleUnknown: settling a receipt without an entry is a no-op.
func settleUnknown(w *world) {
	day := charge("day", 100, minute)
	r := w.spend(40, day)
	newer := r
	other := r
	elsewhere := r
	newer.At = r.At.Add(time.Hour)
	other.ID.Seq++
	elsewhere.Account = "another"
	for _, receipt := range []quota.Receipt{newer, other, elsewhere} {
		w.settle(receipt, 7)
		w.refund(receipt)
	}
	counter := charge("counter", 100, quota.Counter(time.Minute))
	w.used(40, day, counter)
	w.spend(1, day, counter)
	other.Recorded = &quota.Recorded{Method: "m", Units: 40}
	w.settle(other, 7)
	w.used(41, day, counter)
	if log := w.log(); len(log) != 2 {
		w.Fatalf("log %+v; want two entries", log)
	}
}

func cancelledSpend(w *world) {
	day := charge("day", 10, minute)
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	_, err := w.Spend(ctx, &quota.Batch{Account: account, Requests: []quota.Request{request("m", 1, day)}})
	w.fails(err, context.Canceled, "spend")
	w.used(0, day)
}

// entriesOfManyPages: no entry is missed between pages.
func entriesOfManyPages(w *world) {
	const n = 1501
	requests := make([]quota.Request, n)
	for i := range requests {
		requests[i] = request(fmt.Sprint("m", i%7), quota.Units(i+1), charge("day", 1e9, minute))
	}
	w.batch(requests...)
	log := w.log()
	if len(log) != n {
		w.Fatalf("%d entries; want %d", len(log), n)
	}
	for i, e := range log {
		if e.Units != quota.Units(i+1) || e.Method != fmt.Sprint("m", i%7) {
			w.Fatalf("entry %d is %+v", i, e)
		}
	}
}

// manyClientsResent: the ledger remembers the last batch of each client.
func manyClientsResent(w *world) {
	day := charge("day", 1000, minute)
	batches := make([]*quota.Batch, 40)
	for i := range batches {
		batches[i] = &quota.Batch{Account: account, Client: quota.NewClient(), Seq: 1, Requests: []quota.Request{request("m", 1, day)}}
	}
	for range 3 {
		for _, batch := range batches {
			w.granted(batch)
		}
		w.used(40, day)
	}
}

// grantKeyed spends one call of a key, which must be granted.
func (w *world) grantKeyed(key string, r quota.Request) {
	w.Helper()
	w.granted(&quota.Batch{Account: account, Key: key, History: w.history, Requests: []quota.Request{r}})
}

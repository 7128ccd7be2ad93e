package ledgertest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/quota"
)

// fatal is the part of testing.TB and rapid.T that is used here.
type fatal interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

var _ fatal = testing.TB(nil)

// checkListings compares the entries of a query newest first, and its sums,
// with its entries oldest first.
func checkListings(t fatal, ctx context.Context, l quota.Ledger, query quota.Query) {
	t.Helper()
	query.Newest = false
	want := collect(t, l.Entries(ctx, query))
	query.Newest = true
	newest := collect(t, l.Entries(ctx, query))
	slices.Reverse(newest)
	if !slices.Equal(want, newest) { // a diff of thousands takes a second
		t.Fatalf("newest first, reversed, %+v: (-oldest first +newest first)\n%s", query, cmp.Diff(want, newest))
	}
	got := map[quota.Sum]bool{}
	for _, sum := range collect(t, l.Sums(ctx, query)) {
		if got[sum] {
			t.Fatalf("%+v twice", sum)
		}
		got[sum] = true
	}
	if want := fold(want); !maps.Equal(want, got) {
		t.Fatalf("sums, %+v: (-of the entries +of the ledger)\n%s", query, cmp.Diff(want, got))
	}
}

// collect returns what a ledger lists; the listing must not fail.
func collect[T any](t fatal, listed iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for one, err := range listed {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// fold adds up entries that are sorted by stamp.
func fold(entries []quota.Entry) map[quota.Sum]bool {
	groups := map[quota.Sum]quota.Sum{} // by what the entries have in common
	for _, e := range entries {
		in := quota.Sum{Kind: e.Kind, Method: e.Method, Caller: e.Caller}
		sum, known := groups[in]
		if !known {
			sum = in
			sum.First = e.At
		}
		sum.Entries++
		sum.Units += e.Units
		sum.Calls += e.Calls
		sum.Last = e.At
		groups[in] = sum
	}
	all := map[quota.Sum]bool{}
	for _, sum := range groups {
		all[sum] = true
	}
	return all
}

// fill spends n calls of several labels, clients and costs, milliseconds apart.
func (w *world) fill(n int, charges ...*quota.Charge) (receipts []quota.Receipt) {
	w.Helper()
	clients := []uint64{quota.NewClient(), quota.NewClient(), quota.NewClient()}
	for seq := uint64(1); n > 0; seq += 1000 {
		batch := &quota.Batch{Account: account, Client: clients[seq/1000%3], Seq: seq, History: w.history}
		for i := range min(n, 300) {
			r := request(fmt.Sprint("m", i%7), 1+quota.Units(i)%9, charges...)
			r.Caller = quota.Caller{Lane: "cron", Job: fmt.Sprint("job", i%3), Region: "US"}
			if i%50 == 49 {
				r = entered(r, quota.EntryNote, quota.Units(i))
			}
			batch.Requests = append(batch.Requests, r)
		}
		for _, answer := range w.granted(batch) {
			receipts = append(receipts, answer.Receipt)
		}
		n -= len(batch.Requests)
		w.clock.Add(7 * time.Millisecond)
	}
	return receipts
}

// entriesNewestFirst: no entry is missed between pages.
func entriesNewestFirst(w *world) {
	receipts := w.fill(1501)
	place := func(i int) time.Time { return receipts[i].At }
	for _, q := range []quota.Query{
		{},
		{Since: place(100)},
		{Until: place(1400)},
		{Since: place(100), Until: place(900)},
		{Since: place(100).Add(1), Until: place(900).Add(1)},
		{Since: place(1500).Add(µs)},
		{Until: place(0)},
		{Since: place(7), Until: place(7)},
		{Since: place(8), Until: place(7)},
	} {
		q.Account = account
		checkListings(w, w.ctx, w, q)
	}
	n := 0
	for e, err := range w.Entries(w.ctx, quota.Query{Account: account, Newest: true}) {
		if err != nil {
			w.Fatal(err)
		}
		if !e.At.Equal(place(1500 - n)) {
			w.Fatalf("entry %d from the end is of %s; want %s", n, e.At, place(1500-n))
		}
		if n++; n == 10 {
			break
		}
	}
	for range w.Entries(w.ctx, quota.Query{Account: "unknown", Newest: true}) {
		w.Fatal("an account that never spent has entries")
	}
}

// sumsOfALongLog: a ledger may have added up parts of a long log in advance.
func sumsOfALongLog(w *world) {
	if testing.Short() {
		w.Skip("records 15,000 calls, 1 to 2 seconds")
	}
	receipts := w.fill(15_000, charge("hour", 1e9, quota.Sliding(time.Hour)))
	queries := []quota.Query{{}, {Since: receipts[3].At}, {Since: receipts[9000].At, Until: receipts[9500].At}}
	for until := 1000; until < len(receipts); until += 2000 {
		queries = append(queries, quota.Query{Until: receipts[until].At})
	}
	for _, q := range queries {
		q.Account = account
		checkListings(w, w.ctx, w, q)
	}
	for range w.Sums(w.ctx, quota.Query{Account: account}) {
		break // a reader may stop
	}
}

// sumsFollowEveryChange: sums show settles, refunds, additions, restamps and
// trims at once.
func sumsFollowEveryChange(w *world) {
	if testing.Short() {
		w.Skip("records 13,500 calls, 1 to 2 seconds")
	}
	short, query := charge("short", 1e9, minute), quota.Query{Account: account}
	w.clock.Add(time.Hour)
	receipts := w.fill(9000, short) // stamped ahead of the clock below
	last := len(receipts) - 1
	w.settle(receipts[last], 40)
	w.refund(receipts[last-1])
	checkListings(w, w.ctx, w, query)
	w.settle(receipts[20], 40) // too far from the tail: an addition
	checkListings(w, w.ctx, w, query)
	w.clock.Set(noon)
	if n, err := w.Restamp(w.ctx, account, ""); err != nil || n != 9001 {
		w.Fatalf("restamped %d, %v; want all entries and the addition", n, err)
	}
	checkListings(w, w.ctx, w, query)
	w.clock.Add(time.Second)
	w.fill(4500, short)
	checkListings(w, w.ctx, w, query)
	w.clock.Add(quota.Retention(time.Minute) - 5*time.Second)
	for range 5 { // what is trimmed goes in steps
		w.clock.Add(12 * time.Second)
		w.fill(3, short)
		checkListings(w, w.ctx, w, query)
	}
	w.history = 48 * time.Hour // what is gone stays gone
	w.fill(3, short)
	checkListings(w, w.ctx, w, query)
}

// sumsWithoutEntries: a log that is only asked counter windows has no sums.
func sumsWithoutEntries(w *world) {
	w.spend(3, charge("each", 1000, quota.Counter(time.Minute)))
	for _, name := range []string{account, "unknown"} {
		for sum, err := range w.Sums(w.ctx, quota.Query{Account: name}) {
			w.Fatalf("%+v, %v of %s; want no sums", sum, err, name)
		}
	}
}

// sumsOfKeyedLogs: each key has its own sums.
func sumsOfKeyedLogs(w *world) {
	day := charge("day", 1000, quota.Sliding(24*time.Hour))
	w.spend(1, day)
	for i, key := range []string{"203.0.113.9", "a b/{c}"} {
		for range i + 2 {
			w.grantKeyed(key, request("m", 5, day))
		}
		query := quota.Query{Account: account, Key: key}
		for sum, err := range w.Sums(w.ctx, query) {
			if err != nil || sum.Entries != int64(i+2) || sum.Units != quota.Units(5*(i+2)) {
				w.Fatalf("%+v, %v of key %q; want %d entries", sum, err, key, i+2)
			}
		}
		checkListings(w, w.ctx, w, query)
	}
}

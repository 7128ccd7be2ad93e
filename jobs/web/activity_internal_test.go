package web

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// spendCalls records calls of one account, of 10 units each.
func spendCalls(t *testing.T, log quota.Log, calls int) (receipts []quota.Receipt) {
	t.Helper()
	batch := &quota.Batch{Account: "p"}
	for i := range calls {
		batch.Requests = append(batch.Requests, quota.Request{Method: []string{"m", "n"}[i%2], Units: 10, Force: true})
	}
	answers, err := log.Spend(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for i := range answers {
		receipts = append(receipts, answers[i].Receipt)
	}
	return receipts
}

// drop removes the sums that are 0, which charts do not show.
func drop(of hours) hours {
	kept := hours{}
	for hour, sums := range of {
		for s, units := range sums {
			if units != 0 {
				kept.add(hour, s, units)
			}
		}
	}
	return kept
}

// TestAnUpdatedActivityIsAsReadAnew: what is spent, settled and refunded
// between updates is in an updated activity as in one that is read anew. What
// is older than the newest 2,000 entries is in the latter alone.
func TestAnUpdatedActivityIsAsReadAnew(t *testing.T) {
	now := time.Date(2026, 11, 20, 11, 0, 0, 0, time.UTC)
	log := testledger.Memory(&memledger.Options{Now: func() time.Time { return now }})
	read := func() *activity {
		a, err := newActivity(t.Context(), log, "p", now)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	updated := read()
	random := rand.New(rand.NewPCG(1, 2))
	var receipts []quota.Receipt
	for range 60 {
		now = now.Add(time.Hour)
		receipts = append(receipts, spendCalls(t, log, 150)...)
		for range 20 {
			open := receipts[max(0, len(receipts)-1500):]
			if err := log.Settle(t.Context(), open[random.IntN(len(open))], quota.Amounts{Units: quota.Units(random.IntN(40)), Calls: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if goesOn, err := updated.update(t.Context(), log, now); !goesOn || err != nil {
			t.Fatal(goesOn, err)
		}
		anew := read()
		if diff := cmp.Diff(drop(anew.hours), drop(updated.hours), cmp.AllowUnexported(series{})); diff != "" {
			t.Fatalf("hours (-anew +updated):\n%s", diff)
		}
		if diff := cmp.Diff(anew.newest, updated.newest); diff != "" {
			t.Fatalf("newest entries (-anew +updated):\n%s", diff)
		}
	}
	hour := hourOf(receipts[len(receipts)-3000].At)
	before := total(read().hours[hour])
	if err := log.Settle(t.Context(), receipts[len(receipts)-3000], quota.Amounts{Units: 1000, Calls: 1}); err != nil {
		t.Fatal(err)
	}
	if after := total(read().hours[hour]); after < before+900 {
		t.Errorf("%d units in an hour in which a call was settled to 1000, before %d", after, before)
	}
}

// failingLog is a log that fails after the last entry that is listed.
type failingLog struct{ quota.Log }

func (l failingLog) Entries(ctx context.Context, q quota.Query) iter.Seq2[quota.Entry, error] {
	return func(yield func(quota.Entry, error) bool) {
		for e, err := range l.Log.Entries(ctx, q) {
			if !yield(e, err) {
				return
			}
		}
		yield(quota.Entry{}, errors.New("the ledger is down"))
	}
}

// TestAFailedUpdateAddsNothing: the update after one that failed adds each
// entry once.
func TestAFailedUpdateAddsNothing(t *testing.T) {
	log := testledger.Memory(nil)
	spendCalls(t, log, 10)
	a, err := newActivity(t.Context(), log, "p", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	spendCalls(t, log, 5)
	for range 3 {
		if _, err := a.update(t.Context(), failingLog{log}, time.Now()); err == nil {
			t.Fatal("no error")
		}
	}
	if _, err := a.update(t.Context(), log, time.Now()); err != nil {
		t.Fatal(err)
	}
	sum := quota.Units(0)
	for hour := range a.hours {
		sum += total(a.hours[hour])
	}
	if sum != 150 || len(a.newest) != 15 {
		t.Errorf("%d units of %d entries; want 150 of 15", sum, len(a.newest))
	}
}

// TestALogThatGoesBackIsNoticed: an activity of a log that is replaced by
// another one is reported as wrong.
func TestALogThatGoesBackIsNoticed(t *testing.T) {
	log, other := testledger.Memory(nil), testledger.Memory(nil)
	spendCalls(t, log, 10)
	a, err := newActivity(t.Context(), log, "p", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	spendCalls(t, other, 5)
	if goesOn, err := a.update(t.Context(), other, time.Now()); goesOn || err != nil {
		t.Errorf("another log: goes on %t, %v", goesOn, err)
	}
}

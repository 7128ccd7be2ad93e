package combine_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/combine"
	"github.com/ration-dev/ration/quota/memledger"
)

func batch(account string) *quota.Batch {
	charge := &quota.Charge{Budget: "day", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 50, Window: quota.Sliding(time.Hour)}
	return &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{charge}}}}
}

func used(t *testing.T, ledger quota.Ledger) quota.Units {
	t.Helper()
	s, err := ledger.Standings(t.Context(), "a", "", batch("a").Requests[0].Charges)
	if err != nil {
		t.Fatal(err)
	}
	return s[0].Used
}

// TestCallersShareBatches queues 100 callers behind one round trip: they share
// the next one, and exactly 50 are granted.
func TestCallersShareBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		var flights, inFlight atomic.Int32
		c := combine.New(func(ctx context.Context, b *quota.Batch) ([]quota.Answer, error) {
			if inFlight.Add(1) > 1 {
				t.Error("two batches of one log in flight at once")
			}
			defer inFlight.Add(-1)
			flights.Add(1)
			if b.Client == 0 || b.Seq == 0 {
				t.Error("a batch without an id")
			}
			time.Sleep(10 * time.Millisecond) // the round trip, on the bubble's clock
			return ledger.Spend(ctx, b)
		}, nil, time.Second)
		var granted, refused atomic.Int32
		var wg sync.WaitGroup
		for range 101 {
			wg.Go(func() {
				answers, err := c.Spend(t.Context(), batch("a"))
				switch {
				case err != nil:
					t.Error(err)
				case answers[0].Err == nil:
					granted.Add(1)
				default:
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		if granted.Load() != 50 || refused.Load() != 51 || used(t, ledger) != 50 {
			t.Errorf("granted %d, refused %d, charged %d; want 50, 51, 50", granted.Load(), refused.Load(), used(t, ledger))
		}
		if flights.Load() > 2 {
			t.Errorf("%d round trips for 101 callers at once; want 2", flights.Load())
		}
	})
}

// TestCanceledCallersAreRefunded cancels callers that lead, that are in flight
// and that wait: none stays charged, and none stops the others.
func TestCanceledCallersAreRefunded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		c := combine.New(func(ctx context.Context, b *quota.Batch) ([]quota.Answer, error) {
			time.Sleep(100 * time.Millisecond)
			return ledger.Spend(ctx, b)
		}, func(r quota.Receipt) { ledger.Refund(context.Background(), r) }, time.Second)
		why := errors.New("the user left")
		var stayed atomic.Int32
		var wg sync.WaitGroup
		for i := range 30 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				ctx, cancel := context.WithCancelCause(t.Context())
				if i%2 == 0 {
					time.AfterFunc(time.Duration(i*7)*time.Millisecond+time.Microsecond, func() { cancel(why) })
				}
				answers, err := c.Spend(ctx, batch("a"))
				switch {
				case err == nil && answers[0].Err == nil:
					stayed.Add(1)
				case !errors.Is(err, why):
					t.Errorf("caller %d: %v, %v", i, answers, err)
				}
				cancel(nil)
			})
		}
		wg.Wait()
		time.Sleep(time.Second) // calls canceled in flight are refunded in the background
		if got := used(t, ledger); got != quota.Units(stayed.Load()) || stayed.Load() < 15 {
			t.Errorf("%d units charged for %d callers that stayed; want as many, and 15 at least", got, stayed.Load())
		}
	})
}

func TestErrorsReachEveryCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := combine.New(func(ctx context.Context, _ *quota.Batch) ([]quota.Answer, error) {
			time.Sleep(time.Second) // of the bubble's time
			return nil, quota.ErrInDoubt
		}, nil, time.Second)
		began := time.Now()
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if _, err := c.Spend(t.Context(), batch("a")); !errors.Is(err, quota.ErrInDoubt) {
					t.Errorf("got %v; want ErrInDoubt", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("took %s; want a second for each of two batches at most", took)
		}
	})
}

// TestHangingLedgerDelaysOneBatch queues a thousand callers behind a ledger
// that hangs: none waits for more than the batch in flight and its own.
func TestHangingLedgerDelaysOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := combine.New(func(ctx context.Context, _ *quota.Batch) ([]quota.Answer, error) {
			time.Sleep(time.Second)
			return nil, errors.Join(quota.ErrInDoubt, quota.ErrLedgerDown)
		}, nil, time.Second)
		began := time.Now()
		var wg sync.WaitGroup
		var busy atomic.Int32
		for range 1000 {
			wg.Go(func() {
				_, err := c.Spend(t.Context(), batch("a"))
				switch {
				case errors.Is(err, quota.ErrLedgerBusy) && !errors.Is(err, quota.ErrLedgerDown):
					busy.Add(1)
					if short, ok := err.(interface{ Short() string }); !ok || !strings.HasSuffix(err.Error(), ": "+short.Short()) {
						t.Errorf("%v; want an error that has a short form", err)
					}
				case !errors.Is(err, quota.ErrInDoubt):
					t.Errorf("got %v", err)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("a caller was kept for %s", took)
				}
			})
		}
		wg.Wait()
		if busy.Load() < 700 {
			t.Errorf("%d were refused without a round trip; want those that did not fit into two batches", busy.Load())
		}
	})
}

// TestCanceledLeader cancels the only caller while its batch hangs: it returns
// at once, and is refunded when the batch returns.
func TestCanceledLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		c := combine.New(func(ctx context.Context, b *quota.Batch) ([]quota.Answer, error) {
			time.Sleep(900 * time.Millisecond)
			return ledger.Spend(ctx, b)
		}, func(r quota.Receipt) { ledger.Refund(context.Background(), r) }, time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := c.Spend(ctx, batch("a"))
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 20*time.Millisecond {
			t.Errorf("%v after %s; want the caller's own deadline", err, took)
		}
		time.Sleep(time.Second)
		if got := used(t, ledger); got != 0 {
			t.Errorf("%d units charged for a caller that left; want 0", got)
		}
	})
}

// TestLongestHistory: a batch asks for the longest history of its callers.
func TestLongestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		var asked []time.Duration
		c := combine.New(func(ctx context.Context, b *quota.Batch) ([]quota.Answer, error) {
			asked = append(asked, b.History)
			time.Sleep(10 * time.Millisecond)
			return ledger.Spend(ctx, b)
		}, nil, time.Second)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				b := batch("a")
				b.History = []time.Duration{time.Minute, 0, 3 * time.Hour, time.Hour, 0}[i]
				if _, err := c.Spend(t.Context(), b); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if len(asked) != 2 || asked[0] != time.Minute || asked[1] != 3*time.Hour {
			t.Errorf("asked for %v; want one minute, then three hours", asked)
		}
	})
}

// TestCanceledCallerOfACounter: the receipt tells a log without entries what
// to refund.
func TestCanceledCallerOfACounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		c := combine.New(func(ctx context.Context, b *quota.Batch) ([]quota.Answer, error) {
			time.Sleep(900 * time.Millisecond)
			return ledger.Spend(ctx, b)
		}, func(r quota.Receipt) { ledger.Refund(context.Background(), r) }, time.Second)
		b := batch("a")
		b.Requests[0].Charges[0].Window = quota.Counter(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := c.Spend(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		s, err := ledger.Standings(t.Context(), "a", "", b.Requests[0].Charges)
		if err != nil || s[0].Used != 0 {
			t.Errorf("%+v, %v; want nothing charged for a caller that left", s, err)
		}
	})
}

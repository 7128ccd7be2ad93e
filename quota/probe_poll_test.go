package quota_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
)

// counted is a ledger that counts the appends that are carried out.
type counted struct {
	quota.Ledger
	appends *int
}

func (c counted) RealTime() bool { return engine.RealTime(c.Ledger) }

func (c counted) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	tail, err := c.Ledger.Append(ctx, account, a)
	if err == nil && tail.Appended {
		*c.appends++
	}
	return tail, err
}

// TestAWaitingProcessOnlyReads: while another's trial is in progress, a process
// writes nothing. It appends its own call once that has passed.
func TestAWaitingProcessOnlyReads(t *testing.T) {
	open := openMemory(t)
	synctest.Test(t, func(t *testing.T) {
		probing, made, calls := make(chan struct{}), 0, 0
		slow := newProcess(t, open, 3*time.Second, statusTripper(func(*http.Request) int {
			if calls++; calls == 1 {
				return http.StatusTooManyRequests
			}
			close(probing)
			time.Sleep(5 * time.Second)
			return http.StatusOK
		}))
		var wg sync.WaitGroup
		wg.Go(func() { getStatus(slow) })
		time.Sleep(time.Second)
		waiting := newProcess(t, func() (quota.Log, error) {
			ledger, err := open()
			return quota.NewLog(counted{behind{ledger, probing}, &made}, nil), err
		}, 3*time.Second, statusTripper(func(*http.Request) int { return http.StatusOK }))
		if status, err := getStatus(waiting); err != nil || status != http.StatusOK || made != 1 {
			t.Errorf("status %d, %v after %d appends; want one", status, err, made)
		}
		wg.Wait()
	})
}

// corrected is a ledger with a hook before its second WindowUsages.
type corrected struct {
	quota.Log
	asked int
	then  func() error
}

func (c *corrected) WindowUsages(ctx context.Context, account, key string,
	charges []*quota.Charge) ([]quota.WindowUsage, error) {
	if c.asked++; c.asked == 2 {
		if err := c.then(); err != nil {
			return nil, err
		}
	}
	return c.Log.WindowUsages(ctx, account, key, charges)
}

// TestWhatAnotherProcessEnteredIsNotEnteredAgain: between the comparison and
// the note, another process may record the same difference, or the ledger may
// fail.
func TestWhatAnotherProcessEnteredIsNotEnteredAgain(t *testing.T) {
	failure := errors.New("no ledger")
	for _, c := range []struct {
		name    string
		enters  quota.Units
		err     error
		used    quota.Units
		notes   int
		looks   int // comparisons after two equal answers
		reports int
	}{
		{"it entered all", 99, nil, 101, 0, 2, 0},
		{"it entered more", 150, nil, 152, 0, 2, 0},
		{"it entered a part", 50, nil, 101, 1, 2, 0},
		{"the ledger failed", 0, failure, 100, 1, 4, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := &corrected{Log: testledger.Memory(nil)}
				guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 1000, 24*time.Hour)}, nil)
				if err != nil {
					t.Fatal(err)
				}
				ledger.then = func() error {
					if c.enters > 0 {
						if _, err := guard.Spend(t.Context(), call("m", c.enters)); err != nil {
							t.Error(err)
						}
					}
					return c.err
				}
				client, reports := answering(guard, 1, quota.Verdict{LeftOf: "day", Left: 900})
				for range 2 {
					if _, err := getStatus(client); err != nil {
						t.Fatal(err)
					}
					client.CloseIdleConnections()
				}
				looks, notes := ledger.asked, 0
				for e := range ledger.Entries(t.Context(), quota.Query{Account: account}) {
					if e.Kind == quota.EntryNote {
						notes++
					}
				}
				if notes != c.notes {
					t.Errorf("%d notes; want %d", notes, c.notes)
				}
				if got := used(t, guard); got != c.used || looks != c.looks || len(*reports) != c.reports {
					t.Errorf("%d used after %d looks, reported %v; want %d after %d, and %d reports", got, looks,
						*reports, c.used, c.looks, c.reports)
				}
			})
		})
	}
}

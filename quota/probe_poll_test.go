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
	"github.com/ration-dev/ration/quota/memledger"
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
		waiting := newProcess(t, func() (quota.Ledger, error) {
			ledger, err := open()
			return counted{behind{ledger, probing}, &made}, err
		}, 3*time.Second, statusTripper(func(*http.Request) int { return http.StatusOK }))
		if status, err := getStatus(waiting); err != nil || status != http.StatusOK || made != 1 {
			t.Errorf("status %d, %v after %d appends; want one", status, err, made)
		}
		wg.Wait()
	})
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
		agrees  bool // the second, equal answer is not compared
		reports int
	}{
		{"it entered all", 99, nil, 101, 0, true, 0},
		{"it entered more", 150, nil, 152, 0, true, 0},
		{"it entered a part", 50, nil, 101, 1, true, 0},
		{"the ledger failed", 0, failure, 100, 1, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared, appends, reads := memledger.Open(nil), 0, 0
				ledger := testledger.Before(shared, func(op string) error {
					if op == "append" {
						appends++
						return nil
					}
					reads++
					if appends != 2 { // that of the call, and the lock on corrections
						return nil
					}
					appends++
					if c.enters > 0 {
						if _, err := testledger.Guard(t, shared).Spend(t.Context(), call("m", c.enters)); err != nil {
							t.Error(err)
						}
					}
					return c.err
				})
				guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 1000, 24*time.Hour)}, nil)
				if err != nil {
					t.Fatal(err)
				}
				client, reports := answering(guard, 1, quota.Verdict{LeftOf: "day", Left: 900})
				before := 0
				for range 2 {
					before = reads
					if _, err := getStatus(client); err != nil {
						t.Fatal(err)
					}
					client.CloseIdleConnections()
				}
				agrees, notes := reads == before, 0
				for e := range guard.Entries(t.Context(), quota.Query{Account: account}) {
					if e.Kind == quota.EntryNote {
						notes++
					}
				}
				if notes != c.notes {
					t.Errorf("%d notes; want %d", notes, c.notes)
				}
				if got := used(t, guard); got != c.used || agrees != c.agrees || len(*reports) != c.reports {
					t.Errorf("%d used, agreed %t, reported %v; want %d, %t, and %d reports", got, agrees,
						*reports, c.used, c.agrees, c.reports)
				}
			})
		})
	}
}

package redisledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// soak skips a test that takes minutes unless RATION_SOAK=1. A shorter test
// checks the same in seconds.
func soak(t *testing.T) {
	if os.Getenv("RATION_SOAK") != "1" {
		t.Skip("takes minutes; set RATION_SOAK=1")
	}
}

// tolerated is the longest time for a spend: its second, and more for a
// busy machine.
const tolerated = 3 * time.Second

// spender is a caller with its own client, so that it does not wait for
// another's batch.
type spender struct {
	ledger  *redisledger.Ledger
	granted []quota.ID
	doubts  int // calls that may have been charged too
	down    int
	slowest time.Duration
	strange error // an unexpected one
	doubted error // why the last call in doubt is
}

// crowd is spenders on one log. Each call is one unit.
type crowd struct {
	spenders []*spender
	stop     context.CancelFunc
	all      sync.WaitGroup
}

// startCrowd starts a crowd, which spends until it is stopped.
func startCrowd(t *testing.T, url, prefix string, spenders int) *crowd {
	t.Helper()
	return startCrowdOn(t, redisledger.Open, url, prefix, spenders)
}

// startCrowdOn starts one whose ledgers are opened by open.
func startCrowdOn(t *testing.T, open func(string, *redisledger.Options) (*redisledger.Ledger, error), url, prefix string, spenders int) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &crowd{stop: cancel}
	for range spenders {
		l, err := open(url, &redisledger.Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		s := &spender{ledger: l}
		c.spenders = append(c.spenders, s)
		c.all.Go(func() {
			for ctx.Err() == nil {
				s.once()
				select { // a thousand or so a second are enough to be everywhere
				case <-ctx.Done():
				case <-time.After(time.Duration(rand.IntN(4000)) * time.Microsecond):
				}
			}
		})
	}
	t.Cleanup(c.end)
	return c
}

func (c *crowd) end() {
	c.stop()
	c.all.Wait()
}

func (s *spender) once() {
	began := time.Now()
	answers, err := s.ledger.Spend(context.Background(), &quota.Batch{Account: account,
		Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{crowded}}}})
	s.slowest = max(s.slowest, time.Since(began))
	switch {
	case errors.Is(err, quota.ErrInDoubt):
		s.doubts++
		s.doubted = err
	case errors.Is(err, quota.ErrLedgerDown):
		s.down++
	case err != nil:
		s.strange = err
	case answers[0].Err != nil:
		s.strange = answers[0].Err
	default:
		s.granted = append(s.granted, answers[0].Receipt.ID)
	}
}

var crowded = charge("crowded", quota.MaxLimit, quota.Sliding(24*time.Hour))

// tally is how many of a crowd's calls the ledger holds.
type tally struct {
	granted, held, lost, doubts, down int
	slowest                           time.Duration
}

func (v tally) String() string {
	return fmt.Sprintf("%d granted, %d of them lost, %d held, %d in doubt, %d down, slowest %s", v.granted, v.lost, v.held, v.doubts, v.down, v.slowest)
}

// finish ends the crowd and compares the log with the answers: the log holds no
// call twice and none that was not made, and the sum is right.
func (c *crowd) finish(t *testing.T, reader quota.Ledger) (v tally) {
	t.Helper()
	c.end()
	times := map[quota.ID]int{}
	for _, e := range entries(t, reader) {
		times[e.ID]++
		v.held++
		if times[e.ID] > 1 || e.Units != 1 {
			t.Errorf("%v is charged %d times, now %d units", e.ID, times[e.ID], e.Units)
		}
	}
	for _, s := range c.spenders {
		v.granted, v.doubts, v.down = v.granted+len(s.granted), v.doubts+s.doubts, v.down+s.down
		v.slowest = max(v.slowest, s.slowest)
		for _, id := range s.granted {
			if times[id] == 0 {
				v.lost++
			}
		}
		if s.doubted != nil {
			t.Logf("in doubt: %v", s.doubted)
		}
		if s.strange != nil {
			t.Errorf("unexpected error: %v", s.strange)
		}
	}
	if extra := v.held - (v.granted - v.lost); extra < 0 || extra > v.doubts {
		t.Errorf("%s; more are held than were granted or in doubt", v)
	}
	if sum := used(t, reader, crowded); sum != quota.Units(v.held) {
		t.Errorf("the log holds %d calls, its sum is %d", v.held, sum)
	}
	if v.slowest > tolerated {
		t.Errorf("%s; want every answer within about a second", v)
	}
	t.Log(v)
	return v
}

// exactly spends until a call is refused, and checks that the log then holds
// exactly the limit, with the calls of all hosts and servers before.
func exactly(t *testing.T, ledgers ...quota.Ledger) {
	t.Helper()
	before := used(t, ledgers[0], crowded)
	limit := charge("exactly", before+507, quota.Sliding(24*time.Hour))
	var wg sync.WaitGroup
	for _, l := range ledgers {
		wg.Go(func() {
			for _, units := range []quota.Units{100, 7, 1} {
				for {
					if _, err := spend(t, l, "m", units, limit); err != nil {
						if !errors.Is(err, quota.ErrRefused) {
							t.Errorf("%v", err)
						}
						break
					}
				}
			}
		})
	}
	wg.Wait()
	if sum := used(t, ledgers[0], limit); sum != limit.Limit {
		t.Errorf("%d units; want the limit of %d", sum, limit.Limit)
	}
}

func (c *crowd) ledgers() (all []quota.Ledger) {
	for _, s := range c.spenders {
		all = append(all, s.ledger)
	}
	return all
}

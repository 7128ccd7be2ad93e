package journal_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/memledger"
)

// These tests set the host's clock back over the start of an hour. The journal
// had a file for each hour, and what was written later was in an earlier one,
// which a process that starts reads first.

// aloneAt is a host with a ledger that has a right clock.
type aloneAt struct {
	inner *faulty
	ahead time.Duration // of the host's clock
	dir   string
	o     *journal.Options
}

func newAloneAt(t *testing.T) *aloneAt {
	h := &aloneAt{inner: failing(nil), dir: t.TempDir()}
	h.inner.Ledger = memledger.Open(nil)
	h.o = hourly(500, 500, 0, &h.ahead)
	time.Sleep(30 * time.Minute)
	return h
}

// process starts a process, which ends with the test.
func (h *aloneAt) process(t *testing.T) *journal.Ledger {
	l := journal.New(h.inner, h.dir, h.o)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (h *aloneAt) charge() *quota.Charge {
	return &quota.Charge{Budget: "hour", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 500, Window: h.o.Budgets[0].Window}
}

// ask makes a call of 10 units with an id.
func (h *aloneAt) ask(t *testing.T, l *journal.Ledger, seq uint64) quota.Receipt {
	t.Helper()
	answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Client: 7, Seq: seq, Requests: []quota.Request{{Method: "m", Units: 10, Charges: []*quota.Charge{h.charge()}}}})
	must(t, err)
	must(t, answers[0].Err)
	return answers[0].Receipt
}

// setDown sets whether the ledger is down, and waits until it is asked again.
func (h *aloneAt) setDown(down bool) {
	if h.inner.fail(nil); down {
		h.inner.fail(errDown)
	}
	time.Sleep(3 * time.Second)
}

// lose empties the ledger.
func (h *aloneAt) lose() { h.inner.Ledger = memledger.Open(nil) }

func (h *aloneAt) mustHold(t *testing.T, want quota.Units) {
	t.Helper()
	var units quota.Units
	for e, err := range h.inner.Entries(t.Context(), quota.Query{Account: account}) {
		must(t, err)
		units += e.Units
	}
	if units != want {
		t.Errorf("%d units are in the log; want %d", units, want)
	}
}

// TestCallIsMadeAgainInAnEarlierHour: a call was made while the ledger was
// down, and refunded. In the next outage it was made again by its id, and a
// process that started later took that for the first one: it was never charged.
func TestCallIsMadeAgainInAnEarlierHour(t *testing.T) {
	for name, isIdle := range map[string]bool{"by a new process": false, "by one that was idle meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newAloneAt(t)
				idle := h.process(t)
				h.ask(t, idle, 1)
				h.ahead = 2 * time.Hour
				h.setDown(true)
				l := h.process(t)
				must(t, l.Refund(t.Context(), h.ask(t, l, 2)))
				h.setDown(false)
				h.ask(t, l, 3) // restored
				h.ahead = 0
				h.setDown(true)
				if !isIdle {
					idle = h.process(t)
				}
				h.ask(t, idle, 2)
				h.setDown(false)
				h.ask(t, h.process(t), 4)
				h.mustHold(t, 40)
			})
		})
	}
}

// TestSettledBeforeItsCall: what a call was settled to, and heard with the next
// one, was read before the call, and counted as heard earlier. After a loss,
// the host entered a note of 20 units for others, who had spent nothing.
func TestSettledBeforeItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAloneAt(t)
		h.ahead = 2 * time.Hour
		l := h.process(t)
		receipt := h.ask(t, l, 1)
		h.ahead = 0
		time.Sleep(time.Second)
		must(t, l.Settle(t.Context(), receipt, 30))
		h.ask(t, l, 2)
		h.lose()
		time.Sleep(time.Second)
		h.ask(t, h.process(t), 3)
		h.mustHold(t, 50)
	})
}

// TestCooldownAfterAClockWasAhead: a cooldown that was heard after the host's
// clock was corrected is set again in a ledger that has forgotten; one that was
// heard before is not, since its end may be wrong.
func TestCooldownAfterAClockWasAhead(t *testing.T) {
	for name, isAhead := range map[string]bool{"after": false, "before": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newAloneAt(t)
				h.ahead = 4 * time.Hour
				l := h.process(t)
				h.ask(t, l, 1)
				if !isAhead {
					h.ahead = 0
					h.ask(t, l, 2) // says that the clock is right
				}
				until := time.Now().Add(h.ahead + 30*time.Minute)
				must(t, l.SetCooldown(t.Context(), quota.Cooldown{Account: account, Budget: "hour", Until: until}))
				must(t, l.Close())
				h.ahead = 0
				time.Sleep(time.Second)
				h.lose()
				_, err := spend(t.Context(), h.process(t), "k", 1)
				must(t, err)
				standings, err := h.inner.Standings(t.Context(), account, "", []*quota.Charge{h.charge()})
				must(t, err)
				if isSet := standings[0].Cooldown != nil; isSet == isAhead {
					t.Errorf("%+v; the cooldown was set again: %t", standings[0], isSet)
				}
			})
		})
	}
}

// TestCooldownIsHeardAgain: a cooldown that was heard while the clock was
// ahead, and again with the right one, is set again in a ledger that has
// forgotten.
func TestCooldownIsHeardAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAloneAt(t)
		l := h.process(t)
		h.ask(t, l, 1)
		h.ahead = 4 * time.Hour
		cooldown := quota.Cooldown{Account: account, Budget: "hour", Until: time.Now().Add(90 * time.Minute)}
		must(t, h.inner.SetCooldown(t.Context(), cooldown)) // by another host
		batch := &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 10, Charges: []*quota.Charge{h.charge()}}}}
		for range 2 {
			if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err == nil {
				t.Fatalf("%+v, %v; want a refusal", answers, err)
			}
			h.ahead = 0
			time.Sleep(2 * time.Second)
		}
		h.lose()
		_, err := spend(t.Context(), h.process(t), "k", 1)
		must(t, err)
		standings, err := h.inner.Standings(t.Context(), account, "", []*quota.Charge{h.charge()})
		must(t, err)
		if standings[0].Cooldown == nil {
			t.Errorf("%+v; the cooldown was not set again", standings[0])
		}
	})
}

// TestFileOfAClockThatWasDaysAhead: a file that was begun by a clock far ahead
// would be appended to until then.
func TestFileOfAClockThatWasDaysAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAloneAt(t)
		for seq, ahead := range []time.Duration{0, 30, 0} {
			h.ahead = ahead * time.Hour
			time.Sleep(2 * time.Hour)
			h.ask(t, h.process(t), uint64(seq+1))
		}
		names, err := filepath.Glob(filepath.Join(h.dir, "*.journal"))
		must(t, err)
		if len(names) != 3 {
			t.Errorf("%q; want a file for each of 3 hours", names)
		}
		for _, name := range names {
			info, err := os.Stat(name)
			must(t, err)
			if info.Size() > 200 {
				t.Errorf("%s has %d bytes; want those of one call", name, info.Size())
			}
		}
	})
}

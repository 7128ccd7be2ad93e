//go:build !race

package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/ration-dev/ration/quota"
)

// breakThings injects faults into the ledger until an end.
func (w *world) breakThings(end time.Time) {
	rng := rand.New(rand.NewPCG(w.seed, 2))
	often := []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour}[rng.IntN(3)]
	calm := rng.IntN(4) == 0 // the ledger forgets nothing
	longest := 5 * time.Hour
	if isHasty(w.seed) {
		often, longest = time.Minute, 2*time.Minute
	}
	for {
		time.Sleep(time.Duration(1 + rng.Int64N(int64(2*often))))
		if time.Now().After(end) || w.failure != "" {
			break
		}
		length := time.Duration(1 + rng.Int64N(int64([]time.Duration{3 * time.Second, 10 * time.Minute, 5 * time.Hour}[rng.IntN(3)])))
		length = min(length, longest)
		fault := rng.IntN(8)
		if w.losesAnswers() && (fault == 1 || fault == 3) {
			fault = 2
		}
		switch {
		case fault == 0:
			w.server.down = time.Now().Add(length)
			w.outages++
			w.event("the ledger is down for %v", length)
		case fault == 1:
			w.server.slow = time.Now().Add(min(length, 10*time.Minute))
			w.event("the ledger is slow for %v", length)
		case fault == 2:
			w.server.lossy = time.Now().Add(min(length, time.Hour))
			w.event("the network is lossy for %v", length)
		case fault == 3 && w.wobble > 0:
			w.setClock(time.Duration(rng.Int64N(int64(2*w.wobble))) - w.wobble)
		case fault == 4 && w.clocksStep():
			w.correct(w.current[rng.IntN(len(w.current))], clockError(rng), rng.IntN(4) == 0)
		case fault <= 5:
			w.server.takeSnapshot()
			w.event("a copy is made")
		case calm:
		case fault == 6:
			w.forget(0)
		default:
			w.forget(1 + rng.IntN(4))
		}
	}
	w.server.down, w.server.slow, w.server.lossy = time.Time{}, time.Time{}, time.Time{}
}

// correct sets a host's clock, and may start the host anew. Its calls of an
// outage that the ledger does not have yet are restored with the times that it
// showed when they were made, if the host cannot tell how long ago that is.
func (w *world) correct(h *host, ahead time.Duration, isReboot bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h.ahead = ahead
	if isReboot {
		w.startHost(h)
	}
	for _, s := range w.grants {
		isDatedByClock := s.boot == 0 || s.boot != h.boot
		if s.allowance && s.host == h.number && isDatedByClock {
			s.early = max(s.early, ahead-s.ahead)
		}
	}
	w.event("the clock of host %d is %v ahead, start %d", h.number, ahead, h.boot)
}

func (w *world) setClock(ahead time.Duration) {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.clock = ahead
	w.event("the ledger's clock is %v ahead", ahead)
}

// settleDown ends the world: each host starts once more, and the ledger must
// then have every call that reached the upstream.
func (w *world) settleDown() {
	for range 2 {
		for _, h := range w.current {
			time.Sleep(2 * time.Minute)
			p := w.start(h, 0, w.file(h), 100)
			_, err := p.guard.Spend(context.Background(), quota.Call{Account: account, Method: "list", Units: 1})
			w.event("host %d returns: %v", h.number, err == nil)
			_ = p.ledger.Close()
		}
	}
	for _, h := range w.current {
		w.checkHeld(h)
	}
	w.checkCharges()
	w.checkNotes()
}

// checkHeld checks I3 for a host that has restored what it knows: the ledger
// has each of its calls that reached the upstream.
func (w *world) checkHeld(h *host) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.forgot) < timeout { // perhaps after the restoration
		return
	}
	counted := w.server.counted()
	for _, s := range w.upstream.all {
		units, ok := counted[s.receipt.ID]
		atLeast := min(s.charged, s.real)
		if w.isOlder { // it may have the call, and not what it turned out to cost
			atLeast = min(s.price, s.real)
		}
		if s.host == h.number && !s.inFlight && time.Since(s.decided) < 23*time.Hour && (!ok || units < atLeast) {
			w.fail("I3: %v, granted %s (allowance %v, lost %s), is not in the ledger, or with %d units", s, w.clock(s.decided), s.allowance, w.clock(s.counts[0].lost), units)
		}
	}
}

// checkNotes checks I6: a window after the last loss, all that was noted is
// free. An older copy is lost until a host misses something in it. A call of an
// outage may keep the time of a host's clock that was set ahead, if the log
// does.
func (w *world) checkNotes() {
	if w.isOlder {
		return
	}
	latest := w.forgot.Add(2*w.wobble + timeout)
	if w.clocksStep() {
		latest = latest.Add(quota.MaxStepBack)
	}
	for _, e := range w.server.entries() {
		if e.Kind == quota.EntryNote && e.At.After(latest) {
			w.fail("I6: a note of %d units and %d calls is of %s, and the ledger last forgot at %s", e.Units, e.Calls, w.clock(e.At), w.clock(w.forgot))
		}
	}
}

// checkCharges checks I4: no entry has more units than its call may have cost.
// Entries whose grant reached no process are those of calls whose answer was
// lost, and together they have at most the units of these. The world keeps its
// grants for 50 hours, which leaves entries of the last 40 to compare.
func (w *world) checkCharges() {
	told := map[quota.ID]quota.Units{}
	for _, s := range w.grants {
		told[s.receipt.ID] += max(s.price, s.real)
	}
	unknown := w.unknown
	for _, e := range w.server.entries() {
		most, ok := told[e.ID]
		switch {
		case e.Kind == quota.EntryNote || time.Since(e.At) > 40*time.Hour:
		case ok && e.Units > most:
			w.fail("I4: the ledger has %d units of a call of %d", e.Units, most)
		case !ok:
			if unknown -= e.Units; unknown < 0 {
				w.fail("I4: the ledger has %d units more than those of all calls with an unknown outcome", -unknown)
			}
		}
	}
}

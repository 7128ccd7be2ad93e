package ledgertest_test

import (
	"fmt"
	"slices"
	"time"
)

// fate is what becomes of an append.
type fate int

const (
	answered fate = iota
	answerLost
	appendLost
	appendLate
	killedAfter
	killedBefore
	fates
)

func (w *world) drawFate() fate {
	if isFlaky := time.Now().Before(w.flakyTill) && w.rng.IntN(2) == 0; isFlaky || w.rng.Float64() < w.noise {
		return fate(1 + w.rng.IntN(int(fates)-1))
	}
	return answered
}

// fault is something that happens at a time.
type fault struct {
	at    time.Time
	name  string
	isEnd bool // it ends what another one began
	occur func()
}

// planFaults draws faults, of which any longest window has two at most, with
// what follows from them.
func (w *world) planFaults() {
	quiet := 26 * time.Hour
	ends := []time.Time{w.began, w.began}
	for at := w.began; ; {
		gap := []time.Duration{2 * time.Minute, time.Hour, 12 * time.Hour, 40 * time.Hour}[w.rng.IntN(4)]
		at = at.Add(time.Duration(w.rng.Int64N(int64(gap))))
		if earliest := ends[0].Add(quiet); at.Before(earliest) && len(w.faults) > 1 {
			at = earliest
		}
		if !at.Before(w.end) {
			break
		}
		ends = []time.Time{ends[1], w.planFault(at)}
	}
	slices.SortStableFunc(w.faults, func(a, b fault) int { return a.at.Compare(b.at) })
}

// planFault plans one fault, and returns when it ends.
func (w *world) planFault(at time.Time) (end time.Time) {
	add := func(at time.Time, isEnd bool, occur func(), format string, args ...any) {
		w.faults = append(w.faults, fault{at, fmt.Sprintf(format, args...), isEnd, occur})
	}
	lasts := []time.Duration{30 * time.Second, 10 * time.Minute, 2 * time.Hour, 9 * time.Hour}[w.rng.IntN(4)]
	end = at.Add(time.Second + time.Duration(w.rng.Int64N(int64(lasts))))
	host := func() *host { return w.hosts[w.rng.IntN(len(w.hosts))] }
	switch w.rng.IntN(10) {
	case 0, 1:
		add(at, false, func() { w.store.isDown = true }, "the ledger is down")
		add(end, true, func() { w.store.isDown = false }, "the ledger is back")
		return end
	case 2:
		add(at, false, func() { w.replace(&log{}) }, "the ledger is emptied")
	case 3:
		add(at, false, func() { w.replace(w.drawCopy(20)) }, "the ledger is replaced by an older copy")
	case 4:
		add(at, false, func() { w.replace(w.drawCopy(2)) }, "a failover loses the tail of the log")
	case 5:
		copied := w.copy()
		add(at, false, func() { copied = w.copy() }, "a replica of the ledger is cut off")
		add(end, false, func() { w.replace(copied) }, "a failover to the replica that was cut off")
		return end
	case 6:
		add(at, false, func() { w.flakyTill = end }, "the network is flaky until %s", stamp(end))
		return end
	case 7:
		ahead := []time.Duration{5 * time.Second, 90 * time.Second, 4 * time.Minute, time.Hour,
			25 * time.Hour}[w.rng.IntN(5)]
		if w.rng.IntN(2) == 0 {
			ahead = -ahead
		}
		add(at, false, func() { w.setClock(ahead) }, "the ledger's clock steps by %v", ahead)
		add(end, true, func() { w.setClock(0) }, "the ledger's clock is corrected")
		return end
	case 8:
		add(at, false, func() { h := host(); w.event("of host %d", h.number); h.loseReplica() }, "a replica is deleted")
	case 9:
		add(at, false, func() { h := host(); w.event("of host %d", h.number); h.cutPower() }, "a power cut")
	}
	return at
}

// copy returns a copy of the log.
func (w *world) copy() *log {
	c := w.store.log
	c.known = slices.Clone(c.known)
	return &c
}

// drawCopy returns one of the latest copies, or an empty log.
func (w *world) drawCopy(latest int) *log {
	if len(w.copies) == 0 {
		return &log{}
	}
	from := max(0, len(w.copies)-latest)
	c := *w.copies[from+w.rng.IntN(len(w.copies)-from)]
	c.known = slices.Clone(c.known)
	return &c
}

func (w *world) replace(l *log) {
	w.losses++
	w.lastLoss = time.Now()
	w.store.log = *l
	w.store.life++
}

// clockError is by how much the ledger's clock was wrong from a time on.
type clockError struct {
	from  time.Time
	ahead time.Duration
}

func (w *world) setClock(ahead time.Duration) {
	w.lastWrong = time.Now().Add(max(0, w.store.ahead)) // until then, what it has stamped looks right
	w.store.ahead = ahead
	w.clocks = append(w.clocks, clockError{time.Now(), ahead})
}

// maxAhead is how far the ledger's clock may be ahead to be believed.
const maxAhead = 5 * time.Minute

// shift returns by how much the ledger can have taken a time for a later one
// than it is now, compared with what it had taken one for since another time.
func (w *world) shift(since time.Time) (ahead, behind time.Duration) {
	for i, c := range w.clocks {
		if isLast := i == len(w.clocks)-1; isLast || w.clocks[i+1].from.After(since) {
			behind = max(behind, -c.ahead)
		}
	}
	return min(max(w.store.ahead, 0), maxAhead), behind
}

package quota

import (
	"context"
	"sync"
	"time"
)

// maxLonger is how long a stop may become by being repeated.
const maxLonger = 10 * time.Minute

// stopList remembers where upstreams said stop, so that a short stop is not
// paid for by every caller that waited for its end: one call, the probe, asks
// whether it is over, and the others wait for its answer. When the upstream
// says stop to a probe, the next stop is longer. Its zero value is empty.
type stopList struct {
	mu    sync.Mutex
	stops map[stopName]*stop
}

type stopName struct{ account, budget string }

// stop is one that no later answer has lifted.
type stop struct {
	name    stopName
	at      time.Time // when the upstream said it last
	repeats int       // how often it was said to a call that had waited for its end
	probe   *probe    // nil when none is under way
}

// probe is the call that finds out whether a stop is over.
type probe struct {
	stop  *stop
	ended chan struct{}
}

// enter waits until no other call is the probe of a stop that covers a call, at
// most for limit, and returns the probe that the call has become. It is nil
// when there is no such stop, or the wait has ended.
func (l *stopList) enter(ctx context.Context, g *Guard, call Call, limit time.Duration) *probe {
	deadline := time.Now().Add(limit)
	for {
		l.mu.Lock()
		stop := l.covering(g, call)
		if stop == nil {
			l.mu.Unlock()
			return nil
		}
		other := stop.probe
		if other == nil {
			stop.probe = &probe{stop, make(chan struct{})}
			l.mu.Unlock()
			return stop.probe
		}
		l.mu.Unlock()
		left := time.Until(deadline)
		if left <= 0 || sleep(ctx, left, other.ended) != nil {
			return nil
		}
	}
}

// covering returns a stop that covers a call: the account's, or one of its
// budgets'.
func (l *stopList) covering(g *Guard, call Call) *stop {
	if len(l.stops) == 0 {
		return nil
	}
	if s := l.stops[stopName{account: call.Account}]; s != nil {
		return s
	}
	for _, charge := range g.plan(&call).charges {
		if s := l.stops[stopName{call.Account, charge.Budget}]; s != nil {
			return s
		}
	}
	return nil
}

// leave ends a probe, which may be nil. To end it twice is a no-op.
func (l *stopList) leave(p *probe) {
	if p == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.stop.probe == p {
		p.stop.probe = nil
		close(p.ended)
	}
}

// answered takes the answer to a request that was sent at a time, and returns
// for how long to stop. Only a refusal that a later call may escape, which is
// transient, is repeated; one to a request sent before the last of them came
// belongs to the same stop. What is neither a stop nor transient ends the stops
// that cover the call.
func (l *stopList) answered(g *Guard, call Call, v *Verdict, sent time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.For <= 0 || !v.Transient {
		for s := l.covering(g, call); s != nil && !v.Transient && s.at.Before(sent); s = l.covering(g, call) {
			delete(l.stops, s.name)
		}
		return v.For
	}
	name := stopName{call.Account, v.Budget}
	s := l.stops[name]
	switch {
	case s == nil:
		if l.stops == nil {
			l.stops = map[stopName]*stop{}
		}
		l.stops[name] = &stop{name: name, at: time.Now()}
		return v.For
	case sent.Before(s.at):
		return v.For
	}
	s.at, s.repeats = time.Now(), min(s.repeats+1, 20)
	longer := min(v.For, maxLonger) << s.repeats
	return max(v.For, min(longer, maxLonger))
}

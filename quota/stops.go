package quota

import (
	"context"
	"sync"
	"time"
)

// maxLonger is how long a stop may become by being repeated.
const maxLonger = 10 * time.Minute

// stopList remembers where upstreams said stop, so that a short stop is not
// paid for by every caller that waited for its end: one call of all processes,
// the probe, asks whether it is over, and the others wait for its answer. When
// the upstream says stop to a probe, the next stop is longer. A list belongs to
// one process; probes of several are kept apart by claims in the ledger. Its
// zero value is empty.
type stopList struct {
	mu    sync.Mutex
	stops map[stopName]*stop
}

type stopName struct{ account, budget string }

// stop is one that no later answer has lifted.
type stop struct {
	name    stopName
	at      time.Time // when the upstream said it last
	repeats int       // how often it was said to a call that had waited for its end; -1 when only a cooldown told of it
	probe   *probe    // nil when none is under way
}

// probing is how a Transport waits at stops; its zero value charges calls
// without regard to them.
type probing struct {
	stops *stopList
	probe *probe // nil when the call is not one
}

// metStop is the error of a wait that ended with a cooldown: the call, which is
// not a probe, must not be charged before the stop's probe has its answer.
type metStop struct{ budget string }

func (*metStop) Error() string { return "quota: waited for the end of a cooldown" }

// metAfter returns a *metStop when a call has waited for what refused a call.
func (p probing) metAfter(refused *RefusedError) error {
	if p.stops == nil || p.probe != nil || refused.Reason != ReasonCooldown {
		return nil
	}
	return &metStop{refused.Budget}
}

// wait charges a call as Guard.Wait does, once it is its turn at the stops that
// cover it. The caller passes the probe, which may be nil, to leave.
func (l *stopList) wait(ctx context.Context, g *Guard, call Call, limit time.Duration) (*Grant, *probe, error) {
	for deadline := time.Now().Add(limit); ; {
		began := time.Now()
		probe := l.enter(ctx, g, call, deadline.Sub(began))
		grant, err := g.wait(ctx, call, time.Until(deadline), probing{l, probe})
		if met, ok := err.(*metStop); ok {
			l.meet(stopName{call.Account, met.budget}, began)
			continue
		}
		if err != nil {
			l.leave(ctx, g, probe)
			return nil, nil, err
		}
		return grant, probe, nil
	}
}

// meet remembers a stop that another process was told of.
func (l *stopList) meet(name stopName, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stops[name] == nil {
		l.add(&stop{name: name, at: at, repeats: -1})
	}
}

func (l *stopList) add(s *stop) {
	if l.stops == nil {
		l.stops = map[stopName]*stop{}
	}
	l.stops[s.name] = s
}

// lift forgets the stop of a probe, because another process's probe found that
// it is over, and ends the probe.
func (l *stopList) lift(p *probe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stops[p.stop.name] == p.stop {
		delete(l.stops, p.stop.name)
	}
	l.end(p)
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
			stop.probe = &probe{stop: stop, ended: make(chan struct{}), repeats: -1}
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

// leave ends a probe, which may be nil, and its claim. To end it twice is a
// no-op.
func (l *stopList) leave(ctx context.Context, g *Guard, p *probe) {
	if p == nil {
		return
	}
	p.release(ctx, g)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(p)
}

func (l *stopList) end(p *probe) {
	if p.stop.probe == p {
		p.stop.probe = nil
		close(p.ended)
	}
}

// answered takes the answer to a request that was sent at a time, which may be
// a probe, and returns for how long to stop. Only a refusal that a later call may escape, which is
// transient, is repeated; one to a request sent before the last of them came
// belongs to the same stop. What is neither a stop nor transient ends the stops
// that cover the call.
func (l *stopList) answered(g *Guard, call Call, v *Verdict, p *probe, sent time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v.For <= 0 || !v.Transient {
		for s := l.covering(g, call); s != nil && !v.Transient && s.at.Before(sent); s = l.covering(g, call) {
			delete(l.stops, s.name)
		}
		if p != nil && v.For <= 0 && !v.Transient {
			p.outcome = probeOver
		}
		return v.For
	}
	name := stopName{call.Account, v.Budget}
	s := l.stops[name]
	switch {
	case s == nil:
		l.add(&stop{name: name, at: time.Now()})
		return v.For
	case sent.Before(s.at):
		return v.For
	}
	probes := p != nil && p.stop.name == name
	if probes {
		s.repeats = max(s.repeats, p.repeats)
	}
	s.at, s.repeats = time.Now(), min(s.repeats+1, 20)
	if probes {
		p.outcome = probeStopped + Units(s.repeats)
	}
	longer := min(v.For, maxLonger) << s.repeats
	return max(v.For, min(longer, maxLonger))
}

package ledgertest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/ration-dev/ration/quota"
)

// call is one that the upstream was sent.
type call struct {
	quota.Call
	at     time.Time
	asked  time.Time // when it was asked first, which is earlier if it was in doubt
	p      *process
	grant  *quota.Grant
	events []event // that it was granted, and then what it has really cost
}

// event is something that processes, disks and logs know of a call.
type event struct {
	id    int
	units quota.Units
}

// unsent is a call that may be charged though it was not sent.
type unsent struct {
	at   time.Time
	call quota.Call
}

// repeat is a call with an id of its own that was in doubt.
type repeat struct {
	h     *host
	call  quota.Call
	asked time.Time
}

func drawCall(rng *rand.Rand, n int) quota.Call {
	cost := map[string]quota.Units{"list": 1, "search": 4, "upload": 9}
	c := quota.Call{Account: account, Method: []string{"list", "search", "search", "upload"}[rng.IntN(4)]}
	c.Units = cost[c.Method]
	c.Caller.Region = []string{"", "EU", "US"}[rng.IntN(3)]
	if rng.IntN(5) == 0 {
		c.ID = quota.NameID(fmt.Sprint("call", n), c.Method)
	}
	return c
}

func (p *process) spendSome() {
	w := p.host.w
	c := drawCall(w.rng, len(w.calls)+len(w.unsent))
	for range 1 + w.rng.IntN(4) {
		refused := p.spend(c)
		if c.ID = (quota.ID{}); refused == nil || w.failure != "" || p.conn.isDead {
			break
		}
		isCalm := !p.conn.failed && time.Since(w.lastWrong) > 2*w.horizon() && time.Since(w.lastLoss) > w.horizon()
		isCalm = isCalm && w.store.ahead == 0 && w.noise == 0
		if !isCalm || w.rng.IntN(3) > 0 || refused.RetryAfter < 0 || w.failure != "" {
			break
		}
		w.retry(p, c, refused)
	}
}

// retry makes a call again when its refusal said that it would be granted.
func (w *world) retry(p *process, c quota.Call, refused *quota.RefusedError) {
	at := time.Now().Add(refused.RetryAfter)
	isDisturbed := len(w.faults) > 0 && !w.faults[0].at.After(at) || time.Now().Before(w.flakyTill)
	if isDisturbed || len(w.store.late) > 0 {
		return
	}
	w.sleep(refused.RetryAfter)
	if again := p.spend(c); again != nil {
		w.fail("%v: %s was to be granted at %s", p, c.Method, stamp(at))
	}
}

// use calls f, which uses the ledger, and reports whether that was used, and
// answered all the time.
func (p *process) use(f func() error) (ok bool, err error) {
	p.granted, p.conn.failed = false, false
	before := p.conn.served
	err = f()
	p.wasDown = p.wasDown || p.conn.failed
	isAnswered := err == nil || errors.Is(err, quota.ErrRefused)
	if isAnswered && p.conn.served > before && !p.conn.failed && !p.granted {
		p.meet()
		return true, err
	}
	return false, err
}

// meet lets the ledger and a process know what the other one knows. A process
// that the log has lost nothing of may take it for the one on its host's disk
// until another process of the host starts, or has lost something.
func (p *process) meet() {
	h, inLog := p.host, &p.host.w.store.log.known
	if isDiverged := p.life != h.w.store.life && !inLog.contains(p.known); p.isNew || isDiverged {
		p.known.union(h.onDisk)
	}
	if p.wasDown {
		for _, e := range h.outages {
			p.known.add(e)
		}
	}
	p.isNew, p.wasDown, p.life = false, false, h.w.store.life
	inLog.union(p.known)
	var learned set
	for i, word := range *inLog {
		if i < len(p.known) {
			word &^= p.known[i]
		}
		learned = append(learned, word)
	}
	p.known.union(learned)
	h.learn(learned)
}

// happen adds an event to a call, which the process knows, and the log too if
// it is used.
func (p *process) happen(c *call, units quota.Units, inLog bool) {
	w := p.host.w
	e := event{w.events, units}
	w.events++
	c.events = append(c.events, e)
	var learned set
	learned.add(e.id)
	p.host.learn(learned)
	if inLog {
		p.known.add(e.id)
		w.store.log.known.add(e.id)
	} else {
		p.host.outages = append(p.host.outages, e.id)
	}
}

// spend asks for a call, and sends it if it is granted.
func (p *process) spend(c quota.Call) (refused *quota.RefusedError) {
	w := p.host.w
	w.unsent = append(w.unsent, unsent{time.Now(), c})
	w.asked = &c
	defer func() { w.asked = nil }()
	var grant *quota.Grant
	ok, err := p.use(func() (err error) {
		grant, err = p.guard.Spend(context.Background(), c)
		return err
	})
	if w.event("%v: %s of %d for %q: %v", p, c.Method, c.Units, c.Caller.Region, err); w.failure != "" {
		return nil
	}
	switch {
	case err == nil:
		if !p.conn.isDead && w.rng.Float64() >= w.noise {
			w.unsent = w.unsent[:len(w.unsent)-1]
			p.send(c, grant, ok)
		} else if p.conn.isDead = true; w.failure == "" {
			w.event("%v is killed before it sends that", p)
		}
	case errors.As(err, &refused):
		w.unsent = w.unsent[:len(w.unsent)-1]
		w.checkRefusal(p, &c, refused, ok)
	case errors.Is(err, quota.ErrInDoubt) || p.conn.isDead:
		if c.ID != (quota.ID{}) {
			w.repeats = append(w.repeats, repeat{p.host, c, time.Now()})
		}
	case errors.Is(err, quota.ErrLedgerBusy) && w.store.ahead > maxAhead: // a calendar window has ended by its clock
	case !p.conn.failed && !errors.Is(err, quota.ErrLedgerDown):
		w.fail("%v: %v", p, err)
	}
	return refused
}

// send sends a call that was granted.
func (p *process) send(c quota.Call, grant *quota.Grant, inLog bool) {
	w := p.host.w
	if w.receipts[grant.ID()] {
		w.fail("%v: %s was granted twice", p, grant.ID())
	}
	w.receipts[grant.ID()] = true
	sent := &call{Call: c, at: time.Now(), asked: time.Now(), p: p, grant: grant}
	if !w.repeated.IsZero() {
		sent.asked = w.repeated
	}
	w.calls = append(w.calls, sent)
	p.calls = append(p.calls, sent)
	p.happen(sent, c.Units, inLog)
	if w.event("  sent as %s, by the ledger %t", grant.ID(), inLog); inLog && w.repeated.IsZero() {
		w.checkGrant(sent)
	} else if !inLog {
		w.checkAllowance(p.host)
	}
}

// repeatSome repeats the latest call that was in doubt, while ledgers remember
// its id for sure.
func (w *world) repeatSome() {
	r := w.repeats[len(w.repeats)-1]
	w.repeats = w.repeats[:len(w.repeats)-1]
	if time.Since(r.asked) > 10*time.Minute || time.Now().Before(r.h.awayUntil) {
		return
	}
	w.event("a repetition:")
	w.repeated = r.asked
	r.h.restartDead()
	r.h.processes[w.rng.IntN(len(r.h.processes))].spend(r.call)
	w.repeated = time.Time{}
}

// settleSome says what one of the latest calls has really cost.
func (p *process) settleSome() {
	w := p.host.w
	if len(p.calls) == 0 {
		return
	}
	i := len(p.calls) - 1 - w.rng.IntN(min(len(p.calls), 4))
	c := p.calls[i]
	if len(c.events) > 1 {
		return
	}
	cost := quota.Units(w.rng.IntN(2 * int(c.Units)))
	before := p.host.w.store.log.known.has(c.events[0].id)
	ok, err := p.use(func() error { return c.grant.Settle(context.Background(), cost) })
	w.event("%v: %s of %d has cost %d: %v", p, c.grant.ID(), c.Units, cost, err)
	isKept := err == nil && (!ok || before || w.store.log.known.has(c.events[0].id))
	switch {
	case isKept && !p.conn.isDead:
		p.happen(c, cost, ok)
	default:
		c.events = append(c.events, event{w.events, cost}) // which may be known
		w.events++
	}
}

// look reads what is new.
func (p *process) look() {
	_, err := p.use(func() error {
		_, _, err := p.guard.Now(context.Background(), account)
		return err
	})
	p.host.w.event("%v looks: %v", p, err)
}

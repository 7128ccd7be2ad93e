package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// lossy is hosts of two processes each that share a ledger, and an upstream
// that counts their calls. One host at a time makes calls.
type lossy struct {
	*rapid.T
	network
	rises   bool // calls may turn out to cost more
	budgets []quota.Budget
	hosts   []*lossyHost
	calling int // the number of the host that makes calls
	copies  []logCopy
	sent    []*sentCall
	trace   []string

	readings  int       // of the hosts' clocks until a process is killed; 0 never
	allowed   bool      // the present call was granted within the allowance
	newest    time.Time // when the ledger last granted a call
	raised    time.Time // when a call last turned out to cost more
	cold      time.Time // until when the account has a cooldown that is known
	isSettled bool      // the ledger has all that the calling host knows
}

// lossyHost is a host, and what it knows.
type lossyHost struct {
	*host
	number    int
	processes [2]*lossyProcess
	knows     time.Time // a log from before lacks the entry that it looks for
	lowered   time.Time // when a call last turned out to cost less
	heard     [2]bool   // of each budget, all that others have spent
	isCooled  bool      // it knows the cooldown
}

type lossyProcess struct {
	guard *quota.Guard
	sent  []*sentCall // that may be settled
}

type logCopy struct {
	log *memledger.Ledger
	at  time.Time
}

// sentCall is a call that reached the upstream.
type sentCall struct {
	at        time.Time // when it was asked for
	host      *lossyHost
	grant     *quota.Grant
	units     quota.Units // that the upstream counts
	allowance bool
}

// violation is what a world panics with that breaks the promise.
type violation string

// longestSpend is how long a call may take whose answers are lost.
const longestSpend = 5 * time.Second

func newLossy(t *testing.T, rt *rapid.T, hosts int, rises bool) *lossy {
	ofFile := quota.Config{Name: "costs.yaml"}
	w := &lossy{T: rt, rises: rises, network: network{log: memledger.Open(nil)}, budgets: []quota.Budget{
		{Account: account, Name: "day", Limit: 500, Window: quota.Sliding(24 * time.Hour), Config: ofFile},
		{Account: account, Name: "searches", Methods: []string{"search"}, Limit: 200, Window: quota.Sliding(6 * time.Hour), Config: ofFile},
	}}
	w.event = func(format string, args ...any) {
		w.trace = append(w.trace, time.Now().UTC().Format("02 15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
	for n := range hosts {
		h := &lossyHost{host: newHost(t, w.connect), number: n}
		h.host.budgets, h.now, h.granted = w.budgets, w.now, func(quota.Units) { w.allowed = true }
		w.hosts = append(w.hosts, h)
	}
	return w
}

// now is the clock of the hosts. A process may be killed when it reads it.
func (w *lossy) now() time.Time {
	if w.readings > 0 {
		if w.readings--; w.readings == 0 {
			w.isHit = true
			w.event("  the process is killed when it reads its clock")
			panic(kill{})
		}
	}
	return time.Now()
}

func (w *lossy) caller() *lossyHost { return w.hosts[w.calling] }

// run runs a process of the calling host. It is killed if a fault says so.
func (w *lossy) run(number int, do func(*lossyProcess)) {
	h := w.caller()
	defer func() {
		w.readings = 0
		for _, err := range h.seen {
			w.event("  reported: %v", err)
		}
		h.seen = nil
		switch r := recover().(type) {
		case nil:
		case kill:
			h.processes[number] = nil
			w.isSettled = false
		default:
			panic(r)
		}
	}()
	if h.processes[number] == nil {
		h.processes[number] = &lossyProcess{guard: h.process()}
	}
	do(h.processes[number])
}

// spend lets a process make a call, which arrives at once if it is granted.
func (w *lossy) spend(process int, method string, units quota.Units) (err error) {
	w.run(process, func(p *lossyProcess) {
		h := w.caller()
		c := &sentCall{at: time.Now(), host: h, units: units}
		w.allowed, w.isAnswered = false, false
		c.grant, err = p.guard.Spend(context.Background(), quota.Call{Account: account, Method: method, Units: units})
		c.allowance = w.allowed
		w.event("host %d, process %d: %s of %d, allowance %t: %v", h.number, process, method, units, w.allowed, err)
		w.learn(method, err)
		if err == nil {
			w.sent, p.sent = append(w.sent, c), append(p.sent, c)
			w.markUnheard(method)
			w.arrive(c)
		}
	})
	return err
}

// markUnheard notes that other hosts have not heard of a call.
func (w *lossy) markUnheard(method string) {
	for _, h := range w.hosts {
		for i := range w.budgets {
			h.heard[i] = h.heard[i] && (h == w.caller() || !covers(&w.budgets[i], method))
		}
	}
}

// learn notes what the calling host knows after a call.
func (w *lossy) learn(method string, err error) {
	h := w.caller()
	refused, isRefused := errors.AsType[*quota.RefusedError](err)
	isWhole := w.isAnswered && !w.isHit
	switch {
	case err == nil && !w.allowed:
		w.newest = time.Now()
		h.knows, w.isSettled = w.newest, true
		for i := range w.budgets {
			h.heard[i] = h.heard[i] || isWhole && covers(&w.budgets[i], method)
		}
	case isRefused && refused.Reason == quota.ReasonCooldown:
		w.isSettled = w.isSettled || isWhole
		h.isCooled = h.isCooled || w.isAnswered
	case isRefused && isWhole:
		w.isSettled = true
		for i := range w.budgets {
			h.heard[i] = h.heard[i] || w.budgets[i].Name == refused.Budget
		}
		h.knows = w.newest
	case !isRefused:
		w.isSettled = false
	}
}

// covers shares no code with the guard.
func covers(b *quota.Budget, method string) bool {
	return len(b.Methods) == 0 || slices.Contains(b.Methods, method)
}

// arrive checks the promise when a call arrives at the upstream.
func (w *lossy) arrive(c *sentCall) {
	for i := range w.budgets {
		b := &w.budgets[i]
		counts := func(o *sentCall) bool { return covers(b, o.grant.Call().Method) }
		if counts(c) {
			w.count(b.Name, b.Limit, b.Window.Length(), counts)
		}
	}
	if c.allowance {
		w.count("the allowance", 50, 24*time.Hour, func(o *sentCall) bool { return o.allowance && o.host == c.host })
	}
	if isKnown := c.host.isCooled || !c.allowance; isKnown && time.Now().Before(w.cold) {
		panic(violation("a call arrived during a cooldown"))
	}
}

// count checks that calls which are surely within a window cost no more than
// its limit.
func (w *lossy) count(name string, limit quota.Units, length time.Duration, counts func(*sentCall) bool) {
	sum, since := quota.Units(0), time.Now().Add(longestSpend-length)
	for _, c := range w.sent {
		if c.at.After(since) && counts(c) {
			sum += c.units
		}
	}
	if sum > limit {
		panic(violation(fmt.Sprintf("%d of %d of %s", sum, limit, name)))
	}
}

// settle lets a process settle a call to what it turned out to cost, or refund
// it, if one of the host's has made any.
func (w *lossy) settle() {
	var able []int
	for i, p := range w.caller().processes {
		if p != nil && len(p.sent) > 0 {
			able = append(able, i)
		}
	}
	if len(able) == 0 {
		return
	}
	process := pick(w.T, "process", able...)
	w.run(process, func(p *lossyProcess) {
		n := len(p.sent) - 1 - w.upTo(len(p.sent)-1, "call")
		c, kinds := p.sent[n], []string{"less", "refund"}
		if w.rises {
			kinds = []string{"more", "less", "refund"}
		}
		cost := c.grant.Call().Units
		settle := func() error { return c.grant.Settle(context.Background(), cost) }
		switch pick(w.T, "settles", kinds...) {
		case "refund":
			cost, p.sent = 0, slices.Delete(p.sent, n, n+1)
			settle = func() error { return c.grant.Refund(context.Background()) }
		case "less":
			cost /= 2
		case "more":
			cost += quota.Units(1 + w.upTo(39, "more"))
		}
		before := c.units
		if cost < before {
			w.caller().lowered = time.Now()
		}
		if c.units = min(c.units, cost); cost > before {
			w.raised = time.Now()
			w.markUnheard(c.grant.Call().Method)
		}
		err := settle()
		w.event("host %d, process %d: the call of %s settled from %d to %d: %v", w.calling, process, c.at.UTC().Format("15:04:05.000"), before, cost, err)
		if err == nil || strings.Contains(err.Error(), "keeps what the call cost") {
			c.units = cost
		}
		if err != nil {
			w.isSettled = false
		}
	})
}

// cool lets a process set a cooldown that later calls of its host obey.
func (w *lossy) cool(process int) {
	w.run(process, func(p *lossyProcess) {
		until := time.Now().Add(20 * time.Minute)
		err := p.guard.Cool(context.Background(), quota.Cooldown{Account: account, Until: until, Reason: "maintenance"})
		w.event("host %d, process %d: a cooldown until %s: %v", w.calling, process, until.UTC().Format("15:04:05.000"), err)
		if err == nil || strings.Contains(err.Error(), "keeps the cooldown") {
			w.cold = until
			for _, h := range w.hosts {
				h.isCooled = h == w.caller()
			}
		}
		if err != nil {
			w.isSettled = false
		}
	})
}

// mayFail reports whether the ledger may go down or be lost: the host that
// calls has heard of what others had spent of each budget.
func (w *lossy) mayFail() bool {
	return len(w.hosts) == 1 || !slices.Contains(w.caller().heard[:], false)
}

// lose puts another log in the ledger's place. A cooldown is lost with the old
// one, unless the host that calls knows it, and notices the loss.
func (w *lossy) lose(other *memledger.Ledger, isNoticed bool) {
	w.log = other
	w.life++
	w.isSettled = false
	if !isNoticed || !w.caller().isCooled {
		w.cold = time.Time{}
	}
}

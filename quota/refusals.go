package quota

import (
	"errors"
	"sync/atomic"
	"time"
)

// remembered is how long a refusal is remembered at most: what another
// process gives back may make room before its RetryAt.
const remembered = time.Second

// memory answers a call that was refused a moment ago from the process itself,
// so that a saturated guard costs next to nothing. A refusal holds for calls
// of the same plan and cost (another cost may have another RetryAt), until its RetryAt, a settle or refund of this
// Guard, or a second. With a ledger that a test's clock drives it is off.
type memory struct {
	on     bool
	base   time.Time     // what began is counted from: a difference costs half of time.Now
	forgot atomic.Uint64 // counts the events that end every refusal
}

// refused is the newest refusals of a plan, by cost: calls of few costs come in
// turns. Its zero value is none.
type refused [4]atomic.Pointer[refusal]

// of returns where the refusal of a cost is kept.
func (r *refused) of(units Units) *atomic.Pointer[refusal] {
	return &r[uint64(units)*0x9E3779B97F4A7C15>>62] // spreads costs that are multiples of each other
}

type refusal struct {
	RefusedError
	units  Units
	began  time.Duration // before the ledger was asked
	took   time.Duration // until it answered
	holds  time.Duration
	forgot uint64
}

// moment is when a ledger began to be asked.
type moment struct {
	at     time.Duration
	forgot uint64
}

func (m *memory) begin() moment {
	if !m.on {
		return moment{}
	}
	return moment{time.Since(m.base), m.forgot.Load()}
}

// remember keeps the refusal of a call that the ledger was asked for at a moment.
func (m *memory) remember(call *Call, p *plan, err error, began moment) {
	no, ok := errors.AsType[*RefusedError](err)
	if !ok || !m.on || call.Key != "" {
		return
	}
	p.refused.of(call.Units).Store(&refusal{RefusedError: *no, units: call.Units, began: began.at, took: time.Since(m.base) - began.at,
		holds: min(no.RetryAfter, remembered), forgot: began.forgot})
}

// recall returns the refusal that still holds for a call, or nil.
func (m *memory) recall(call *Call, p *plan) error {
	r := p.refused.of(call.Units).Load()
	if r == nil || call.Key != "" || call.Units != r.units || m.forgot.Load() != r.forgot {
		return nil
	}
	passed := time.Since(m.base) - r.began
	if passed >= r.holds {
		return nil
	}
	again := r.RefusedError
	again.Caller = call.Caller          // another job's call may have been refused
	again.RetryAfter -= passed - r.took // rather late by the ask than early
	return &again
}

func (m *memory) forget() { m.forgot.Add(1) }

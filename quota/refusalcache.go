package quota

import (
	"errors"
	"sync/atomic"
	"time"
)

// maxCached is the longest time for which a refusal is cached. Another process
// may return units before its RetryAt.
const maxCached = time.Second

// refusalCache caches refusals in this process, so that a saturated guard costs
// next to nothing. A refusal answers calls of the same charge set and cost; a
// call of another cost may have another RetryAt. It is valid until its RetryAt,
// for maxCached, or until this Guard settles, refunds or clears anything. The
// cache is off if the ledger is on a test's clock.
type refusalCache struct {
	on         bool
	base       time.Time     // monotonic times are counted from here, which costs half of time.Now
	generation atomic.Uint64 // a change invalidates all cached refusals
}

// refusalSlots holds the newest refusals of a charge set, by cost. There are
// several because calls of different costs may alternate. The zero value is
// empty.
type refusalSlots [4]atomic.Pointer[cachedRefusal]

// slot returns where the refusal of a cost is cached.
func (r *refusalSlots) slot(units Units) *atomic.Pointer[cachedRefusal] {
	return &r[uint64(units)*0x9E3779B97F4A7C15>>62] // spreads costs that are multiples of each other
}

type cachedRefusal struct {
	RefusedError
	units      Units
	asked      time.Duration // when the ledger was asked
	answered   time.Duration // when it answered
	valid      time.Duration // from asked
	generation uint64
}

// spendStart is the state of the cache when a spend begins.
type spendStart struct {
	at         time.Duration
	generation uint64
}

func (c *refusalCache) start() spendStart {
	if !c.on {
		return spendStart{}
	}
	return spendStart{time.Since(c.base), c.generation.Load()}
}

// isCached reports whether a refusal of the request may answer others, and that
// of another it. A call with an ID may have been granted before.
func (r *request) isCached() bool {
	isPlain := r.Key == "" && r.ID == ID{} && len(r.Measures) == 0
	return isPlain && !r.force && r.count == 1
}

// store caches the answer to a call if it is a refusal.
func (c *refusalCache) store(r *request, err error, start spendStart) {
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || !c.on {
		return
	}
	r.set.refused.slot(r.Units).Store(&cachedRefusal{
		RefusedError: *refused,
		units:        r.Units,
		asked:        start.at,
		answered:     time.Since(c.base),
		valid:        min(refused.RetryAfter, maxCached),
		generation:   start.generation,
	})
}

// lookup returns the cached refusal that answers a call, or nil.
func (c *refusalCache) lookup(asked *request) error {
	r := asked.set.refused.slot(asked.Units).Load()
	if r == nil || asked.Units != r.units || c.generation.Load() != r.generation {
		return nil
	}
	now := time.Since(c.base)
	if now-r.asked >= r.valid {
		return nil
	}
	again := r.RefusedError
	again.Caller = asked.Caller          // another job's call may have been refused
	again.RetryAfter -= now - r.answered // may be late by one round trip, never early
	return &again
}

// invalidate drops all cached refusals.
func (c *refusalCache) invalidate() { c.generation.Add(1) }

package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// errBack means that the ledger was found to be back.
var errBack = errors.New("the ledger is back")

// fallBack decides a batch without the ledger, which is down. It returns
// errBack if another call has found since that it is not, unless the caller has
// tried the ledger again.
func (l *Ledger) fallBack(ctx context.Context, a *account, batch *quota.Batch, down error, again bool) ([]quota.Answer, error) {
	if err := batch.Check(); err != nil {
		return nil, err
	}
	answers, alike := make([]quota.Answer, len(batch.Requests)), l.checkSpelling(batch.Account)
	var counted []int // the requests that the journal decides
	for i := range batch.Requests {
		r := &batch.Requests[i]
		switch err := r.Check(batch.Account); {
		case err != nil:
			answers[i].Err = err
		case r.Kind != quota.EntryCall:
			answers[i].Err = fmt.Errorf("%s is not a call, and needs the ledger: %w", r.Method, down)
		case !r.Force && l.allowed(batch, r) == 0:
			answers[i].Err = fmt.Errorf("%s has no %s: %w", r.Method, l.allowance, down)
		case !r.Force && alike != nil:
			answers[i].Err = alike
		default:
			counted = append(counted, i)
		}
	}
	if len(counted) == 0 {
		return answers, nil
	}
	err := a.files.locked(ctx, lockPatience, func() error {
		if !a.outage.lasts.Load() && !again {
			return errBack
		}
		return a.withState(func(s *state) error {
			if s.restorations != a.restorations && !again {
				a.restorations = s.restorations
				a.outage.retry()
				return errBack // for the process that has restored the log
			}
			return l.grant(a, s, batch, counted, answers, down)
		})
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, errBack):
		return nil, err
	}
	for _, i := range counted {
		switch {
		case err != nil:
			answers[i] = quota.Answer{Err: fmt.Errorf("%s cannot be counted without the ledger (%w): %w",
				batch.Requests[i].Method, err, down)}
		case answers[i].Err == nil && l.granted != nil:
			l.granted(batch.Requests[i].Units)
		}
	}
	return answers, nil
}

// grant grants the counted requests of a batch within the allowance, and writes
// them. The caller holds the lock.
func (l *Ledger) grant(a *account, s *state, batch *quota.Batch, counted []int, answers []quota.Answer, down error) error {
	client, seq := l.batchID(batch)
	now := l.moment(s)
	if batch.Once && s.hasOtherBatch(batch, now.at) {
		for _, i := range counted {
			answers[i].Err = quota.ErrReused
		}
		return nil
	}
	used, made := s.allowed(now), now.record()
	var records []record
	taken := map[quota.ID]record{}      // doubts of the same calls, which take the room that they may have already
	pending := map[string]quota.Units{} // what records add to each budget
	for _, i := range counted {
		r, id := &batch.Requests[i], quota.ID{Client: client, Seq: seq + uint64(i)}
		receipt := quota.Receipt{Account: batch.Account, Key: batch.Key, ID: id}
		if have := s.grants[id]; have != nil && have.calls > 0 { // an earlier attempt was granted
			receipt.At = decide.Time(have.receiptAt())
			answers[i].Receipt = receipt
			continue
		}
		doubt, isDoubted := s.doubts[id]
		if isDoubted && (doubt.method != r.Method || doubt.caller != r.Caller) {
			answers[i].Err = quota.ErrReused
			continue
		}
		delete(s.doubts, id)
		if !r.Force {
			if answers[i].Err = l.refusal(s, batch, r, now.at, used, pending, down); answers[i].Err != nil {
				if isDoubted {
					s.doubts[id] = doubt
				}
				continue
			}
		}
		if isDoubted {
			taken[id] = doubt
		}
		used += r.Units
		for _, charge := range r.Charges {
			pending[charge.Budget] += charge.Coverage.Amount(r.Units)
		}
		at := max(now.at, s.newest+1+int64(len(records)))
		records = append(records, record{kind: owed, at: at, skew: s.skew, id: id, units: r.Units, calls: 1, key: batch.Key, method: r.Method, caller: r.Caller, heard: made})
		receipt.At = decide.Time(at)
		answers[i].Receipt = receipt
	}
	if len(records) == 0 {
		return nil
	}
	err := a.files.setOwed(true)
	if err == nil {
		err = a.files.append(true, records...)
	}
	if err != nil {
		maps.Copy(s.doubts, taken)
		return err
	}
	return l.takeBack(a, s, batch, records)
}

// refusal returns why a call is not granted without the ledger, or nil.
// Cooldowns and balances are as they were when the ledger was last reached.
func (l *Ledger) refusal(s *state, batch *quota.Batch, r *quota.Request, now int64, used quota.Units, pending map[string]quota.Units, down error) error {
	rest := beside(r)
	if allowed := l.allowed(batch, r); used+r.Units+rest*r.Units > allowed {
		return fmt.Errorf("%s, %d of %d are left of the %s for all outages in 24 hours: %w",
			needText(r, rest), max(0, allowed-used), allowed, l.allowance, down)
	}
	budgets := []string{""}
	for _, charge := range r.Charges {
		budgets = append(budgets, charge.Budget)
	}
	for _, budget := range budgets {
		if c, now := s.cooldowns[budget], s.earliest(now); c.until > now {
			return &quota.RefusedError{Account: batch.Account, Key: batch.Key, Budget: budget, Method: r.Method, Units: r.Units, Caller: r.Caller,
				Reason: quota.ReasonCooldown, Detail: c.reason, Needed: r.Units,
				RetryAt: decide.Time(c.until), RetryAfter: time.Duration(c.until-now) * time.Microsecond}
		}
	}
	if batch.Key != "" {
		return nil
	}
	for _, charge := range r.Charges {
		left := l.left(s, charge, now)
		if need := charge.Coverage.Amount(r.Units); need > left-pending[charge.Budget] {
			return fmt.Errorf("%s needs %d of budget %q, which has %d left as far as this host knows: %w",
				r.Method, need+charge.Beside, charge.Budget, max(0, left-pending[charge.Budget]+charge.Beside), down)
		}
	}
	return nil
}

// beside returns how many calls follow that must fit beside a request, as
// quota.Guard.SpendTogether asks for them.
func beside(r *quota.Request) quota.Units {
	for _, charge := range r.Charges {
		if each := charge.Coverage.Amount(r.Units); each > 0 {
			return charge.Beside / each
		}
	}
	return 0
}

// needText says what a request needs, with the calls that follow.
func needText(r *quota.Request, rest quota.Units) string {
	switch {
	case rest > 0:
		return fmt.Sprintf("%d calls of %s need %d units", rest+1, r.Method, (rest+1)*r.Units)
	case r.Units == 1:
		return r.Method + " needs 1 unit"
	}
	return fmt.Sprintf("%s needs %d units", r.Method, r.Units)
}

// left returns what a budget has left, if nothing of what this host last heard
// has returned since. Of a window that has heard nothing, or that cannot be
// heard of, only this host's own calls are known.
func (l *Ledger) left(s *state, charge *quota.Charge, now int64) (left quota.Units) {
	h, epoch := s.lastHeard(heardName(charge))
	left = charge.Limit
	if h.limit > 0 {
		left = min(left, h.limit-charge.Beside)
	}
	since, present := decide.Since(&charge.Window, now), l.moment(s)
	isHeard := !charge.Window.Estimate() && h.at >= since
	if isHeard {
		var all stayIndex
		if len(h.settled) > 0 {
			all = s.stays()
		}
		left -= h.usedBy(charge, func(r *record) bool { return all.held(r.id, epoch, h.at) })
	}
	for _, g := range s.grants {
		counts := g.isUnheard(&h)
		if !isHeard {
			counts = now-s.age(g, present) >= since
		}
		if counts && g.key == "" && charge.Coverage.Covers(g.method, g.caller) {
			left -= charge.Coverage.Measure.Of(g.units, g.calls)
		}
	}
	if isHeard {
		since = h.at
	}
	for _, r := range s.doubts { // an answer since then counts what was granted of them
		if r.at >= since && charge.Coverage.Covers(r.method, r.caller) {
			left -= charge.Coverage.Measure.Of(r.units, r.calls)
		}
	}
	return left
}

func (l *Ledger) allowed(batch *quota.Batch, r *quota.Request) quota.Units {
	if l.allow == nil {
		return 0
	}
	return l.allow(quota.Call{Account: batch.Account, Key: batch.Key, Method: r.Method, Units: r.Units, Caller: r.Caller})
}

// batchID returns the id of a batch's first request.
func (l *Ledger) batchID(batch *quota.Batch) (client, seq uint64) {
	if batch.Client != 0 {
		return batch.Client, batch.Seq
	}
	n := uint64(len(batch.Requests))
	return l.client, l.seq.Add(n) - n
}

// Unrecorded returns the units that all processes of this host have spent
// within the allowance of an account in the last 24 hours, and that the ledger
// does not have yet. It writes nothing and creates nothing.
func (l *Ledger) Unrecorded(account string) (units quota.Units, err error) {
	a := l.account(account)
	if a.files.isOwed() {
		err = a.withState(func(s *state) error {
			units = s.owed(l.moment(s))
			return nil
		})
	} else if l.dir != "" { // nothing, if the journal can be read
		_, err = a.readNewest()
	}
	if err != nil {
		return 0, fmt.Errorf("unrecorded units of %s: %w", account, err)
	}
	return units, nil
}

// AllowanceUsed returns the units that all processes of this host were granted
// within the allowance of an account in the last 24 hours, whether the ledger
// has them or not.
func (l *Ledger) AllowanceUsed(account string) (units quota.Units, err error) {
	err = l.account(account).withState(func(s *state) error {
		units = s.allowed(l.moment(s))
		return nil
	})
	return units, err
}

// allowed returns the units granted within the allowance in the trailing
// window. Timestamps after now, from before the clock stepped back, count.
func (s *state) allowed(now moment) (units quota.Units) {
	for _, g := range s.grants {
		if g.down && s.age(g, now) < window.Microseconds() {
			units += g.units
		}
	}
	return units
}

// owed returns the units of the grants that the ledger does not have.
func (s *state) owed(now moment) (units quota.Units) {
	for _, g := range s.grants {
		if g.owed && s.age(g, now) < window.Microseconds() {
			units += g.units
		}
	}
	return units
}

package quota

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

// request asks for calls that are alike, or for a note or a correction.
type request struct {
	Call  // each of them
	set   *chargeSet
	count int       // how many calls, all or none
	force bool      // record them whatever limits and cooldowns say
	kind  EntryKind // EntryCall, EntryNote or EntryCorrection
	calls Units     // what a note or a correction counts as, 0 to MaxUnits
	id    ID        // under which they are recorded: Call.ID, or one derived from it once they were refunded

	// These are of a call that waits: how much longer at most, and its place
	// among those of all processes, if it has one.
	left   time.Duration
	ticket engine.ID
}

// request returns a request for calls that are alike.
func (g *Guard) request(ctx context.Context, call Call, count int) *request {
	r := &request{Call: call, count: count, id: call.ID}
	r.Caller = call.Caller.or(CallerFrom(ctx))
	r.set = g.chargesFor(&r.Call)
	return r
}

// amounts returns what one call of the request counts.
func (r *request) amounts() Amounts {
	amounts := r.Call.Amounts()
	if r.kind != EntryCall {
		amounts.Calls = r.calls
	}
	return amounts
}

// check returns an ErrBadCall if the request is malformed, or a *NeverFitsError
// if it costs more than a limit.
func (r *request) check() error {
	least := Units(1)
	if r.force || len(r.Measures) > 0 {
		least = 0
	}
	switch {
	case r.Account == "":
		return fmt.Errorf("%w: no account; name the upstream project whose quota it is", ErrBadCall)
	case len(r.Account) > maxName:
		return fmt.Errorf("%w: an account of more than %d bytes; shorten it", ErrBadCall, maxName)
	case r.Units < least || r.Units > MaxUnits:
		return fmt.Errorf("%w: %q costs %d units; give %d to %d", ErrBadCall, r.Method, r.Units, least, MaxUnits)
	case max(len(r.Method), r.Caller.longest()) > MaxLabel:
		return fmt.Errorf("%w: a method, lane, job or region of more than %d bytes; shorten it", ErrBadCall, MaxLabel)
	case r.kind != EntryCall && !r.kind.isAdjustment():
		return fmt.Errorf("%w: %q is a %s; record a note or a correction", ErrBadCall, r.Method, r.kind)
	case r.calls < 0 || r.calls > MaxUnits:
		return fmt.Errorf("%w: %q counts %d calls; give 0 to %d", ErrBadCall, r.Method, r.calls, MaxUnits)
	case r.Lease < 0 || r.Lease > maxLease:
		return fmt.Errorf("%w: a lease of %s; give 0 to %s", ErrBadCall, r.Lease, human.Exactly(maxLease))
	}
	if err := engine.CheckKey(r.Key); err != nil {
		return err
	}
	if err := r.amounts().check(); err != nil || r.force {
		return err
	}
	for _, c := range r.set.charges {
		limit := c.LimitOf(r.Key)
		if needed, kept := r.needs(c), c.always(); needed > limit-kept {
			return &NeverFitsError{Account: r.Account, Key: c.keyOf(r.Key), Budget: c.Name, Method: r.Method,
				Measure: c.Measure, Limit: limit, Kept: kept, Needed: needed, Calls: r.together()}
		}
	}
	return nil
}

// maxLease is the longest Call.Lease.
const maxLease = 24 * time.Hour

// together returns how many calls the request is for if those are several, and
// 0 otherwise.
func (r *request) together() int {
	if r.count < 2 {
		return 0
	}
	return r.count
}

// needs returns how much of a charge must be left for the request, as the
// engine decides it.
func (r *request) needs(c *charge) Units {
	amount := r.amounts().Of(c.Measure)
	switch {
	case c.Measure == Errors: // none before the answer, but there must be room for one
		return max(amount, 1)
	case c.Window.Kind() == engine.InFlight: // in which several count as one
		return amount
	}
	return Units(r.count) * amount
}

// idHistory is how long the log keeps an entry at least whose request can be
// repeated.
const idHistory = 10 * time.Minute

// correctionName names the notes that are corrections.
const correctionName = "correction"

// engineRequest returns a request as the engine sees it.
func (g *Guard) engineRequest(r *request) *engine.Request {
	e := &engine.Request{
		Labels: g.labels(&r.Call), Amounts: r.amounts().engineAmounts(), Budgets: r.set.engine, Count: r.count,
		Force: r.force, Wait: r.left.Microseconds(), Ticket: r.ticket, History: r.set.history.Microseconds(),
	}
	if g.options.Priority != nil {
		e.Priority = int64(g.options.Priority(r.Account, r.Caller.Lane))
	}
	if r.kind == EntryCall { // a note is never in flight
		e.Lease = max(r.Lease, r.set.lease).Microseconds()
	} else {
		e.Kind = engine.KindNote
	}
	if r.kind == EntryCorrection {
		e.Name = correctionName
	}
	if r.id != (ID{}) {
		e.ID, e.Once = engine.ID(r.id), true
		e.History = max(e.History, idHistory.Microseconds())
	}
	return e
}

// labels returns what the record of a call says of it.
func (g *Guard) labels(c *Call) engine.Labels {
	return engine.Labels{Method: c.Method, Key: c.Key, Host: g.options.Host,
		Lane: c.Caller.Lane, Job: c.Caller.Job, Region: c.Caller.Region}
}

// callerOf returns the caller that labels name.
func callerOf(l *engine.Labels) Caller { return Caller{Lane: l.Lane, Job: l.Job, Region: l.Region} }

// checkReuse returns an ErrReused if the request's id is that of another call.
func (r *request) checkReuse(a *engine.Answer) error {
	if a.Reused {
		return ErrReused
	}
	for _, e := range a.Repeated {
		l := e.Labels
		isSame := l.Method == r.Method && l.Key == r.Key && callerOf(l) == r.Caller
		if !isSame && *l != (engine.Labels{}) {
			return fmt.Errorf("%w (it was %s)", ErrReused, l.Method)
		}
	}
	return nil
}

// grants returns the grants of the calls that an answer grants. isRefunded
// means that one of them was granted before, and refunded since.
func (g *Guard) grants(r *request, a *engine.Answer) (first *Grant, isRefunded bool) {
	for i, id := range a.IDs {
		grant := &Grant{guard: g, set: r.set, job: r.Caller.Job,
			key: r.Key, id: ID(id), epoch: a.Epoch,
			at: ledgerTime(a.At + int64(i)), held: a.Held,
			units: r.Units, measures: r.Measures, isOpen: r.Lease > 0 || r.set.lease > 0}
		if i < len(a.Repeated) && grant.repeat(entryOf(a.Repeated[i])) {
			isRefunded = true
		}
		if first == nil {
			first = grant
		} else {
			first.others = append(first.others, grant)
		}
	}
	return first, isRefunded
}

// refusal returns the error of a request that the engine has refused at a time.
func (r *request) refusal(no *engine.Refusal, at int64) error {
	if no.Moved != nil {
		return moveOf(r.Account, *no.Moved).refusal(&r.Call, ledgerTime(at)).orMoved()
	}
	refused := newRefusal(&r.Call, "", ReasonSpent)
	refused.Needed, refused.Ahead = Units(no.Needed), micros(no.Ahead)
	refused.RetryAt = ledgerTime(no.RetryAt)
	refused.RetryAfter = refused.RetryAt.Sub(ledgerTime(at)) // which may be far away
	if no.Budget != nil {
		i := slices.Index(r.set.engine, no.Budget)
		refused.setHeld(r.set.charges[i], &no.Held)
		refused.Open, refused.Waiting = Units(no.Held.Open), Units(no.Waiting)
		refused.Remaining = max(0, refused.Remaining-refused.Waiting)
	}
	if no.Never {
		return &NeverFitsError{Account: r.Account, Key: refused.ownKey(), Budget: refused.Budget, Method: r.Method,
			Measure: refused.Measure, Limit: refused.Limit, Kept: refused.Kept,
			Needed: refused.Needed, Calls: r.together(),
			ConfiguredLimit: refused.ConfiguredLimit, LimitUntil: refused.LimitUntil}
	}
	if no.InFlight {
		refused.Reason = ReasonInFlight
	}
	if no.Cooldown != nil {
		refused.Reason, refused.Detail = ReasonCooldown, no.Cooldown.Text
		refused.Budget, refused.OfKey = no.Cooldown.Name, no.Cooldown.Labels.Key != ""
	}
	return refused
}

// setHeld sets what a refusal says about the charge that refuses the call.
func (e *RefusedError) setHeld(c *charge, held *engine.Held) {
	e.Budget, e.Measure = c.Name, c.Measure
	e.OfKey = c.keyOf(e.Key) != ""
	e.Limit, e.Used = Units(held.Limit), Units(held.Used)
	e.Kept = Units(held.Reserved)
	e.Remaining = max(0, e.Limit-e.Used-e.Kept)
	if held.Until != 0 {
		e.ConfiguredLimit, e.LimitUntil = c.LimitOf(e.Key), ledgerTime(held.Until)
	}
}

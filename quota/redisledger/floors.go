package redisledger

import (
	"slices"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// ending is a charge whose floors end before the day does. The script decides
// whether a call fits, since it knows what the lists hold; when it fits is
// computed here, where calendars are known.
type ending struct {
	charge *quota.Charge
	amount int64
	used   held
	floors held // summed up
	kept   int64
	order  int // index of the charge in its request
}

// held is a decide.List of two days.
type held struct {
	since, next   int64 // when the day and the next one begin, µs
	today, beyond int64 // what is counted since then
}

// Newest implements decide.List.
func (h held) Newest() (stamp, total int64) { return 0, h.today }

// Before implements decide.List.
func (h held) Before(at int64) int64 {
	switch {
	case at <= h.since:
		return 0
	case at <= h.next:
		return h.today - h.beyond
	}
	return h.today
}

// Reach implements decide.List. Calendar windows do not call it.
func (h held) Reach(int64) int64 { return 0 }

// fit reports whether the call fits at a time if nothing is spent before.
func (e *ending) fit(at int64) decide.Fit {
	q := decide.Question{Now: at, Window: &e.charge.Window, Limit: int64(e.charge.Limit), Day: new(decide.DayOf(e.charge.Window, at)),
		Floors: []decide.Floor{{List: e.floors, Units: e.kept}}, FloorUntil: e.charge.FloorUntil.Microseconds()}
	return q.Fits(e.used, e.amount)
}

// readEndings reads the endings in a refusal.
func (p *spendBatch) readEndings(a *packed, request *quota.Request, charges []*quota.Charge) (all []ending) {
	for range a.number(2) {
		e := ending{charge: p.readCharge(a)}
		used, kept := a.number(7), a.number(7)
		usedNext, keptNext := a.number(7), a.number(7)
		if a.bad || e.charge == nil {
			a.bad = true
			return nil
		}
		e.order = slices.Index(charges, e.charge)
		e.amount = int64(e.charge.Coverage.Amount(request.Units))
		for _, floor := range e.charge.Floors {
			e.kept += int64(floor.Units)
		}
		day := decide.DayOf(e.charge.Window, p.now)
		e.used = held{day.Since, day.Next, used, usedNext}
		e.floors = held{day.Since, day.Next, e.kept - kept, e.kept - keptNext}
		all = append(all, e)
	}
	return all
}

// refusalBeside reads a refusal of a request that has charges with floors.
func (p *spendBatch) refusalBeside(a *packed, request *quota.Request, charges []*quota.Charge, ahead int64) quota.RefusedError {
	latest := p.readCharge(a)
	used, kept := a.number(7), a.number(7)
	at, cool := a.number(7), a.number(1) == 1
	reason := a.text(a.number(2))
	endings := p.readEndings(a, request, charges)
	if a.bad {
		return quota.RefusedError{}
	}
	// The script's reason is the first of those that end last; endings compete
	// with it by that rule.
	fit, order := decide.Fit{Used: used, Kept: kept}, 1<<31
	if latest != nil {
		order = 2 * slices.Index(charges, latest)
	}
	if cool {
		order++
	}
	for i := range endings {
		e := &endings[i]
		own := e.fit(p.now)
		if ahead > 0 {
			own.RetryAt = min(own.RetryAt, p.now+e.charge.Window.Horizon().Microseconds())
		}
		if e.charge == latest {
			fit = own
		}
		winsTie := own.RetryAt == at && at > 0 && 2*e.order < order
		if own.RetryAt > at || winsTie {
			latest = e.charge
			at = own.RetryAt
			fit = own
			order = 2 * e.order
			cool = false
		}
	}
	if ahead == 0 {
		at = allFit(endings, at)
	}
	fit.RetryAt = at
	refused := p.refused(request, latest, fit)
	if cool {
		refused.Reason, refused.Detail = quota.ReasonCooldown, reason
	}
	return refused
}

// allFit returns the first time from at on when all fit together. Where floors
// end each day, what fits today may not fit tomorrow.
func allFit(endings []ending, at int64) int64 {
	for range 4 { // there may be no such time
		before := at
		for i := range endings {
			if fit := endings[i].fit(at); fit.RetryAt > 0 {
				at = fit.RetryAt
			}
		}
		if at == before {
			break
		}
	}
	return at
}

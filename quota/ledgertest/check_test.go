package ledgertest_test

import (
	"context"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// least returns the least that a call counts by what is known. What it has
// cost may be in the log though the answer was lost.
func (c *call) least(known set) quota.Units {
	units := c.Units
	for _, e := range c.events[1:] {
		if known.has(e.id) || e.units < units {
			units = e.units
		}
	}
	return units
}

// most returns the most that a call counts.
func (c *call) most() quota.Units {
	units := c.Units
	for _, e := range c.events[1:] {
		units = max(units, e.units)
	}
	return units
}

// usage is what a window holds, of all calls and of those of each region.
type usage struct {
	all     quota.Units
	regions map[string]quota.Units
}

func (u *usage) add(c *quota.Call, amount quota.Units) {
	u.all += amount
	u.regions[c.Caller.Region] += amount
}

// kept returns what floors reserve for other regions than that of a call.
func (u *usage) kept(b *quota.Budget, c *quota.Call) (kept quota.Units) {
	for region, floor := range b.Floor {
		if region != c.Caller.Region {
			kept += max(0, floor-u.regions[region])
		}
	}
	return kept
}

// sent adds up what was sent since a time, as far as the log can know it.
func (w *world) sent(b *quota.Budget, since time.Time) usage {
	u := usage{regions: map[string]quota.Units{}}
	coverage := b.Coverage()
	for i := len(w.calls) - 1; i >= 0 && !w.calls[i].at.Before(since); i-- {
		c := w.calls[i]
		isKnown := w.store.log.known.has(c.events[0].id) && !c.asked.Before(since)
		if isKnown && coverage.Covers(c.Method, c.Caller.Lane, c.Caller.Region) {
			u.add(&c.Call, quota.Amounts{Units: c.least(w.store.log.known), Calls: 1}.Of(b.Measure))
		}
	}
	return u
}

// charged adds up the most that may count since a time.
func (w *world) charged(b *quota.Budget, since time.Time) usage {
	u := usage{regions: map[string]quota.Units{}}
	coverage := b.Coverage()
	for i := len(w.calls) - 1; i >= 0 && !w.calls[i].at.Before(since); i-- {
		if c := w.calls[i]; coverage.Covers(c.Method, c.Caller.Lane, c.Caller.Region) {
			u.add(&c.Call, quota.Amounts{Units: c.most(), Calls: 1}.Of(b.Measure))
		}
	}
	for i := len(w.unsent) - 1; i >= 0 && !w.unsent[i].at.Before(since); i-- {
		if c := &w.unsent[i].call; coverage.Covers(c.Method, c.Caller.Lane, c.Caller.Region) {
			u.add(c, c.Amounts().Of(b.Measure))
		}
	}
	return u
}

// checkGrant is called after a call was sent that the ledger has granted.
func (w *world) checkGrant(c *call) {
	for i := range w.budgets {
		b := &w.budgets[i]
		if !b.Coverage().Covers(c.Method, c.Caller.Lane, c.Caller.Region) {
			continue
		}
		ahead, behind := w.shift(c.at.Add(-b.Horizon()))
		since := c.at.Add(time.Microsecond + ahead + behind - b.Window.Length())
		hasFloors := ahead == 0 && behind == 0
		if b.Window.Kind() == engine.Calendar {
			day := b.Window.WithMargin(0).Day(c.at)
			if since = day.Start.Add(max(0, behind-quota.DefaultMargin)); c.at.Add(ahead).After(day.Opens) {
				continue
			}
			hasFloors = hasFloors && day.Opens.Sub(c.at) > b.FloorUntil+time.Minute
		}
		u := w.sent(b, since)
		if u.all > b.Limit {
			w.fail("%v was granted %s beyond the limit of %q: %d of %d since %s, by what the log can know",
				c.p, c.Method, b.Name, u.all, b.Limit, stamp(since))
		} else if kept := u.kept(b, &c.Call); hasFloors && u.all+kept > b.Limit {
			w.fail("%v was granted %s in %q, of which %d of %d are used, and %d reserved", c.p, c.Method, b.Name,
				u.all, b.Limit, kept)
		}
	}
}

// checkAllowance is called after a call was sent within the allowance.
func (w *world) checkAllowance(h *host) {
	sum := quota.Units(0)
	for i := len(w.calls) - 1; i >= 0 && time.Since(w.calls[i].at) < 24*time.Hour; i-- {
		for _, e := range h.outages {
			if c := w.calls[i]; c.events[0].id == e {
				sum += c.Units
			}
		}
	}
	if sum > w.allowance {
		w.fail("host %d has sent %d of %d while the ledger was down", h.number, sum, w.allowance)
	}
}

// checkRefusal is called after a call was refused.
func (w *world) checkRefusal(p *process, c *quota.Call, refused *quota.RefusedError, isMet bool) {
	for i := range w.budgets {
		b := &w.budgets[i]
		if b.Name != refused.Budget || !isMet {
			continue
		}
		longest, slack := b.Horizon(), time.Minute
		if b.FloorUntil > 0 {
			longest += 25 * time.Hour
		}
		if w.store.ahead != 0 || time.Since(w.lastWrong) < longest+maxAhead {
			continue
		}
		if refused.RetryAfter > longest {
			w.fail("%v was refused by %q for %v", p, b.Name, refused.RetryAfter)
		}
		since := time.Now().Add(-b.Window.Length() - slack)
		if b.Window.Kind() == engine.Calendar {
			since = b.Window.Day(time.Now().Add(-slack)).Since.Add(-slack)
		}
		u := w.charged(b, since)
		least := w.sent(b, since.Add(2*slack))
		if need := c.Amounts().Of(b.Measure); u.all+need+least.kept(b, c) <= b.Limit {
			w.fail("%v was refused %s by %q, of which at most %d of %d are used: %v", p, c.Method, b.Name,
				u.all, b.Limit, refused)
		}
	}
}

// counts returns how long any budget counts a call for sure.
func (w *world) counts(c *call) (longest time.Duration) {
	for i := range w.budgets {
		if b := &w.budgets[i]; b.Coverage().Covers(c.Method, c.Caller.Lane, c.Caller.Region) &&
			b.Window.Kind() == engine.Sliding {
			longest = max(longest, b.Window.Length())
		} else if b.Coverage().Covers(c.Method, c.Caller.Lane, c.Caller.Region) {
			longest = max(longest, time.Since(b.Window.Day(time.Now()).Start))
		}
	}
	return longest
}

// checkLog compares the log with what was sent.
func (w *world) checkLog(folder string) {
	observer := (&host{w: w, number: len(w.hosts)}).start(0)
	log := map[string]quota.Entry{}
	for e, err := range observer.guard.Entries(context.Background(), quota.Query{Account: account}) {
		if err != nil {
			w.fail("%v", err)
			return
		}
		if log[e.ID.String()].At.IsZero() {
			log[e.ID.String()] = e
		} else {
			w.fail("%v is in the log twice", e.ID)
		}
	}
	ahead, behind := w.shift(w.began)
	for _, c := range w.calls {
		isKnown := w.store.log.known.has(c.events[0].id)
		e, isThere := log[c.grant.ID()]
		delete(log, c.grant.ID())
		least, most := c.least(w.store.log.known), c.most()
		if last := c.events[len(c.events)-1]; w.store.log.known.has(last.id) {
			least, most = last.units, last.units
		}
		switch {
		case time.Since(c.asked) > w.counts(c)-ahead-behind-time.Minute || !isKnown:
		case !isThere:
			w.fail("%s of %v, sent at %s, is not in the log", c.grant.ID(), c.p, stamp(c.at))
		case e.Units < least || e.Units > most:
			w.fail("%s of %v, sent at %s, has %d units in the log, want %d to %d", c.grant.ID(), c.p, stamp(c.at),
				e.Units, least, most)
		}
	}
	var more, doubts quota.Units
	for _, e := range log {
		more += e.Units
	}
	for _, u := range w.unsent {
		doubts += u.call.Units
	}
	if more > doubts {
		w.fail("the log has %d units of calls that were not sent; those of at most %d are in doubt", more, doubts)
	}
}

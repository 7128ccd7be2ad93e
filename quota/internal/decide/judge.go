package decide

import (
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Log is one log as a Judge sees it.
type Log interface {
	// List returns what a coverage counts, for questions of a window.
	List(coverage *quota.Coverage, window *quota.Window) List
	// Cooldown returns the cooldown that was set for a budget, or with "" for
	// the account, and nil when there is none. It may be over.
	Cooldown(budget string) *quota.Cooldown
	// Newest returns the log's newest stamp, and 0 for an empty log.
	Newest() int64
}

// Judge decides requests on one log at one instant.
type Judge struct {
	Account, Key string
	Now          int64
	Days         Days

	floors []Floor // of the charge in question
}

// Admit returns nil for a request that may be recorded, and else a
// *quota.RefusedError, a *quota.NeverFitsError or a quota.ErrBadCall. Of
// several refusals it is the one that ends last.
func (j *Judge) Admit(log Log, r *quota.Request) error {
	if err := r.Check(j.Account); err != nil {
		return err
	}
	var refused *quota.RefusedError
	ahead := j.ahead(log)
	for _, charge := range r.Charges {
		list := log.List(charge.Coverage, &charge.Window) // also when forced: from now on it is kept
		if r.Force {
			continue
		}
		var q Question
		j.ask(&q, charge)
		if len(charge.Floors) > 0 {
			j.keep(log, charge, &q)
		}
		fit := q.Fits(list, int64(charge.Coverage.Amount(r.Units)))
		fit.RetryAt = min(fit.RetryAt, q.latest(ahead > 0))
		if fit.RetryAt > 0 && later(fit.RetryAt, refused) {
			refused = j.refusal(r, charge, fit)
			refused.Reason, refused.RetryAt = quota.ReasonSpent, Instant(fit.RetryAt)
		}
		if c := j.holds(log.Cooldown(charge.Budget)); c != nil && later(c.Until.UnixMicro(), refused) {
			refused = j.refusal(r, charge, fit)
			refused.Reason, refused.RetryAt, refused.Detail = quota.ReasonCooldown, c.Until, c.Reason
		}
	}
	if c := j.holds(log.Cooldown("")); c != nil && !r.Force && later(c.Until.UnixMicro(), refused) {
		refused = &quota.RefusedError{Account: j.Account, Key: j.Key, Method: r.Method,
			Reason: quota.ReasonCooldown, Detail: c.Reason, Needed: r.Units, RetryAt: c.Until}
	}
	if refused == nil {
		return nil
	}
	if refused.Ahead = ahead; ahead == 0 {
		refused.RetryAt = j.allFit(log, r, refused.RetryAt)
	}
	refused.RetryAfter = refused.RetryAt.Sub(Instant(j.Now))
	return refused
}

// Held returns how each charge of a request stands that was recorded with a
// stamp, appended to held.
func (j *Judge) Held(log Log, r *quota.Request, stamp int64, held []quota.Held) []quota.Held {
	ahead := j.ahead(log)
	for _, charge := range r.Charges {
		var q Question
		j.ask(&q, charge)
		if len(charge.Floors) > 0 {
			j.keep(log, charge, &q)
		}
		list := log.List(charge.Coverage, &charge.Window)
		taken := q.Taken(list)
		h := quota.Held{Used: quota.Units(taken.Used), Kept: quota.Units(taken.Kept)}
		if free := q.NextFree(list, taken.Used, ahead > 0); free != 0 {
			h.FreesIn = time.Duration(free-stamp) * time.Microsecond
		}
		held = append(held, h)
	}
	return held
}

// ahead returns how far the log's newest stamp is ahead of now, and 0 when it
// is no further than a clock that stepped back explains.
func (j *Judge) ahead(log Log) time.Duration {
	ahead := time.Duration(log.Newest()-j.Now) * time.Microsecond
	if ahead <= quota.MaxStepBack {
		return 0
	}
	return ahead
}

// allFit returns the first instant from one on at which every charge of r
// fits, when all have fitted once before: then those do whose windows only
// empty. Where floors end with each day what fits now may not fit tomorrow.
func (j *Judge) allFit(log Log, r *quota.Request, at time.Time) time.Time {
	for range 4 { // there may be no such instant
		before := at
		for _, charge := range r.Charges {
			if charge.FloorUntil == 0 || len(charge.Floors) == 0 || charge.Window.Kind() != quota.KindDaily {
				continue
			}
			var q Question
			j.ask(&q, charge)
			j.keep(log, charge, &q)
			at = Instant(q.from(log.List(charge.Coverage, &charge.Window), int64(charge.Coverage.Amount(r.Units)), at.UnixMicro()))
		}
		if at.Equal(before) {
			break
		}
	}
	return at
}

// later reports whether an instant is after that of the refusal so far.
func later(at int64, refused *quota.RefusedError) bool {
	return refused == nil || at > refused.RetryAt.UnixMicro()
}

func (j *Judge) refusal(r *quota.Request, charge *quota.Charge, fit Fit) *quota.RefusedError {
	return &quota.RefusedError{Account: j.Account, Key: j.Key, Budget: charge.Budget, Method: r.Method,
		Measure: charge.Coverage.Measure, Limit: charge.Limit, Used: quota.Units(fit.Used), Remaining: max(0, charge.Limit-quota.Units(fit.Used+fit.Kept)),
		Kept: quota.Units(fit.Kept), Needed: charge.Coverage.Amount(r.Units)}
}

// holds returns a cooldown that is not over, and nil otherwise.
func (j *Judge) holds(c *quota.Cooldown) *quota.Cooldown {
	if c == nil || c.Until.UnixMicro() <= j.Now {
		return nil
	}
	return c
}

// Standing returns what a charge's window holds.
func (j *Judge) Standing(log Log, charge *quota.Charge) quota.Standing {
	var q Question
	j.ask(&q, charge)
	list := log.List(charge.Coverage, &charge.Window)
	used, since := q.Used(list)
	ahead := j.ahead(log)
	s := quota.Standing{At: Instant(j.Now), Used: quota.Units(used), Ahead: ahead}
	if since != 0 {
		s.Since = Instant(since)
	}
	if free := q.NextFree(list, used, ahead > 0); free != 0 {
		s.NextFree = Instant(free)
	}
	if q.Window.Estimate() {
		s.Over = quota.Units(q.hidden(list))
	}
	for _, name := range []string{charge.Budget, ""} {
		if c := j.holds(log.Cooldown(name)); c != nil && (s.Cooldown == nil || c.Until.After(s.Cooldown.Until)) {
			s.Cooldown = new(*c)
			s.Cooldown.For = 0 // only SetCooldown reads it
		}
	}
	return s
}

// ask fills in the question of a charge at the judge's instant: in place, since
// to copy a fresh one takes as long as to answer it.
func (j *Judge) ask(q *Question, charge *quota.Charge) {
	q.Now, q.Window, q.Limit = j.Now, &charge.Window, int64(charge.Limit)
	if charge.Window.Kind() == quota.KindDaily {
		q.Day = j.Days.at(charge.Window, j.Now)
	}
}

// keep adds what a charge keeps for others to its question.
func (j *Judge) keep(log Log, charge *quota.Charge, q *Question) {
	j.floors = j.floors[:0]
	for _, floor := range charge.Floors {
		j.floors = append(j.floors, Floor{log.List(floor.Coverage, &charge.Window), int64(floor.Units)})
	}
	q.Floors, q.FloorUntil = j.floors, charge.FloorUntil.Microseconds()
}

// Days remembers the day that each daily window was last in: to find it takes
// longer than all the rest. It is not safe for concurrent use.
type Days map[quota.Window]*Day

func (d Days) at(w quota.Window, now int64) *Day {
	day := d[w]
	if day == nil || !day.Holds(now) {
		day = new(DayOf(w, now))
		d[w] = day
	}
	return day
}

// Cooled returns a cooldown as it is kept from now on: until a whole
// microsecond, no earlier than it says but for quota.MaxUnix, and with at most
// 200 bytes of reason, cut between characters. It keeps For, by which Recooled
// repairs it.
func Cooled(c quota.Cooldown, now int64) quota.Cooldown {
	const most = 200
	if c.For > 0 {
		c.Until = Instant(now).Add(c.For)
	}
	if c.Until.Unix() >= quota.MaxUnix {
		c.Until = time.Unix(quota.MaxUnix, 0)
	}
	c.For, c.Until = max(c.For, 0), Instant(Ceil(c.Until))
	if len(c.Reason) > most {
		c.Reason = strings.ToValidUTF8(c.Reason[:most], "")
	}
	return c
}

// Recooled returns a cooldown after the clock that set it was corrected: one
// given as a duration ends no later than that long from now. It reports whether
// that changed anything.
func Recooled(c quota.Cooldown, now int64) (quota.Cooldown, bool) {
	latest := Instant(now).Add(c.For)
	if c.For <= 0 || !c.Until.After(Instant(Ceil(latest))) {
		return c, false
	}
	return Cooled(c, now), true
}

// Instant returns the time of an instant.
func Instant(micro int64) time.Time { return time.UnixMicro(micro).UTC() }

// Ceil returns the first instant that is not before t.
func Ceil(t time.Time) int64 { return t.Add(time.Microsecond - time.Nanosecond).UnixMicro() }

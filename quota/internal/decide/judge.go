package decide

import (
	"iter"
	"time"

	"github.com/ration-dev/ration/internal/textfmt"
	"github.com/ration-dev/ration/quota"
)

// Log is one log as a Judge sees it.
type Log interface {
	// List returns what a coverage counts, reaching back by at least a window.
	List(coverage *quota.Coverage, window *quota.Window) List
	// Cooldown returns the cooldown of a budget, or with "" of the account. It
	// may be over; nil means that there is none.
	Cooldown(budget string) *quota.Cooldown
	// Limited returns the charges that hold in place of charges because others
	// have asked for lower limits, or nil if there are none.
	Limited(charges []*quota.Charge) []*quota.Charge
	// Newest returns the log's newest stamp, or 0 for an empty log.
	Newest() int64
}

// Judge decides requests on one log at one instant.
type Judge struct {
	Account, Key string
	Now          int64
	Days         Days

	floors []Floor // reused by question
}

// Admit returns nil for a request that may be recorded, and otherwise a
// *quota.RefusedError, a *quota.NeverFitsError or a quota.ErrBadCall. If
// several charges or cooldowns refuse the request, it returns the one that ends
// last.
func (j *Judge) Admit(log Log, r *quota.Request) error {
	if err := r.Check(j.Account); err != nil {
		return err
	}
	if held := log.Limited(r.Charges); held != nil {
		r = new(*r)
		if r.Charges = held; r.Check(j.Account) != nil {
			return r.Check(j.Account)
		}
	}
	var refused *quota.RefusedError
	ahead := j.ahead(log)
	for _, charge := range r.Charges {
		list := log.List(charge.Coverage, &charge.Window) // also if forced, so that the log keeps it
		if r.Force {
			continue
		}
		var q Question
		j.question(&q, log, charge)
		fit := q.Fits(list, int64(charge.Coverage.Amount(r.Units)))
		fit.RetryAt = min(fit.RetryAt, q.latestRetry(ahead > 0))
		if fit.RetryAt > 0 && later(fit.RetryAt, refused) {
			refused = j.refusal(r, charge, fit)
			refused.Reason, refused.RetryAt = quota.ReasonSpent, Time(fit.RetryAt)
		}
		if c := j.active(log.Cooldown(charge.Budget)); c != nil && later(c.Until.UnixMicro(), refused) {
			refused = j.refusal(r, charge, fit)
			refused.Reason = quota.ReasonCooldown
			refused.RetryAt = c.Until
			refused.Detail = c.Reason
		}
	}
	if c := j.active(log.Cooldown("")); c != nil && !r.Force && later(c.Until.UnixMicro(), refused) {
		refused = &quota.RefusedError{Account: j.Account, Key: j.Key, Method: r.Method,
			Reason: quota.ReasonCooldown, Detail: c.Reason, Needed: r.Units, RetryAt: c.Until}
	}
	if refused == nil {
		return nil
	}
	if refused.Ahead = ahead; ahead == 0 {
		refused.RetryAt = j.firstFit(log, r, refused.RetryAt)
	}
	refused.RetryAfter = refused.RetryAt.Sub(Time(j.Now))
	return refused
}

// Held appends to held how each charge of a request stands right after the
// request was recorded with a stamp.
func (j *Judge) Held(log Log, r *quota.Request, stamp int64, held []quota.Held) []quota.Held {
	ahead, charges := j.ahead(log), r.Charges
	if limited := log.Limited(charges); limited != nil {
		charges = limited
	}
	for _, charge := range charges {
		var q Question
		j.question(&q, log, charge)
		list := log.List(charge.Coverage, &charge.Window)
		fit := q.UsedAndKept(list)
		h := quota.Held{Used: quota.Units(fit.Used), Kept: quota.Units(fit.Kept)}
		if charge.OwnLimit > 0 {
			h.Limit = charge.Limit + charge.Beside
		}
		if free := q.NextFree(list, fit.Used, ahead > 0); free != 0 {
			h.FreesIn = time.Duration(free-stamp) * time.Microsecond
		}
		held = append(held, h)
	}
	return held
}

// ahead returns how far the log's newest stamp is ahead of now, or 0 if a clock
// that stepped back can explain it.
func (j *Judge) ahead(log Log) time.Duration {
	ahead := time.Duration(log.Newest()-j.Now) * time.Microsecond
	if ahead <= quota.MaxStepBack {
		return 0
	}
	return ahead
}

// firstFit returns the first time, from at on, at which every charge of r
// fits. By then each charge has fitted once. It still does if its window
// only empties; where floors end with each day, what fits today may not
// fit tomorrow.
func (j *Judge) firstFit(log Log, r *quota.Request, at time.Time) time.Time {
	for range 4 { // there may be no such time
		before := at
		for _, charge := range r.Charges {
			if charge.FloorUntil == 0 || len(charge.Floors) == 0 || charge.Window.Kind() != quota.KindDaily {
				continue
			}
			var q Question
			j.question(&q, log, charge)
			list := log.List(charge.Coverage, &charge.Window)
			at = Time(q.firstFit(list, int64(charge.Coverage.Amount(r.Units)), at.UnixMicro()))
		}
		if at.Equal(before) {
			break
		}
	}
	return at
}

func later(at int64, refused *quota.RefusedError) bool {
	return refused == nil || at > refused.RetryAt.UnixMicro()
}

func (j *Judge) refusal(r *quota.Request, charge *quota.Charge, fit Fit) *quota.RefusedError {
	return &quota.RefusedError{Account: j.Account, Key: j.Key, Budget: charge.Budget, Method: r.Method,
		Measure: charge.Coverage.Measure, Limit: charge.Limit, Used: quota.Units(fit.Used), Kept: quota.Units(fit.Kept),
		Remaining: max(0, charge.Limit-quota.Units(fit.Used+fit.Kept)), Needed: charge.Coverage.Amount(r.Units),
		OwnLimit: charge.OwnLimit, LimitUntil: charge.LimitUntil}
}

// active returns c if it is not over, and nil otherwise. A cooldown that was
// set for a duration, by a clock that was far ahead, ends that long from now.
func (j *Judge) active(c *quota.Cooldown) *quota.Cooldown {
	if c == nil || c.Until.UnixMicro() <= j.Now {
		return nil
	}
	if c.For > 0 && c.Until.Sub(Time(j.Now)) > c.For+quota.MaxStepBack {
		c = new(*c)
		*c, _ = ShortenCooldown(*c, j.Now)
	}
	return c
}

// ActiveCooldowns returns those of an account's cooldowns that are not over.
func (j *Judge) ActiveCooldowns(all iter.Seq[*quota.Cooldown]) (active []quota.Cooldown) {
	for c := range all {
		if c = j.active(c); c != nil {
			active = append(active, *c)
			active[len(active)-1].For = 0 // only SetCooldown reads it
		}
	}
	return active
}

// Standing returns what a charge's window holds.
func (j *Judge) Standing(log Log, charge *quota.Charge) quota.Standing {
	var q Question
	held := log.Limited([]*quota.Charge{charge})
	j.fill(&q, charge)
	list := log.List(charge.Coverage, &charge.Window)
	used, since := q.Used(list)
	ahead := j.ahead(log)
	s := quota.Standing{At: Time(j.Now), Used: quota.Units(used), Ahead: ahead}
	if since != 0 {
		s.Since = Time(since)
		if charge.Coverage.Key() == "" {
			s.Earlier = quota.Units(list.Before(since))
		}
	}
	if free := q.NextFree(list, used, ahead > 0); free != 0 {
		s.NextFree = Time(free)
	}
	if q.Window.Estimate() {
		s.Over = quota.Units(q.hidden(list))
	}
	if held != nil {
		s.Limit, s.LimitUntil = held[0].Limit, held[0].LimitUntil
	}
	for _, name := range []string{charge.Budget, ""} {
		if c := j.active(log.Cooldown(name)); c != nil && (s.Cooldown == nil || c.Until.After(s.Cooldown.Until)) {
			s.Cooldown = new(*c)
			s.Cooldown.For = 0 // only SetCooldown reads it
		}
	}
	return s
}

// fill sets the question of a charge, without its floors. It works in place
// because copying a Question takes as long as answering it.
func (j *Judge) fill(q *Question, charge *quota.Charge) {
	q.Now = j.Now
	q.Window = &charge.Window
	q.Limit = int64(charge.Limit)
	if charge.Window.Kind() == quota.KindDaily {
		q.Day = j.Days.find(charge.Window, j.Now)
	}
}

// question is fill with the charge's floors.
func (j *Judge) question(q *Question, log Log, charge *quota.Charge) {
	j.fill(q, charge)
	if len(charge.Floors) == 0 {
		return
	}
	j.floors = j.floors[:0]
	for _, floor := range charge.Floors {
		j.floors = append(j.floors, Floor{log.List(floor.Coverage, &charge.Window), int64(floor.Units)})
	}
	q.Floors, q.FloorUntil = j.floors, charge.FloorUntil.Microseconds()
}

// Days caches the current day of each daily window: finding it takes longer
// than the rest of a decision. It is not safe for concurrent use.
type Days map[quota.Window]*Day

func (d Days) find(w quota.Window, now int64) *Day {
	day := d[w]
	if day == nil || !day.Holds(now) {
		day = new(DayOf(w, now))
		d[w] = day
	}
	return day
}

// StartCooldown returns a cooldown as a ledger records it: with Until set,
// rounded up to a microsecond and at most quota.MaxUnix, and with at most
// quota.MaxReason bytes of reason, cut between characters. It keeps For, which
// ShortenCooldown needs.
func StartCooldown(c quota.Cooldown, now int64) quota.Cooldown {
	if c.For > 0 {
		c.Until = Time(now).Add(c.For)
	}
	if c.Until.Unix() >= quota.MaxUnix {
		c.Until = time.Unix(quota.MaxUnix, 0)
	}
	c.For, c.Until = max(c.For, 0), Time(Ceil(c.Until))
	c.Reason = textfmt.Cut(c.Reason, quota.MaxReason)
	return c
}

// Displace returns the cooldowns to set for one of a whole account, if have is
// in force, or nil: that of a Move sets another one aside.
func (j *Judge) Displace(have *quota.Cooldown, c quota.Cooldown) []quota.Cooldown {
	isMove := func(c *quota.Cooldown) bool { return c.Until.Unix() >= quota.MoveUntil }
	switch have = j.active(have); {
	case have == nil || isMove(have) == isMove(&c):
	case isMove(have):
		c.Budget = quota.DisplacedBudget
	default:
		aside := *have
		aside.Budget = quota.DisplacedBudget
		return []quota.Cooldown{aside, c}
	}
	return []quota.Cooldown{c}
}

// ShortenCooldown returns a cooldown after the clock that set it was corrected:
// one that was set for a duration ends at most that long from now. It reports
// whether that changed it.
func ShortenCooldown(c quota.Cooldown, now int64) (quota.Cooldown, bool) {
	latest := Time(now).Add(c.For)
	if c.For <= 0 || !c.Until.After(Time(Ceil(latest))) {
		return c, false
	}
	return StartCooldown(c, now), true
}

// Time returns an instant as a time in UTC.
func Time(micro int64) time.Time { return time.UnixMicro(micro).UTC() }

// Ceil returns the first instant that is not before t.
func Ceil(t time.Time) int64 { return t.Add(time.Microsecond - time.Nanosecond).UnixMicro() }

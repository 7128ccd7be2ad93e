package ledgertest

import (
	"slices"
	"sort"
	"time"

	"github.com/ration-dev/ration/quota"
)

// model is a ledger that is simple enough to be obviously correct: it keeps
// every call and adds them up for each question.
type model struct {
	calls     []call
	cooldowns map[string]time.Time
}

type call struct {
	at     time.Time
	method string
	caller quota.Caller
	units  quota.Units
	calls  quota.Units
	id     quota.ID
}

// used adds up what charge's window holds at a time.
func (m *model) used(charge *quota.Charge, now time.Time) quota.Units {
	if charge.Window.Kind() == quota.KindCounter {
		return m.estimate(charge, now)
	}
	return m.sum(charge.Coverage, window(charge, now))
}

// window returns a function that reports whether a charge's window contains
// a time.
func window(charge *quota.Charge, now time.Time) func(at time.Time) bool {
	if charge.Window.Kind() == quota.KindDaily {
		return since(charge.Window.Day(now).Since)
	}
	return func(at time.Time) bool { return now.Sub(at) < charge.Window.Length() }
}

func since(t time.Time) func(at time.Time) bool {
	return func(at time.Time) bool { return !at.Before(t) }
}

// kept adds up what is not used of a charge's floors.
func (m *model) kept(charge *quota.Charge, in func(time.Time) bool) (sum quota.Units) {
	for _, floor := range charge.Floors {
		sum += max(0, floor.Units-m.sum(floor.Coverage, in))
	}
	return sum
}

// keptNow returns what floors keep at a time, as a grant reports it.
func (m *model) keptNow(charge *quota.Charge, now time.Time) quota.Units {
	if charge.FloorUntil > 0 {
		day := charge.Window.Day(now)
		if now.Before(day.Next.Add(-charge.FloorUntil)) {
			return m.kept(charge, since(day.Since))
		}
		if now.Before(day.Next) {
			return 0
		}
		begun := since(day.Next)
		return max(0, m.sum(charge.Coverage, begun)+m.kept(charge, begun)-m.used(charge, now))
	}
	return m.kept(charge, window(charge, now))
}

func (m *model) sum(coverage *quota.Coverage, in func(time.Time) bool) (sum quota.Units) {
	for _, c := range m.calls {
		if coverage.Covers(c.method, c.caller) && in(c.at) {
			if coverage.Measure == quota.Calls {
				sum += c.calls
			} else {
				sum += c.units
			}
		}
	}
	return sum
}

// estimate is the two-counter estimate. If the clock has stepped back, the
// present period is that of the newest stamp.
func (m *model) estimate(charge *quota.Charge, now time.Time) quota.Units {
	length := charge.Window.Length()
	newest := now
	for _, c := range m.calls {
		if charge.Coverage.Covers(c.method, c.caller) && c.at.After(newest) {
			newest = c.at
		}
	}
	start := newest.Add(-time.Duration(newest.UnixMicro() % length.Microseconds() * 1000))
	if now.Before(start) {
		now = start
	}
	present := m.sum(charge.Coverage, since(start))
	before := m.sum(charge.Coverage, func(at time.Time) bool { return at.Before(start) && !at.Before(start.Add(-length)) })
	showing := start.Add(length).Sub(now)
	return present + (before*quota.Units(showing)+quota.Units(length)-1)/quota.Units(length)
}

func (m *model) fits(charge *quota.Charge, units quota.Units, now time.Time) bool {
	if now.Before(m.cooldowns[charge.Budget]) {
		return false
	}
	left := charge.Limit - charge.Coverage.Amount(units)
	if len(charge.Floors) == 0 {
		return m.used(charge, now) <= left
	}
	if charge.FloorUntil > 0 {
		if day := charge.Window.Day(now); !now.Before(day.Next.Add(-charge.FloorUntil)) {
			begun := since(day.Next)
			return m.used(charge, now) <= left && (now.Before(day.Next) || m.sum(charge.Coverage, begun)+m.kept(charge, begun) <= left)
		}
	}
	return m.used(charge, now)+m.kept(charge, window(charge, now)) <= left
}

// retryAt searches for the first microsecond at which all charges fit. While
// nothing is spent, used and kept units only fall, except that floors that end
// with a day return with the next.
func (m *model) retryAt(r *quota.Request, now time.Time) time.Time {
	const far = 60 * time.Hour
	all := func(charges []*quota.Charge, at time.Time) bool {
		return !slices.ContainsFunc(charges, func(c *quota.Charge) bool { return !m.fits(c, r.Units, at) })
	}
	var falling []*quota.Charge
	var turns []time.Time
	for _, c := range r.Charges {
		if c.FloorUntil == 0 {
			falling = append(falling, c)
			continue
		}
		day := c.Window.Day(now)
		for range 6 {
			turns = append(turns, day.Next.Add(-c.FloorUntil), day.Opens)
			day = c.Window.Day(day.Opens)
		}
		turns = append(turns, m.cooldowns[c.Budget])
	}
	first := now
	for _, c := range falling {
		at := now.Add(time.Duration(sort.Search(int(far/µs), func(i int) bool { return m.fits(c, r.Units, now.Add(time.Duration(i)*µs)) })) * µs)
		first = later(first, at)
	}
	slices.SortFunc(turns, time.Time.Compare)
	for _, at := range append([]time.Time{first}, turns...) {
		if !at.Before(first) && all(r.Charges, at) {
			return at
		}
	}
	return time.Time{}
}

// spend decides one request and records it if it is granted.
func (m *model) spend(r *quota.Request, now time.Time, id quota.ID) (stamp, retryAt time.Time) {
	if at := m.retryAt(r, now); !r.Force && !at.Equal(now) {
		return time.Time{}, at
	}
	stamp = now
	if n := len(m.calls); n > 0 && !stamp.After(m.calls[n-1].at) {
		stamp = m.calls[n-1].at.Add(µs)
	}
	m.calls = append(m.calls, call{at: stamp, method: r.Method, caller: r.Caller, units: r.Units, calls: r.Count(), id: id})
	return stamp, time.Time{}
}

// settle settles or refunds the i-th call, like Ledger.Settle.
func (m *model) settle(i int, units, calls quota.Units, now time.Time) error {
	c := &m.calls[i]
	if len(m.calls)-1-i <= quota.MaxSettle {
		c.units, c.calls = units, calls
		return nil
	}
	if units < c.units || calls < c.calls {
		return quota.ErrStays
	}
	if units > c.units {
		at := now
		if last := m.calls[len(m.calls)-1].at; !at.After(last) {
			at = last.Add(µs)
		}
		m.calls = append(m.calls, call{at: at, method: c.method, caller: c.caller, units: units - c.units, id: c.id})
	}
	return nil
}

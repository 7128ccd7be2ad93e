package decide

import (
	"cmp"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Limits are the limits that were asked of an account's budgets lately. A
// charge is decided by the lowest of them, so that of two configurations the
// stricter holds. The zero value is empty.
type Limits struct {
	Asked map[string][]AskedLimit // by quota.Charge.Identity; see Record

	cache map[**quota.Charge]*heldCharges
}

// AskedLimit is a limit that a configuration has asked.
type AskedLimit struct {
	Config  string // a quota.Config's ID
	Changed int64  // when the configuration was changed
	Limit   int64
	Until   int64 // when it ends
}

const (
	limitHold   = int64(quota.LimitHold / time.Microsecond)
	limitRecord = int64(quota.LimitRecord / time.Microsecond)

	// MaxAskedLimits is how many limits of one budget are kept: the lowest.
	MaxAskedLimits = 32
)

// LimitAskedBy returns what a charge asks, without its end.
func LimitAskedBy(c *quota.Charge) AskedLimit {
	return AskedLimit{Config: c.Config.ID(), Changed: max(0, c.Config.Changed.UnixMicro()), Limit: int64(c.Limit + c.Beside)}
}

// olderThan reports whether a is of the configuration of b before it
// was changed.
func (a *AskedLimit) olderThan(b *AskedLimit) bool {
	return a.Config == b.Config && a.Changed < b.Changed
}

func (a *AskedLimit) sameAs(b *AskedLimit) bool {
	return a.Config == b.Config && a.Changed == b.Changed && a.Limit == b.Limit
}

// Record records what is asked at now, drops what has ended or was replaced,
// and returns the rest, by limit.
func Record(asked []AskedLimit, want AskedLimit, now int64) []AskedLimit {
	want.Until = now + limitHold + limitRecord
	kept, add := make([]AskedLimit, 0, len(asked)+1), true
	for _, a := range asked {
		if a.Until > want.Until+limitRecord { // the clock was ahead
			a.Until = want.Until
		}
		if a.sameAs(&want) {
			add = false
			if a.Until < now+limitHold {
				a.Until = want.Until
			}
		}
		add = add && !want.olderThan(&a)
		if a.Until > now && !a.olderThan(&want) {
			kept = append(kept, a)
		}
	}
	if add {
		kept = append(kept, want)
	}
	slices.SortFunc(kept, func(x, y AskedLimit) int {
		return cmp.Or(cmp.Compare(x.Limit, y.Limit), cmp.Compare(y.Until, x.Until), cmp.Compare(x.Config, y.Config))
	})
	return kept[:min(len(kept), MaxAskedLimits)]
}

// heldCharges are the charges that hold in place of others, for a time.
type heldCharges struct {
	charges     []*quota.Charge
	held        []*quota.Charge // nil if charges hold themselves
	since, till int64
}

func (h *heldCharges) isCurrent(now int64) bool {
	return h != nil && h.since <= now && now < h.till
}

// Ask records the limits of charges, and returns the charges that hold in
// their place: copies where a lower limit does, and nil if there are none.
// changed has the identities whose Asked changed. It is fast for charges that
// it has seen.
func (l *Limits) Ask(charges []*quota.Charge, now int64) (held []*quota.Charge, changed []string) {
	if !configured(charges) {
		return nil, nil
	}
	if h := l.cache[&charges[0]]; h.isCurrent(now) && slices.Equal(h.charges, charges) {
		return h.held, nil
	}
	till := now + limitRecord
	for _, c := range charges {
		if c.Config.Name == "" {
			continue
		}
		identity, want := c.Identity(), LimitAskedBy(c)
		asked := Record(l.Asked[identity], want, now)
		if !slices.Equal(asked, l.Asked[identity]) {
			if l.Asked == nil {
				l.Asked = map[string][]AskedLimit{}
			}
			l.Asked[identity] = asked
			l.cache, changed = nil, append(changed, identity)
		}
		for _, a := range asked {
			if a.sameAs(&want) {
				till = min(till, a.Until-limitHold+1)
			}
		}
	}
	held = l.Held(charges, now)
	for _, c := range held {
		if c.OwnLimit > 0 {
			till = min(till, c.LimitUntil.UnixMicro())
		}
	}
	if len(l.cache) >= 1024 || l.cache == nil {
		l.cache = map[**quota.Charge]*heldCharges{}
	}
	l.cache[&charges[0]] = &heldCharges{slices.Clone(charges), held, now, till}
	return held, changed
}

// configured reports whether a charge says where it is configured.
func configured(charges []*quota.Charge) bool {
	for _, c := range charges {
		if c.Config.Name != "" {
			return true
		}
	}
	return false
}

// Held returns the charges that hold in place of charges at an instant, and nil
// if they do themselves. It records nothing.
func (l *Limits) Held(charges []*quota.Charge, now int64) (held []*quota.Charge) {
	for i, c := range charges {
		if c.Config.Name == "" {
			continue
		}
		lowest := LimitAskedBy(c)
		own := lowest
		for _, a := range l.Asked[c.Identity()] {
			if a.Until > now && !a.olderThan(&own) && a.Limit < lowest.Limit {
				lowest = a
			}
		}
		if lowest == own {
			continue
		}
		if held == nil {
			held = slices.Clone(charges)
		}
		held[i] = c.Limited(quota.Units(lowest.Limit)-c.Beside, Time(lowest.Until))
	}
	return held
}

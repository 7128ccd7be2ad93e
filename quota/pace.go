package quota

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// pacer spreads the calls of paced lanes over what is left of the windows of
// their budgets, so that the calls of other lanes find what they need. nil
// paces nothing.
type pacer struct {
	isPaced func(account, lane string) bool

	mu      sync.Mutex
	budgets map[int]*pacedBudget // by the index in Guard.budgets
}

func newPacer(isPaced func(account, lane string) bool) *pacer {
	if isPaced == nil {
		return nil
	}
	return &pacer{isPaced: isPaced, budgets: map[int]*pacedBudget{}}
}

// pacedBudget is how much of a budget paced lanes may take, as it was last
// read. Everything is known from the log, so that processes pace together.
type pacedBudget struct {
	at     time.Time     // of the reading, on the ledger's clock
	read   time.Time     // the same on this host's clock
	length time.Duration // of the window
	ends   time.Time     // when a calendar window ends; zero for a sliding one
	since  time.Time     // from when on entries count
	limit  Units
	others Units // what others have used and, until the end, are expected to use

	used  Units     // by paced lanes in the window
	first time.Time // the earliest of their entries there, and the latest
	last  time.Time
}

const (
	shortestPaced = time.Hour        // the shortest horizon of a paced budget
	paceReads     = 30 * time.Second // how often a pacer reads what a budget holds
	paceSlack     = 10 * time.Minute // how much earlier or later than before others may come
	paceHeadroom  = 33               // the part of a sliding window that stays free: calls may come earlier than before
)

// paces reports whether the lane of calls is paced.
func (p *pacer) paces(set *chargeSet) bool {
	return p != nil && p.isPaced(set.class.account, set.class.lane)
}

// take counts calls of a paced lane as taken, or refuses them until their time
// has come. The caller must give them back if they are not granted.
func (p *pacer) take(ctx context.Context, g *Guard, r *request) error {
	if !p.paces(r.set) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var worst *RefusedError
	amounts := r.Amounts().Times(r.count)
	for _, charge := range r.set.charges {
		b, err := p.budget(ctx, g, charge)
		if err != nil {
			return nil // the ledger decides by itself
		}
		if b == nil {
			continue
		}
		at, needed := b.now(), amounts.Of(charge.Measure)
		due := b.due(at, needed)
		if isWorse := worst == nil || due.After(worst.RetryAt); !isWorse || !due.After(at) {
			continue
		}
		worst = newRefusal(&r.Call, charge.Name, ReasonPace)
		worst.Measure, worst.Needed = charge.Measure, needed
		worst.Limit, worst.Remaining = b.limit, max(0, b.limit-b.others-b.used)
		worst.RetryAt, worst.RetryAfter = due.UTC(), due.Sub(at)
	}
	if worst != nil {
		return worst
	}
	p.add(r.set, amounts, 1)
	return nil
}

// add counts amounts as taken, or as given back if sign is -1, until the
// budgets are read again.
func (p *pacer) add(set *chargeSet, amounts Amounts, sign Units) {
	for _, charge := range set.charges {
		if b := p.budgets[charge.index]; b != nil {
			b.used += sign * amounts.Of(charge.Measure)
			b.last = b.now()
		}
	}
}

// giveBack gives back calls that were taken and not granted.
func (p *pacer) giveBack(r *request) {
	if !p.paces(r.set) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(r.set, r.Amounts().Times(r.count), -1)
}

// now returns the time on the ledger's clock.
func (b *pacedBudget) now() time.Time { return b.at.Add(time.Since(b.read)) }

// due returns when a call of a paced lane may be made: as long after the one
// before as its part of what is left is of the time that is left.
func (b *pacedBudget) due(at time.Time, needed Units) time.Time {
	most, isSliding := b.limit-b.others, b.ends.IsZero()
	switch {
	case needed == 0:
		return at
	case b.used+needed > most && !isSliding:
		return b.ends
	case b.used+needed > most && !b.first.IsZero():
		return later(b.first.Add(b.length), at.Add(time.Second))
	case b.used+needed > most:
		return at.Add(paceReads)
	case b.last.IsZero():
		return at
	}
	// The units of a sliding window return when those of its first call do. Then
	// they may be taken as fast as they were, or twice as fast as evenly.
	ends, soonest := b.ends, b.last
	if isSliding {
		ends = b.first.Add(b.length)
		soonest = b.last.Add(partOf(b.length, needed, 2*most))
	}
	return later(soonest, b.last.Add(partOf(ends.Sub(b.last), needed, most-b.used)))
}

// partOf returns the part n/of of a length of time.
func partOf(length time.Duration, n, of Units) time.Duration {
	return time.Duration(float64(n) / float64(of) * float64(length))
}

// budget returns what is known of a budget, or nil if it is not paced.
func (p *pacer) budget(ctx context.Context, g *Guard, charge *charge) (*pacedBudget, error) {
	kind := charge.Window.Kind()
	isLong := charge.Horizon() >= shortestPaced && !charge.PerKey
	if !isLong || kind != engine.Sliding && kind != engine.Calendar {
		return nil, nil
	}
	if b := p.budgets[charge.index]; b != nil && time.Since(b.read) < paceReads {
		if isRunning := b.ends.IsZero() || b.now().Before(b.ends); isRunning {
			return b, nil
		}
	}
	state, err := g.state(ctx, charge, "")
	if err != nil {
		return nil, err
	}
	b := &pacedBudget{at: state.at, read: time.Now(), limit: charge.Limit, length: charge.Window.Length()}
	b.since = charge.Window.Since(b.at, charge.Limit)
	if kind == engine.Calendar {
		day := charge.Window.Day(b.at)
		b.length, b.ends = day.Opens.Sub(day.Start), day.Opens
	}
	if err := p.readUse(ctx, g, charge, b); err != nil {
		return nil, err
	}
	p.budgets[charge.index] = b
	return b, nil
}

// readUse reads what paced lanes and others have used in the window, and what
// others are expected to use until its end: what they used a window ago or, if
// the log is not as old, as much in the same time as they have used so far.
func (p *pacer) readUse(ctx context.Context, g *Guard, charge *charge, b *pacedBudget) error {
	before := b.at.Add(-b.length - paceSlack)
	again := b.since // what was used before this and after before, others are expected to use again
	if !b.ends.IsZero() {
		again = b.ends.Add(-b.length)
	}
	var oldest time.Time
	var others, expected Units
	query := Query{Account: charge.Account, Since: earlier(before.Add(-paceSlack), b.since)}
	for e, err := range g.Entries(ctx, query) {
		if err != nil {
			return err
		}
		oldest = earlier(e.At, cmp.Or(oldest, e.At))
		if !charge.coverage.Covers(e.Method, e.Caller.Lane, e.Caller.Region) {
			continue
		}
		amount, isIn := e.Amounts().Of(charge.Measure), !e.At.Before(b.since)
		switch isPaced := p.isPaced(charge.Account, e.Caller.Lane); {
		case isPaced && isIn:
			b.used += amount
			b.first, b.last = earlier(e.At, cmp.Or(b.first, e.At)), e.At
		case isPaced:
		case isIn:
			others += amount
		}
		if isAgain := e.At.After(before) && e.At.Before(again); isAgain && !p.isPaced(charge.Account, e.Caller.Lane) {
			expected += amount
		}
	}
	if isYoung := oldest.After(before); isYoung {
		begin := later(oldest, b.since)
		ends := cmp.Or(b.ends, begin.Add(b.length))
		passed := max(b.at.Sub(begin), shortestPaced) // a burst just now is not their pace
		expected = Units(float64(others) * max(0, float64(ends.Sub(b.at))/float64(passed)))
	}
	if b.others = others + expected; b.ends.IsZero() {
		b.others += charge.Limit / paceHeadroom
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

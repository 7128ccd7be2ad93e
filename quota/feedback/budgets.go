package feedback

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// coveredBudget is a budget with its coverage and the length of its window.
type coveredBudget struct {
	quota.Budget
	coverage *engine.Coverage
	span     time.Duration // in which a bucket refills; 0 of calls in flight
	plain    string        // the name as it is compared
}

func newCoveredBudget(b quota.Budget) coveredBudget {
	span := b.Window.Span()
	if b.Window.Kind() == engine.Bucket {
		span = b.Window.RefillTime(b.Limit)
	}
	return coveredBudget{b, b.Coverage(), span, plainName(strings.ToLower(b.Name))}
}

// longest returns how long the budget can be spent at most.
func (b *coveredBudget) longest() time.Duration {
	if b.isBucket() {
		return b.span
	}
	return b.Horizon()
}

func (b *coveredBudget) isBucket() bool { return b.Window.Kind() == engine.Bucket }

// findBudgets finds the budgets that cover the call, except those for some
// lanes or regions, which the upstream does not know. The budgets of errors and
// those of calls in flight are kept apart: an answer is about them only if it
// says so.
func (a *answer) findBudgets(budgets []coveredBudget) {
	call := &a.call
	for i := range budgets {
		b := &budgets[i]
		isGlobal := len(b.Lanes) == 0 && len(b.Regions) == 0
		isCovered := b.coverage.Covers(call.Method, call.Caller.Lane, call.Caller.Region)
		if !isGlobal || b.Account != call.Account || !isCovered {
			continue
		}
		if limit := b.LimitOf(call.Key); limit != b.Limit {
			own := *b
			own.Limit, b = limit, &own
		}
		switch {
		case b.Measure == quota.Errors:
			a.ofErrors = append(a.ofErrors, b)
		case b.Window.Kind() == engine.InFlight:
			a.inFlight = append(a.inFlight, b)
		default:
			a.covered = append(a.covered, b)
		}
	}
}

// match returns the budget that stands for a limit of the upstream, or nil if
// none does for certain. Of the budgets that cover the call it is
//   - the one that the limit's rule names, or whose name is the limit's or ends
//     in it after a hyphen;
//   - if the dialect's limits belong to methods, the one that names the call's
//     method or, for the default limit, the one for all methods but some;
//   - the only one of the limit's window, of what it counts, of a similar
//     limit, with a window as long as its reset, as far as the answer says
//     each of these.
func (r *reader) match(a *answer, l *limit) *coveredBudget {
	found := a.covered
	isNamedBy := func(b *coveredBudget) bool { return b.Name == l.budget || named(b, l.bucket) }
	switch {
	case l.count == quota.Errors.String(), slices.ContainsFunc(a.ofErrors, isNamedBy):
		found = a.ofErrors
	case !slices.ContainsFunc(found, isNamedBy) && slices.ContainsFunc(a.inFlight, isNamedBy):
		found = a.inFlight
	}
	first := func(is func(*coveredBudget) bool) *coveredBudget {
		if i := slices.IndexFunc(found, is); i >= 0 {
			return found[i]
		}
		return nil
	}
	if l.budget != "" {
		return first(func(b *coveredBudget) bool { return b.Name == l.budget })
	}
	if b := first(func(b *coveredBudget) bool { return named(b, l.bucket) }); b != nil {
		return b
	}
	isNamed := l.bucket != "" && l.bucket != defaultBucket
	if own := ofMethod(found, a.call.Method); r.byMethod && isNamed && len(own) > 0 {
		isOfSpan := func(b *coveredBudget) bool { return sameSpan(b.span, l.span) }
		return own[max(0, slices.IndexFunc(own, isOfSpan))]
	}
	if r.byMethod && !isNamed {
		b := first(func(b *coveredBudget) bool { return len(b.Except) > 0 && len(b.Methods) == 0 })
		if b != nil || len(found) == 1 { // the upstream's limit is that of the account
			return b
		}
	}
	isOfLimit := []func(*coveredBudget) bool{
		func(b *coveredBudget) bool { return l.span > 0 && sameSpan(b.span, l.span) },
		func(b *coveredBudget) bool { return l.counts(b.Measure) },
		func(b *coveredBudget) bool { return similar(&b.Budget, l) },
		func(b *coveredBudget) bool { return l.reset > 0 && !l.bare && b.longest() >= l.reset },
	}
	for _, is := range isOfLimit {
		if len(found) > 1 && slices.ContainsFunc(found, is) {
			found = filter(found, is, a.buffer[:0])
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return nil
}

const defaultBucket = "default"

// filter appends those of a list for which is holds to another one, which may
// have the same array.
func filter(list []*coveredBudget, is func(*coveredBudget) bool, to []*coveredBudget) []*coveredBudget {
	for _, b := range list {
		if is(b) {
			to = append(to, b)
		}
	}
	return to
}

// atOnce returns the budget to stop if there are too many calls at once: the
// one of calls in flight, or of those that name the call's method, or nil.
func (a *answer) atOnce() *coveredBudget {
	found := a.inFlight
	if own := ofMethod(found, a.call.Method); len(own) > 0 {
		found = own
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// narrowest returns the budget to stop for a time if an answer does not say
// which: one of those that name the call's method, or the only one that covers
// the call, or nil.
func (r *reader) narrowest(a *answer, wait time.Duration) *coveredBudget {
	found := a.covered
	own := ofMethod(found, a.call.Method)
	if len(own) > 0 || len(found) > 1 {
		return nearest(own, wait)
	}
	return nearest(found, wait)
}

// ofMethod returns those of a list that name a method.
func ofMethod(list []*coveredBudget, method string) []*coveredBudget {
	return filter(list, func(b *coveredBudget) bool { return slices.Contains(b.Methods, method) }, nil)
}

// nearest returns the budget of the shortest window that may ask for a wait, or
// of the longest one, or nil for none.
func nearest(list []*coveredBudget, wait time.Duration) (found *coveredBudget) {
	for _, b := range list {
		isFirst := found == nil
		isLonger := !isFirst && found.span < wait && b.span > found.span
		isShorter := !isFirst && b.span >= wait && b.span < found.span
		if isFirst || isLonger || isShorter {
			found = b
		}
	}
	return found
}

// counts reports whether the name of a limit says that it counts a measure.
func (l *limit) counts(m quota.Measure) bool {
	switch {
	case l.count != "":
		return m.String() == l.count
	case m != quota.ByUnits && plainName(string(m)) == plainName(l.bucket):
		return true
	case strings.Contains(l.bucket, "token"), strings.Contains(l.bucket, "complexity"):
		return m == quota.ByUnits
	case strings.Contains(l.bucket, "request"):
		return m == quota.Calls
	}
	return false
}

// sameSpan reports whether two windows are of a length; a month has 28 to 31
// days.
func sameSpan(a, b time.Duration) bool {
	return a == b || min(a, b) >= 28*day && max(a, b) <= 31*day
}

// similar reports whether a limit is one to two times as high as a budget's.
func similar(b *quota.Budget, l *limit) bool { return l.max >= b.Limit && l.max <= 2*b.Limit }

// named reports whether a budget's name is a bucket's.
func named(b *coveredBudget, bucket string) bool {
	if bucket == "" {
		return false
	}
	bucket = plainName(bucket)
	before, ok := strings.CutSuffix(b.plain, bucket)
	return ok && (before == "" || before[len(before)-1] == '-')
}

// plainName returns a name with hyphens for what else separates words.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == ' ' || r == '.' {
			return '-'
		}
		return r
	}, name)
}

// longest and shortest return the window of a budget, or else the longest and
// the shortest among those that cover the call: at most and at least def.
func (r *reader) longest(a *answer, budget *coveredBudget, def time.Duration) time.Duration {
	if budget != nil && budget.span > 0 {
		return budget.longest()
	}
	var longest time.Duration
	for _, b := range a.covered {
		longest = max(longest, b.longest())
	}
	return cmp.Or(longest, def)
}

func (r *reader) shortest(a *answer, budget *coveredBudget, def time.Duration) time.Duration {
	if budget != nil && budget.span > 0 {
		return min(def, budget.span)
	}
	for _, b := range a.covered {
		def = min(def, b.span)
	}
	return def
}

// nearReset is how close to a reset an answer may describe the window before.
const nearReset = 2 * quota.DefaultMargin

// shortestNoted is the shortest window of which it is noted what is left: a
// shorter one has passed before the note counts.
const shortestNoted = 30 * time.Second

// sameQuota reports whether a budget can be compared with what is left of a
// limit: both appear to count the same thing. A limit without the budget's
// name or window must be similarly high; others are per minute instead of per
// day, or count requests instead of units. Near its reset a limit may describe
// the window that has just ended.
func sameQuota(b *coveredBudget, l *limit) bool {
	resets := l.reset != unknownReset && l.reset <= min(nearReset, b.span/4)
	isHigher := l.left >= b.Limit || l.max >= 0 && differs(b, l)
	isShort := b.span < shortestNoted
	if isShort || resets || isHigher {
		return false
	}
	isOfWindow := l.span > 0 && sameSpan(b.span, l.span)
	if isOfWindow && l.max < 0 && !l.leaky {
		return true
	}
	return named(b, l.bucket) || l.budget != "" || similar(&b.Budget, l)
}

// differs reports whether a limit cannot be the one that a budget enforces: it
// is lower, or more than twice as high and not of the budget's name.
func differs(b *coveredBudget, l *limit) bool {
	return l.max < b.Limit || l.max > 2*b.Limit && !named(b, l.bucket)
}

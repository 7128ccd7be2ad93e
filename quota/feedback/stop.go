package feedback

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

const (
	minWait     = time.Second      // the shortest cooldown that a refusal sets
	firstGuess  = 2 * time.Second  // the longest first pause after an answer that does not say how long
	longWait    = 10 * time.Minute // a limit that resets later is not one per minute
	unspentWait = time.Minute      // the longest wait for the reset of a limit that may not be the one that is spent
	busyWait    = time.Minute      // what the pause of a busy upstream doubles up to
	shortUpTo   = 15 * time.Minute // what a pause for a short window doubles up to, or that window
	unknownDay  = time.Hour        // the pause for a day or month whose end is not known

	// retryAfterCooldown is the Verdict.After of a retry that has nothing to
	// wait for but the cooldown's end.
	retryAfterCooldown = time.Microsecond
)

// judge returns the stop that an answer asks for, or nil: that of a rule, or
// what most upstreams mean.
func (r *reader) judge(a *answer, out *outcome) *halt {
	h := out.stop
	isNone := h != nil && (h.kind == None || h.kind == Failed)
	waits := out.hasRetry && out.retry.wait > 0
	if isNone && (a.status < http.StatusBadRequest || !waits) {
		return nil
	}
	if h == nil || isNone {
		if !asksToStop(a, out) {
			return nil
		}
		h = &halt{kind: Spent, about: newLimit(), aside: isNone}
		if isNone {
			h.word = out.stop.word
		}
		_, isSpent := spentLimit(out.limits, 0)
		if !isSpent && saysAtOnce(a.texts) || a.status >= http.StatusInternalServerError {
			h.kind = Busy
		}
		if a.status >= http.StatusInternalServerError {
			h.scope = "account"
		}
	}
	if h.kind != Blocked {
		r.complete(a, out, h)
	}
	return h
}

// tooMany are the statuses that say that there are too many calls.
var tooMany = []int{http.StatusTooManyRequests, 420, 430, 509}

// asksToStop reports whether an answer that no rule explains asks for a stop.
func asksToStop(a *answer, out *outcome) bool {
	waits := out.hasRetry && out.retry.wait > 0
	_, isSpent := spentLimit(out.limits, 0)
	switch {
	case a.status == http.StatusUnauthorized:
		return waits
	case slices.Contains(tooMany, a.status):
		return true
	case a.status >= http.StatusBadRequest:
		isForbidden := a.status == http.StatusForbidden && isSpent
		isMissing := a.status == http.StatusNotFound || a.status == http.StatusGone
		saysSo := !isMissing && saysLimited(a.texts)
		return waits || isForbidden || saysSo
	case a.status >= 300:
		return false
	}
	if a.doc == nil || hasContent(a.doc) {
		return false
	}
	texts, isError := errorTexts(a.doc)
	return isError && (waits || saysLimited(texts))
}

// spentLimit returns, of the limits with nothing left, the one of a window or
// else the one that takes longest. span is 0 if the window is not known.
func spentLimit(limits []limit, span time.Duration) (found limit, ok bool) {
	for _, l := range limits {
		isOther := span > 0 && l.span > 0 && !sameSpan(l.span, span)
		isLonger := l.reset == found.reset && l.span > found.span
		isLater := !ok || l.reset > found.reset || isLonger
		if l.left == 0 && !isOther && isLater {
			found, ok = l, true
		}
	}
	return found, ok
}

// complete finds out which limit is spent, and how long the stop lasts.
func (r *reader) complete(a *answer, out *outcome, h *halt) {
	windowFirst := h.rule != "" && h.about.span > 0 && !h.known
	if h.about.span == 0 && h.kind == Spent {
		h.about.span = periodsIn(a.texts)
	}
	l, isSpent := spentLimit(out.limits, h.about.span)
	switch {
	case h.kind != Spent || h.scope == "account":
	case isSpent && h.about.bucket == "" && h.about.budget == "":
		span := h.about.span
		h.about = l
		if h.about.span == 0 {
			h.about.span = span
		}
	case h.about.bucket == "" && h.about.span == 0 && len(out.limits) == 1:
		h.about = out.limits[0]
	}
	if h.known {
		return
	}
	budget := r.match(a, &h.about)
	if windowFirst && r.untilWindowEnds(a, h, budget) {
		return
	}
	if r.readTold(a, out, h) {
		return
	}
	if isSpent && h.kind == Spent && l.reset != unknownReset {
		h.wait, h.known = r.capped(a, &l, budget), true
		return
	}
	if h.kind == Spent && r.untilWindowEnds(a, h, budget) {
		return
	}
	if wait, ok := r.unspentReset(a, out); ok && h.kind == Spent && !isSpent {
		h.wait, h.known = wait, true
		return
	}
	h.double = true
	h.wait = r.shortest(a, budget, firstGuess)
}

// readTold reads how long the answer itself asks to wait: in a header, in a
// field, or in words.
func (r *reader) readTold(a *answer, out *outcome, h *halt) bool {
	if out.hasRetry {
		h.tell(out.retry)
		return true
	}
	m, from := readField(a.doc, a.now, 0)
	ok := from != ""
	if !ok {
		m, ok = readHint(a.texts, a.now)
		from = "message"
	}
	if ok {
		h.tell(m)
		out.saw("", from, "wait %s", m.wait)
	}
	return ok
}

// unspentReset returns the latest reset of limits that all have something left.
// It is not known which one stopped the call.
func (r *reader) unspentReset(a *answer, out *outcome) (wait time.Duration, ok bool) {
	for i := range out.limits {
		if l := &out.limits[i]; l.reset != unknownReset {
			budget := r.match(a, l)
			wait, ok = max(wait, min(r.capped(a, l, budget), unspentWait)), true
		}
	}
	return wait, ok
}

// capped returns the reset of a limit, at most the window of its budget. A
// whole number of seconds that is longer may be one of milliseconds.
func (r *reader) capped(a *answer, l *limit, budget *coveredBudget) time.Duration {
	longest := min(r.longest(a, budget, MaxRetryAfter), MaxDate)
	milliseconds := l.reset / 1000
	isTooLong := l.reset > longest && l.reset >= 10_000*time.Second
	if l.bare && isTooLong && milliseconds <= longest {
		return milliseconds
	}
	return min(l.reset, longest)
}

// untilWindowEnds sets the end of the spent window: of the upstream's calendar,
// as costs.yaml says it, or else of the budget's. A window whose beginning is
// not known ends in half its length on average. A bucket has a unit again soon.
func (r *reader) untilWindowEnds(a *answer, h *halt, budget *coveredBudget) bool {
	span := h.about.span
	if span == 0 && budget != nil && h.about.left == 0 {
		span = budget.span
	}
	isDaily := budget != nil && budget.Window.Kind() == engine.Calendar
	isCalendar := isDaily && sameSpan(budget.span, span)
	knowsDay := r.Resets.Kind() == engine.Calendar
	isDayOfAll := span == day && budget == nil
	isResets := knowsDay && (span == r.Resets.Span() || isDayOfAll)
	h.known, h.ends = true, true
	switch {
	case span == 0:
		h.known, h.ends = false, false
	case isResets:
		h.wait = r.Resets.Day(a.now()).Opens.Sub(a.now())
	case isCalendar:
		h.wait = budget.Window.Day(a.now()).Opens.Sub(a.now())
	case budget != nil && budget.isBucket():
		h.wait, h.double = budget.Window.UnitTime(), true
	case span >= day:
		h.wait, h.double = unknownDay, true
	case knowsDay && span < time.Hour && day%span == 0:
		h.wait = a.now().Truncate(span).Add(span).Sub(a.now())
	case span > time.Minute:
		h.wait = span / 2
	default:
		h.wait = span
	}
	return h.known
}

// stop sets the cooldown of an answer that asks to stop.
func (r *reader) stop(v *quota.Verdict, a *answer, out *outcome, h *halt) {
	budget := r.budgetOf(a, h)
	if budget == nil && h.scope == "method" {
		budget = nearest(a.covered, h.wait)
		out.missed(h.rule, "scope: method", "no budget is of this method alone; the shortest that covers it stops")
	}
	if v.OfKey = h.scope == "key"; budget != nil {
		v.Budget, v.OfKey = budget.Name, v.OfKey || budget.PerKey
	}
	v.Reason = a.reason(h)
	longest := r.longest(a, budget, MaxRetryAfter)
	most := max(longest, MaxRetryAfter)
	if h.date || h.ends {
		most = max(most, MaxDate)
	}
	if h.far {
		most = r.longest(a, nil, MaxRetryAfter)
	}
	waitsLong := h.about.span >= day || !out.hasRetry && h.wait > longWait
	isClientError := a.status/100 == 4 && a.status != http.StatusForbidden
	isOther := h.aside || isClientError && !slices.Contains(tooMany, a.status)
	if isShort := !waitsLong && !isOther; h.kind == Busy || isShort {
		v.Transient, v.After = true, retryAfterCooldown
	}
	v.For = max(min(h.wait, most), min(minWait, r.shortest(a, budget, minWait)))
	if !h.double {
		return
	}
	v.UpTo = min(longest, MaxDate)
	switch span := h.about.span; {
	case h.kind == Busy:
		v.UpTo = busyWait
	case span > 0 && span < day:
		v.UpTo = min(v.UpTo, max(span, shortUpTo))
	}
	v.UpTo = max(v.UpTo, v.For)
	isExplained := h.rule != "" || h.about.span > 0 || h.known
	v.Unexplained = h.kind == Spent && !isExplained
}

// budgetOf returns the budget that a stop is about, or nil for the account.
func (r *reader) budgetOf(a *answer, h *halt) *coveredBudget {
	switch {
	case h.scope == "account":
		return nil
	case h.scope == "method":
		return r.narrowest(a, h.wait)
	}
	if b := a.atOnce(); b != nil && h.kind == Busy && h.about.budget == "" {
		return b
	}
	budget := r.match(a, &h.about)
	isOfAll := r.byMethod && h.about.bucket != "" && h.about.span >= day
	if budget != nil || isOfAll {
		return budget
	}
	return r.narrowest(a, h.wait)
}

// applyLimits acts on the limits in an answer. Of those with nothing left, the
// one that lasts longest sets a cooldown; the others are compared with their
// budgets.
func (r *reader) applyLimits(v *quota.Verdict, a *answer, out *outcome) {
	if len(out.limits) == 0 {
		return
	}
	var room [4]highestLimit
	highest := room[:0]
	for i := range out.limits {
		l := &out.limits[i]
		budget := r.match(a, l)
		if budget != nil && l.max >= 0 && !l.leaky {
			highest = addHighest(highest, budget, l)
		}
		isMalformed := l.left < 0 || l.max >= 0 && l.left > l.max
		switch {
		case isMalformed:
		case l.left == 0:
			r.stopAtLimit(v, a, l, budget)
		case budget == nil || !sameQuota(budget, l):
		default:
			v.AddLeft(budget.Name, l.left)
		}
	}
	for _, h := range highest {
		if !h.plausible && v.LimitOf == "" {
			v.LimitOf, v.Limit = h.budget.Name, h.max
		}
	}
}

// highestLimit is the highest limit that an answer has for a budget.
type highestLimit struct {
	budget    *coveredBudget
	max       quota.Units
	plausible bool // one of the limits may be the budget's
}

func addHighest(all []highestLimit, budget *coveredBudget, l *limit) []highestLimit {
	for i := range all {
		if h := &all[i]; h.budget == budget {
			h.max = max(h.max, l.max)
			h.plausible = h.plausible || !differs(budget, l)
			return all
		}
	}
	return append(all, highestLimit{budget, l.max, !differs(budget, l)})
}

// stopAtLimit sets the cooldown of a limit with nothing left, unless v already
// has one that is at least as long. The call itself was admitted, so an unknown
// end is a short pause: the next answer says more.
func (r *reader) stopAtLimit(v *quota.Verdict, a *answer, l *limit, budget *coveredBudget) {
	h := &halt{about: *l}
	if l.reset != unknownReset {
		h.wait = r.capped(a, l, budget)
	} else {
		isCalendar := budget == nil || budget.Window.Kind() == engine.Calendar || r.Resets.Kind() == engine.Calendar
		ends := r.untilWindowEnds(a, h, budget) && h.ends && !h.double
		if !ends || !isCalendar {
			h.wait = r.shortest(a, budget, firstGuess)
		}
	}
	if h.wait <= v.For {
		return
	}
	v.For, v.Budget = h.wait, ""
	v.OfKey = budget != nil && budget.PerKey
	v.Reason = fmt.Sprintf("%d, nothing left", a.status)
	if l.bucket != "" {
		v.Reason += " of " + l.bucket
	}
	if budget != nil {
		v.Budget = budget.Name
	}
}

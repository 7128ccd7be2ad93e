// Package feedback reads what an upstream's answer says about its quota: that a
// limit is spent and until when, that calls come too fast, what the call really
// cost, or how much is left.
//
//	transport.Feedback, err = feedback.New("github", feedback.Options{Budgets: budgets})
//
// An answer is read by rules. Options.Rules come first, then those of a
// dialect, which is a file of rules for one upstream, then what most upstreams
// have in common: Retry-After in any spelling, RateLimit of every draft,
// X-RateLimit-* with its variants, and the words of messages. What an answer
// leaves open is resolved to the shorter stop of the narrower scope, since the
// next answer teaches more. If it says nothing at all, the pause is short, and
// doubles with each further refusal.
//
// An error answer with a Retry-After above 0 sets a cooldown of that length,
// whatever its status. A limit that only its owner can raise sets no cooldown,
// because waiting does not lift it. In other answers Retry-After means
// something else, such as when to poll a job, and is ignored.
//
// Times in an answer are compared with its Date header, so that the host's
// clock does not matter. Without a Date, the host's clock is used.
package feedback

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// Options configures New. The zero Options stops the whole account on every
// cooldown.
type Options struct {
	// Rules are tried before those of the dialect.
	Rules []Rule

	// Zone is the time zone in which the upstream's day ends. nil is that of the
	// dialect, if it has one, and else unknown.
	Zone *time.Location

	// Resets is the upstream's own day or month, if it does not begin at
	// midnight in Zone or has another margin. A cooldown of a daily limit ends
	// when the next period has begun, a margin after the boundary. The zero
	// Window is the day of Zone.
	Resets quota.Window

	// Budgets are the budgets that calls are charged to. A limit of the
	// upstream is matched to one of them by its name, else by the call's method,
	// its window, or what it counts; a limit that matches none is the whole
	// account's. A cooldown that follows from the reset of a limit is at most
	// as long as the budget's window. One that the
	// answer asks for in so many words may be longer: a day, or MaxDate if it
	// ends at a date. In those that count quota.Errors, an answer of status 400
	// or more counts as one, unless a rule says otherwise.
	Budgets []quota.Budget

	// NotModified returns what a call costs whose answer is a 304. nil means
	// the full price. 0 means that the call counts in no budget.
	NotModified func(quota.Call) quota.Units

	// PerCall returns what each call in a request costs that holds several, and
	// 0 for other requests. An answer with the answers to all of them, as
	// multipart/mixed, then says what the request cost. nil is 0.
	PerCall func(quota.Call) quota.Units

	// Measures are the named measures that calls have. Costs returns the amounts
	// that an answer names for a call with those that follow from them, such as
	// a price; nil adds none.
	Measures []quota.Measure
	Costs    func(quota.Call, map[quota.Measure]quota.Units) map[quota.Measure]quota.Units

	// Now is a clock for tests; nil is time.Now.
	Now func() time.Time
}

// New returns a function for quota.Transport.Feedback that reads answers in
// the named dialect, one of Names. The function is safe for concurrent use. An
// unknown name is an error that lists the known ones.
//
// The function reads a body only if a rule that could match needs it, or if it
// may be an error, and at most 64 KiB of it. It replaces the body with one that
// reads the same. The cost at the end of a longer body or of a stream of events
// is read while the caller reads it; see quota.Verdict.Later.
func New(name string, o Options) (func(quota.Call, *http.Response) quota.Verdict, error) {
	r, err := newReader(name, o)
	if err != nil {
		return nil, err
	}
	return func(call quota.Call, resp *http.Response) quota.Verdict {
		v, _, _ := r.read(call, resp)
		return v
	}, nil
}

// reader turns one upstream's answers into verdicts.
type reader struct {
	Options
	rules       []*rule
	spelled     map[string]string // as in rule, of all rules
	byMethod    bool
	knowsErrors bool // the rules say which successful answers are errors
	budgets     []coveredBudget
	names       nameCache
	traces      bool // says how it reads answers
}

func newReader(name string, o Options) (*reader, error) {
	d := dialectNamed(name)
	if d == nil {
		return nil, fmt.Errorf("feedback: unknown dialect %q; name one of %s", name, strings.Join(Names(), ", "))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Zone == nil && d.Zone != "" {
		o.Zone = zoneNamed(d.Zone)
	}
	if o.Resets.Kind() != engine.Calendar && o.Zone != nil {
		o.Resets = quota.Daily(o.Zone)
	}
	r := &reader{Options: o, byMethod: d.ByMethod, knowsErrors: len(d.Rules) > 0, spelled: map[string]string{}}
	for i, rules := range [][]Rule{o.Rules, d.Rules} {
		for _, one := range rules {
			if isOfDialect := i > 0; isOfDialect && !one.keepMeasures(o.Measures) {
				continue
			}
			c, err := compile(one)
			if err != nil {
				return nil, fmt.Errorf("feedback: rule %s: %w", one.At, err)
			}
			r.rules = append(r.rules, c)
			maps.Copy(r.spelled, c.spelled)
		}
	}
	for _, b := range o.Budgets {
		r.budgets = append(r.budgets, newCoveredBudget(b))
	}
	return r, nil
}

// zoneNamed returns a zone, or without time zone data that of its winter: an
// hour late in summer, never early.
func zoneNamed(name string) *time.Location {
	if zone, err := time.LoadLocation(name); err == nil {
		return zone
	}
	return time.FixedZone("PST", -8*60*60)
}

// read reads an answer. The halt is nil if it asks for no stop.
func (r *reader) read(call quota.Call, resp *http.Response) (v quota.Verdict, out *outcome, h *halt) {
	out = &outcome{traces: r.traces}
	out.limits = out.room[:0]
	if resp == nil {
		return v, out, nil
	}
	if isParts(resp) {
		if parts, isWhole := partsOf(resp); len(parts) > 0 { //nolint:bodyclose // their bodies are in memory
			return r.readWorst(call, parts, isWhole)
		}
	}
	a := r.newAnswer(call, resp)
	if r.traces {
		a.trace = out
	}
	late := r.readBody(a, resp)
	r.apply(a, out)
	h = r.judge(a, out)
	r.settle(&v, a, out)
	a.countError(&v)
	if late && !v.Settled {
		v.Later = r.readLate(a, resp)
	}
	switch {
	case h == nil && (a.status >= http.StatusInternalServerError || out.failed()):
		v.Transient, v.After = true, out.retry.wait
	case h == nil:
	case h.kind == Blocked:
		v.Never, v.Reason = true, a.reason(h)
	default:
		r.stop(&v, a, out, h)
	}
	isFailure := a.status >= http.StatusInternalServerError
	if (h == nil || isFailure) && a.status != http.StatusUnauthorized { // its limits belong to another key
		r.applyLimits(&v, a, out)
	}
	return v, out, h
}

// apply reads what most answers have in common, and applies the rules. What
// rules say counts more: headers that a rule that matches reads are left to it.
func (r *reader) apply(a *answer, out *outcome) {
	matched := a.candidates[:0]
	for _, c := range a.candidates {
		if c.matchesBody(a) {
			matched = append(matched, c)
		}
	}
	a.candidates = matched
	r.readFamilies(a, out)
	if len(a.candidates) == 0 {
		return
	}
	common := out.limits
	if len(common) > 0 {
		out.limits = nil
	}
	for _, c := range a.candidates {
		if c.needsBody {
			c.matchesBody(a) // sets what its values are about
		}
		a.rule = c.At
		out.add(r, c, a)
	}
	out.limits = append(out.limits, common...)
}

// readBody reads the body, or its beginning, if a rule or the common ones need
// it. It reports whether the cost may come later, at the end of a stream or of
// a long body.
func (r *reader) readBody(a *answer, resp *http.Response) (late bool) {
	var needs, saysCost bool
	for _, c := range a.candidates {
		needs = needs || c.needsBody
		saysCost = saysCost || c.needsBody && c.saysCost()
	}
	isError := a.status >= http.StatusBadRequest
	if a.status == http.StatusNotModified || a.status == http.StatusNoContent || a.status < 200 {
		return false
	}
	if isUseless := resp.Body == http.NoBody || !needs && r.knowsErrors; isUseless && !isError {
		return false
	}
	kind, most := a.mediaType(), maxBody
	switch {
	case isError:
	case !needs && !isText(kind):
		return false
	case isStream(kind):
		return saysCost
	case !needs:
		most = maxSmall
	}
	if isLong := resp.ContentLength > int64(most) && !a.needsText; isLong && !isError {
		return saysCost
	}
	isWanted := func(first byte) bool {
		switch first {
		case '{', 0x1f: // an object, gzip
			return true
		case '[': // without a length it may be a stream
			return resp.ContentLength >= 0
		}
		return a.needsText && isText(kind)
	}
	if isError {
		isWanted = nil
	}
	body, isWhole := peek(resp, most, isWanted)
	if isWhole || needs || isError {
		a.setBody(body, isWhole)
	}
	return !isWhole && saysCost && !isError
}

// maxSmall is the longest body of a successful answer that may be an error all
// the same.
const maxSmall = 4 << 10

// settle sets what the call cost. Only a documented cost in a successful
// answer may be lower than the price, and it is at least 1. A 304 costs what
// NotModified returns.
func (r *reader) settle(v *quota.Verdict, a *answer, out *outcome) {
	if out.hasCost {
		v.Settled, v.Units = true, min(max(out.cost, 1), quota.MaxUnits)
		v.Undocumented = out.undocumented || a.status >= http.StatusBadRequest
	}
	if len(out.measures) > 0 {
		if !out.hasCost {
			v.Settled, v.Units = true, a.call.Units
		}
		if v.Measures = out.measures; r.Costs != nil {
			v.Measures = r.Costs(a.call, out.measures)
		}
	}
	if out.counts != nil && !*out.counts {
		*v = quota.Verdict{Free: true}
	}
	if a.status == http.StatusNotModified && r.NotModified != nil {
		units := r.NotModified(a.call)
		switch {
		case units == 0:
			*v = quota.Verdict{Free: true}
		case units > 0 && units < a.call.Units:
			v.Settled, v.Units = true, units
			v.Undocumented = false
		}
	}
}

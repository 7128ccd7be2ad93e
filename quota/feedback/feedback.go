// Package feedback reads from an upstream's answer what it says about its
// quota: that a limit is spent for a time, that calls come too fast, what the
// call really cost, how much is left, or nothing. It knows the answers of
// several upstreams by name:
//
//	transport.Feedback, err = feedback.New("github", feedback.Options{Budgets: budgets})
//
// Whatever its status, an error with a Retry-After (or Retry-After-Ms) above 0
// is a cooldown of that length, up to a day: of the budget whose limit the
// answer is about, or of the whole account, as for a 5xx. A limit of 0, which no
// wait lifts, is not. In answers that are not errors Retry-After is
// about something else, such as a redirect or a job to poll, and is not read.
//
// Times in an answer are taken against its own Date, so that no clock here
// matters; without a Date, against the host's clock.
package feedback

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Options are for New. Without any, a cooldown stops the whole account and is
// at most a day long, unless the upstream's own day ends later.
type Options struct {
	// Zone is where the upstream's day ends. nil is America/Los_Angeles for
	// google, as "daily quotas reset at midnight Pacific Time"
	// (developers.google.com/youtube/v3/determine_quota_cost, 2026-11-20), and
	// not known for the others.
	Zone *time.Location

	// Resets is the upstream's own day, or month, where it begins at another time
	// than Zone's midnight, or with another margin. A cooldown of the day's quota ends when
	// the next one has begun, a margin after the boundary. The zero Window is Zone's day.
	Resets quota.Window

	// Budgets are those that the calls are charged to. A limit of the upstream
	// is one of theirs when its name says so, or else the call's method or what
	// it counts; otherwise it is the whole account's. No cooldown is longer than
	// the longest window of the account, except until the upstream's day ends,
	// and for what Retry-After says.
	Budgets []quota.Budget

	// NotModified returns what a call costs that is answered with 304. nil
	// is its full cost.
	NotModified func(quota.Call) quota.Units

	// Now is a clock for tests; nil is time.Now.
	Now func() time.Time
}

// Names returns the names that New knows, sorted.
func Names() []string { return slices.Sorted(maps.Keys(dialects())) }

// New returns what reads the answers of an upstream, for
// quota.Transport.Feedback. It is safe for concurrent use. An unknown name is an
// error that lists those it knows.
//
// It reads the body of an error, and of other answers only if they are JSON in
// which this upstream says something; at most so much as is needed, and puts back
// a body that reads the same.
func New(name string, o Options) (func(quota.Call, *http.Response) quota.Verdict, error) {
	d, ok := dialects()[name]
	if !ok {
		return nil, fmt.Errorf("feedback: no dialect %q; name one of %s", name, strings.Join(Names(), ", "))
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Zone == nil && name == "google" {
		o.Zone = pacific()
	}
	if o.Resets.Kind() != quota.KindDaily && o.Zone != nil {
		o.Resets = quota.Daily(o.Zone)
	}
	r := &reader{dialect: d, Options: o, budgets: newBudgets(o.Budgets)}
	return r.verdict, nil
}

func pacific() *time.Location {
	if zone, err := time.LoadLocation("America/Los_Angeles"); err == nil {
		return zone
	}
	// A host without time zones: an hour late in summer, never early.
	return time.FixedZone("PST", -8*60*60)
}

// reader makes verdicts of one upstream's answers.
type reader struct {
	dialect
	Options
	budgets budgets
}

// answer is what is read of one response, in any dialect.
type answer struct {
	call   quota.Call
	status int
	header http.Header
	now    time.Time // by the upstream's clock: the answer's Date and Age, or else by ours
	json   any       // the body; nil when nobody looked, or it is no JSON

	class  Class
	word   string // what is wrong, in the upstream's words
	about  limit  // whose limit it is, so far as it is said
	limits []limit

	after time.Duration // how long to wait, when said
	said  bool
	day   bool // until the upstream's day ends

	cost         quota.Units // what the call really cost, when costed
	costed       bool
	undocumented bool // by a header that no document of the upstream defines
}

// verdict is for quota.Transport.Feedback.
func (r *reader) verdict(call quota.Call, resp *http.Response) quota.Verdict {
	if resp == nil {
		return quota.Verdict{}
	}
	a := r.read(call, resp)
	var v quota.Verdict
	r.settle(&v, a)
	switch a.class {
	case Never:
		v.Never, v.Reason = true, a.reason()
	case Exhausted, SlowDown:
		r.stop(&v, a)
	default:
		r.pauseFor(&v, a)
		if a.status != http.StatusUnauthorized { // its limits are not this key's
			r.readLimits(&v, a)
		}
	}
	return v
}

// settle takes what the call cost from an answer. Only what an upstream
// documents for an answer that is fine may be less than the price, and not
// nothing; a 304 costs what NotModified says.
func (r *reader) settle(v *quota.Verdict, a *answer) {
	if a.costed {
		v.Settled, v.Units = true, min(max(a.cost, 1), quota.MaxUnits)
		v.Undocumented = a.undocumented || a.status >= http.StatusBadRequest
	}
	if a.status == http.StatusNotModified && r.NotModified != nil {
		if units := r.NotModified(a.call); units >= 0 && units < a.call.Units {
			v.Settled, v.Undocumented, v.Units = true, false, units
		}
	}
}

// pauseFor makes a cooldown of what an error that is about no limit says of
// when to come back: of the account for an upstream that is out of order, else
// of the budget that covers such calls.
func (r *reader) pauseFor(v *quota.Verdict, a *answer) {
	if a.class == Transient {
		v.Transient, v.After = true, a.after
	}
	if a.status < http.StatusBadRequest || !a.said || a.after <= 0 {
		return
	}
	v.For, v.Reason = a.after, a.reason()
	if v.Transient { // a retry waits for the cooldown's end
		v.After = time.Microsecond
	} else if budget := r.budgets.of(a.call, a.about, r.byMethod); budget != nil {
		v.Budget = budget.Name
	}
}

// read reads an answer.
func (r *reader) read(call quota.Call, resp *http.Response) *answer {
	a := &answer{call: call, status: resp.StatusCode, header: resp.Header, now: r.Now()}
	if date, ok := dateOf(a.header); ok {
		a.now = date
		if age, ok := single(a.header, "Age"); ok { // a cache has held it so long
			a.now = date.Add(max(0, delta.read(age, date)))
		}
	}
	switch {
	case a.status >= http.StatusBadRequest:
		a.json = parse(unpacked(resp, peek(resp, maxBody), maxBody))
	case a.status == http.StatusOK && r.looksInto(resp):
		a.json = parse(unpacked(resp, peek(resp, maxFine), maxFine))
	}
	a.after, a.said = retryAfter(a.header, a.now)
	for _, f := range r.headers {
		a.limits = append(a.limits, f.read(a)...)
	}
	if r.look != nil {
		r.look(a)
	}
	if a.class == Fine {
		r.classify(a)
	}
	a.readCost(r.cost)
	return a
}

// stop makes a cooldown of an answer that says stop.
func (r *reader) stop(v *quota.Verdict, a *answer) {
	budget := r.budgets.of(a.call, a.about, r.byMethod)
	if budget != nil {
		v.Budget = budget.Name
	}
	v.Reason = a.reason()
	if a.class == SlowDown { // a retry waits for the cooldown's end
		v.Transient, v.After = true, time.Microsecond
	}
	if a.day && r.dayIsKnown() {
		v.For = r.untilDay(a)
		return
	}
	if a.said {
		v.For = max(a.after, leastWait)
		return
	}
	wait, said := a.reset()
	switch {
	case said:
	case a.day: // nothing says when that day ends
		wait = time.Hour
	default:
		wait = cmp.Or(r.pause, defaultWait)
	}
	v.For = max(min(wait, r.budgets.longest(a.call.Account)), leastWait)
}

// untilDay returns how long it is until the upstream's next day has begun.
func (r *reader) untilDay(a *answer) time.Duration { return r.Resets.Day(a.now).Opens.Sub(a.now) }

// dayIsKnown reports whether it is known when the upstream's day ends.
func (r *reader) dayIsKnown() bool { return r.Resets.Kind() == quota.KindDaily }

// readLimits takes from an answer that does not say stop what its limits ask
// for: a cooldown of the one with nothing left that lasts longest, and how much
// is left of the smallest other.
func (r *reader) readLimits(v *quota.Verdict, a *answer) {
	fit, odd := map[*quota.Budget]bool{}, map[*quota.Budget]quota.Units{}
	for _, l := range a.limits {
		budget := r.budgets.of(a.call, l, r.byMethod)
		if budget != nil && l.max >= 0 && !l.leaky {
			fit[budget] = fit[budget] || !differs(budget, l)
			odd[budget] = max(odd[budget], l.max)
		}
		switch {
		case l.left < 0 || l.max >= 0 && l.left > l.max:
		case l.left == 0:
			r.stopForLimit(v, a, l, budget)
		case budget != nil && speaksOf(budget, l) && (v.LeftOf == "" || l.left < v.Left):
			v.LeftOf, v.Left = budget.Name, l.left
		}
	}
	for i := range r.budgets {
		b := &r.budgets[i].Budget
		if most, ok := odd[b]; ok && !fit[b] && v.LimitOf == "" {
			v.LimitOf, v.Limit = b.Name, most
		}
	}
}

// stopForLimit makes a cooldown of a limit of which nothing is left.
func (r *reader) stopForLimit(v *quota.Verdict, a *answer, l limit, budget *quota.Budget) {
	var wait time.Duration
	switch {
	case l.day && r.dayIsKnown():
		wait = r.untilDay(a)
	case l.reset == unknownReset:
		wait = cmp.Or(r.pause, defaultWait)
	default:
		wait = min(l.reset, r.budgets.longest(a.call.Account))
	}
	if wait <= v.For {
		return
	}
	v.For, v.Budget, v.Reason = wait, "", fmt.Sprintf("%d, nothing left", a.status)
	if l.bucket != "" {
		v.Reason += " of " + l.bucket
	}
	if budget != nil {
		v.Budget = budget.Name
	}
}

// reason is the status, the upstream's word and whose limit it is:
// 429 rateLimitExceeded search_list.
func (a *answer) reason() string {
	text := fmt.Sprintf("%d %s", a.status, cmp.Or(a.word, http.StatusText(a.status)))
	if bucket := a.about.bucket; bucket != "" && bucket != defaultBucket {
		text += " " + bucket
	}
	return clean(text)
}

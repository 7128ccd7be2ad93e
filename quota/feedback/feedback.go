// Package feedback reads from an upstream's answer what it says about its
// quota: that a limit is spent until an instant, that calls come too fast, what
// the call really cost, how much is left, or nothing. It knows the answers of
// several upstreams by name:
//
//	transport.Feedback, err = feedback.New("github", feedback.Options{Budgets: budgets})
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
	// the longest window of the account, except until the upstream's day ends.
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
	date   time.Time // the upstream's clock: the answer's Date, or else ours
	json   any       // the body; nil when nobody looked, or it is no JSON

	class  Class
	word   string // what is wrong, in the upstream's words
	about  limit  // whose limit it is, so far as it is said
	limits []limit

	after time.Duration // how long to wait, when said
	said  bool
	day   bool // until the upstream's day ends

	cost   quota.Units // what the call really cost, when costed
	costed bool
}

// verdict is for quota.Transport.Feedback.
func (r *reader) verdict(call quota.Call, resp *http.Response) quota.Verdict {
	if resp == nil {
		return quota.Verdict{}
	}
	a := r.read(call, resp)
	var v quota.Verdict
	if a.costed && a.cost >= 0 && a.cost <= quota.MaxUnits {
		v.Settled, v.Units = true, a.cost
	}
	if a.status == http.StatusNotModified && r.NotModified != nil {
		if units := r.NotModified(call); units >= 0 && units < call.Units {
			v.Settled, v.Units = true, units
		}
	}
	switch a.class {
	case Never:
		v.Never, v.Reason = true, a.reason()
	case Exhausted, SlowDown:
		r.stop(&v, a)
	default:
		if a.class == Transient {
			v.Transient, v.After = true, a.after
		}
		if a.status != http.StatusUnauthorized { // its limits are those of nobody's key
			r.heed(&v, a)
		}
	}
	return v
}

// read reads an answer.
func (r *reader) read(call quota.Call, resp *http.Response) *answer {
	a := &answer{call: call, status: resp.StatusCode, header: resp.Header, date: r.Now()}
	if text, ok := single(a.header, "Date"); ok {
		if date, err := http.ParseTime(text); err == nil {
			a.date = date
		}
	}
	switch {
	case a.status >= http.StatusBadRequest:
		a.json = parse(unpacked(resp, peek(resp, maxBody), maxBody))
	case a.status == http.StatusOK && r.looksInto(resp):
		a.json = parse(unpacked(resp, peek(resp, maxFine), maxFine))
	}
	a.after, a.said = ParseRetryAfter(a.header)
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
	now := r.Now()
	if a.day && r.dayIsKnown() {
		v.Until = r.Resets.Day(now).Opens
		return
	}
	wait, said := a.after, a.said
	if !said {
		wait, said = a.reset()
	}
	switch {
	case said:
	case a.day: // nobody knows when that day ends
		wait = time.Hour
	default:
		wait = cmp.Or(r.pause, defaultWait)
	}
	v.Until = now.Add(max(min(wait, r.budgets.longest(a.call.Account)), leastWait)).UTC()
}

// dayIsKnown reports whether it is known when the upstream's day ends.
func (r *reader) dayIsKnown() bool { return r.Resets.Kind() == quota.KindDaily }

// heed makes of an answer that is no stop what its limits ask for: a cooldown
// of the one with nothing left that lasts longest, and the word of how much is
// left of the smallest other.
func (r *reader) heed(v *quota.Verdict, a *answer) {
	now := r.Now()
	for _, l := range a.limits {
		if l.left < 0 || l.max >= 0 && l.left > l.max {
			continue
		}
		budget := r.budgets.of(a.call, l, r.byMethod)
		if l.left > 0 {
			if budget != nil && speaksOf(budget, l) && (v.LeftOf == "" || l.left < v.Left) {
				v.LeftOf, v.Left = budget.Name, l.left
			}
			continue
		}
		var until time.Time
		switch wait := l.reset; {
		case l.day && r.dayIsKnown():
			until = r.Resets.Day(now).Opens
		case wait == unknownReset:
			wait = cmp.Or(r.pause, defaultWait)
			fallthrough
		default:
			until = now.Add(min(wait, r.budgets.longest(a.call.Account))).UTC()
		}
		if until.After(now) && until.After(v.Until) {
			v.Until, v.Budget, v.Reason = until, "", fmt.Sprintf("%d, nothing left", a.status)
			if l.bucket != "" {
				v.Reason += " of " + l.bucket
			}
			if budget != nil {
				v.Budget = budget.Name
			}
		}
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

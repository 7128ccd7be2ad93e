// Package feedback reads what an upstream's response says about its quota:
// that a limit is exhausted, that calls come too fast, what the call really
// cost, or how much is left. It knows the dialects of several upstreams by
// name:
//
//	transport.Feedback, err = feedback.New("github", feedback.Options{Budgets: budgets})
//
// An error response with a Retry-After (or Retry-After-Ms, or Google's
// RetryInfo) above 0 sets a cooldown of that length, at most a day, whatever
// its status. The cooldown stops the budget that matches the limit in the
// response; it stops the whole account when none matches and after a 5xx. A
// limit of 0 sets no cooldown, because waiting does not lift it. In other
// responses Retry-After means something else, such as when to poll a job, and
// is ignored.
//
// Times in a response are compared with its Date header, so that the host's
// clock does not matter. Without a Date, the host's clock is used.
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

// Options configures New. The zero Options stops the whole account on every
// cooldown, for at most a day or until the upstream's day ends.
type Options struct {
	// Zone is the time zone in which the upstream's day ends. nil is
	// America/Los_Angeles for google, as "daily quotas reset at midnight
	// Pacific Time" (developers.google.com/youtube/v3/determine_quota_cost,
	// 2026-11-20), and unknown for the other dialects.
	Zone *time.Location

	// Resets is the upstream's own day or month, if it does not begin at
	// midnight in Zone or has another margin. A cooldown of a daily limit ends
	// when the next period has begun, a margin after the boundary. The zero
	// Window is the day of Zone.
	Resets quota.Window

	// Budgets are the budgets that calls are charged to. A limit of the
	// upstream is matched to one of them by its name, else by the call's method
	// or by what it counts; a limit that matches none is the whole account's. A
	// cooldown is at most as long as the budget's window (twice that of a
	// Counter). For the whole account it is at most its longest window and at
	// most a day. Neither holds for one that lasts until the upstream's day ends
	// or is set by Retry-After.
	Budgets []quota.Budget

	// NotModified returns what a call costs whose response is a 304. nil means
	// the full price.
	NotModified func(quota.Call) quota.Units

	// Now is a clock for tests; nil is time.Now.
	Now func() time.Time
}

// Names returns the dialects that New accepts, sorted.
func Names() []string { return slices.Sorted(maps.Keys(dialects())) }

// SaysCost reports whether answers in the named dialect may say what a
// call cost.
func SaysCost(name string) bool { return len(dialects()[name].cost) > 0 }

// New returns a function for quota.Transport.Feedback that reads responses in
// the named dialect. The function is safe for concurrent use. An unknown name
// is an error that lists the known ones.
//
// The function reads the body of error responses, and of JSON responses in
// which the dialect reports costs or limits. It reads a bounded amount and
// replaces the body with one that reads the same.
func New(name string, o Options) (func(quota.Call, *http.Response) quota.Verdict, error) {
	d, ok := dialects()[name]
	if !ok {
		return nil, fmt.Errorf("feedback: unknown dialect %q; name one of %s", name, strings.Join(Names(), ", "))
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
	r := &reader{dialect: d, Options: o}
	for _, b := range o.Budgets {
		r.budgets = append(r.budgets, coveredBudget{b, b.Coverage()})
	}
	return r.verdict, nil
}

func pacific() *time.Location {
	if zone, err := time.LoadLocation("America/Los_Angeles"); err == nil {
		return zone
	}
	// Without time zone data: an hour late in summer, never early.
	return time.FixedZone("PST", -8*60*60)
}

// reader turns one upstream's responses into verdicts.
type reader struct {
	dialect
	Options
	budgets []coveredBudget
}

// response is what is read from one response, in any dialect.
type response struct {
	call   quota.Call
	path   string // the request's, if it is known
	status int
	header http.Header
	now    time.Time // Date plus Age, on the upstream's clock; without a Date, the host's time
	json   any       // the body; nil if it was not read or is not JSON

	class  Class
	word   string // what is wrong, in the upstream's words
	about  limit  // the limit that was hit, as far as the response says
	limits []limit

	wait    time.Duration // how long the response asks to wait, if hasWait
	hasWait bool
	daily   bool // the limit resets when the upstream's day ends

	cost         quota.Units // what the call really cost, if hasCost
	hasCost      bool
	undocumented bool // the upstream's documentation does not define the cost
}

func (r *reader) verdict(call quota.Call, resp *http.Response) quota.Verdict {
	if resp == nil {
		return quota.Verdict{}
	}
	res := r.read(call, resp)
	var v quota.Verdict
	r.settle(&v, res)
	switch res.class {
	case Never:
		v.Never, v.Reason = true, res.reason()
	case Exhausted, SlowDown:
		r.stop(&v, res)
	default:
		r.honorRetryAfter(&v, res)
		if res.status != http.StatusUnauthorized { // its limits belong to another key
			r.applyLimits(&v, res)
		}
	}
	return v
}

// settle sets what the call cost. Only a documented cost in a successful
// response may be lower than the price, and it is at least 1. A 304 costs what
// NotModified returns.
func (r *reader) settle(v *quota.Verdict, res *response) {
	if res.hasCost {
		v.Settled, v.Units = true, min(max(res.cost, 1), quota.MaxUnits)
		v.Undocumented = res.undocumented || res.status >= http.StatusBadRequest
	}
	if res.status == http.StatusNotModified && r.NotModified != nil {
		if units := r.NotModified(res.call); units >= 0 && units < res.call.Units {
			v.Settled, v.Units = true, units
			v.Undocumented = false
		}
	}
}

// honorRetryAfter sets the cooldown that an error asks for which is not about
// a limit: on the account if the upstream failed, else on the budget that
// covers such calls.
func (r *reader) honorRetryAfter(v *quota.Verdict, res *response) {
	if res.class == Transient {
		v.Transient, v.After = true, res.wait
	}
	if res.status < http.StatusBadRequest || !res.hasWait || res.wait <= 0 {
		return
	}
	v.For, v.Reason = res.wait, res.reason()
	if v.Transient {
		v.After = retryAfterCooldown
	} else if budget := r.match(res.call, res.about); budget != nil {
		v.Budget = budget.Name
	}
}

// retryAfterCooldown is the Verdict.After of a retry that has nothing to wait
// for but the cooldown's end.
const retryAfterCooldown = time.Microsecond

func (r *reader) read(call quota.Call, resp *http.Response) *response {
	res := &response{call: call, status: resp.StatusCode, header: resp.Header, now: r.Now()}
	if req := resp.Request; req != nil && req.URL != nil {
		res.path = req.URL.Path
	}
	if date, ok := dateOf(res.header); ok {
		res.now = date
		if age := single(res.header, "Age"); age != "" { // how long a cache has held it
			res.now = date.Add(max(0, delta.parse(age, date)))
		}
	}
	switch {
	case res.status >= http.StatusBadRequest:
		res.json = parseJSON(gunzip(resp, peek(resp, maxErrorBody), maxErrorBody))
	case res.status == http.StatusOK && r.readsBody(resp):
		res.json = parseJSON(gunzip(resp, peek(resp, maxBody), maxBody))
	}
	res.wait, res.hasWait = retryAfter(res.header, res.now)
	for _, h := range r.headers {
		res.limits = append(res.limits, h.read(res)...)
	}
	if r.inspect != nil {
		r.inspect(res)
	}
	if res.class == Fine {
		r.classify(res)
	}
	res.readCost(r.cost)
	return res
}

// stop sets the cooldown of a response that says to stop.
func (r *reader) stop(v *quota.Verdict, res *response) {
	budget := r.match(res.call, res.about)
	if budget != nil {
		v.Budget = budget.Name
	}
	v.Reason = res.reason()
	if res.class == SlowDown {
		v.Transient, v.After = true, retryAfterCooldown
	}
	if res.daily && r.knowsDay() {
		v.For = r.untilDayEnds(res)
		return
	}
	if res.hasWait {
		v.For = max(res.wait, minWait)
		return
	}
	wait, known := res.untilReset()
	switch {
	case known:
	case res.daily: // the end of that day is not known
		wait = time.Hour
	default:
		wait = cmp.Or(r.pause, defaultWait)
	}
	v.For = max(min(wait, r.maxCooldown(res.call.Account, budget)), minWait)
}

func (r *reader) untilDayEnds(res *response) time.Duration {
	return r.Resets.Day(res.now).Opens.Sub(res.now)
}

func (r *reader) knowsDay() bool { return r.Resets.Kind() == quota.KindDaily }

// applyLimits acts on the limits in a response that does not say to stop. Of
// those with nothing left, the one that lasts longest sets a cooldown; of the
// others, the one with the least left is compared with its budget.
func (r *reader) applyLimits(v *quota.Verdict, res *response) {
	if len(res.limits) == 0 {
		return
	}
	plausible, highest := map[*quota.Budget]bool{}, map[*quota.Budget]quota.Units{}
	for _, l := range res.limits {
		budget := r.match(res.call, l)
		if budget != nil && l.max >= 0 && !l.leaky {
			plausible[budget] = plausible[budget] || !differs(budget, l)
			highest[budget] = max(highest[budget], l.max)
		}
		malformed := l.left < 0 || l.max >= 0 && l.left > l.max
		switch {
		case malformed:
		case l.left == 0:
			r.stopAtLimit(v, res, l, budget)
		case budget == nil || !sameQuota(budget, l):
		case v.LeftOf == "" || l.left < v.Left:
			v.LeftOf, v.Left = budget.Name, l.left
		}
	}
	for i := range r.budgets {
		b := &r.budgets[i].Budget
		if limit, ok := highest[b]; ok && !plausible[b] && v.LimitOf == "" {
			v.LimitOf, v.Limit = b.Name, limit
		}
	}
}

// stopAtLimit sets the cooldown of a limit with nothing left, unless v already
// has one that is at least as long.
func (r *reader) stopAtLimit(v *quota.Verdict, res *response, l limit, budget *quota.Budget) {
	var wait time.Duration
	switch {
	case l.daily && r.knowsDay():
		wait = r.untilDayEnds(res)
	case l.reset == unknownReset:
		wait = cmp.Or(r.pause, defaultWait)
	default:
		wait = min(l.reset, r.maxCooldown(res.call.Account, budget))
	}
	if wait <= v.For {
		return
	}
	v.For, v.Budget = wait, ""
	v.Reason = fmt.Sprintf("%d, nothing left", res.status)
	if l.bucket != "" {
		v.Reason += " of " + l.bucket
	}
	if budget != nil {
		v.Budget = budget.Name
	}
}

// reason returns the status, the upstream's word and the name of the limit:
// 429 rateLimitExceeded search_list.
func (res *response) reason() string {
	text := fmt.Sprintf("%d %s", res.status, cmp.Or(res.word, http.StatusText(res.status)))
	if bucket := res.about.bucket; bucket != "" && bucket != defaultBucket {
		text += " " + bucket
	}
	return clean(text)
}

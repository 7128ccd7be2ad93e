package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/human"
)

// Verdict is what an upstream's answer says about its quota. The zero Verdict
// says nothing.
type Verdict struct {
	// Settled says that the call really cost Units, even if that is above a
	// limit, and Measures in named measures; the grant is settled to it.
	// Undocumented says that the upstream does not document this cost; the
	// grant is then settled to no less than the price and no more than
	// ten times the price.
	Settled      bool
	Undocumented bool
	Units        Units
	Measures     map[Measure]Units

	// Free says that the call counts in no budget: its grant is refunded, but for
	// what Measures say.
	Free bool

	// Later, if it is not nil, says what the call cost once the caller has read
	// the body of the answer to its end.
	Later *LateVerdict

	// For is how long the upstream wants callers to pause; above 0, it sets a
	// cooldown. A cooldown that follows one that was waited out lasts twice as
	// long as the one before, up to 10 minutes; one that is longer by itself is
	// not changed.
	For    time.Duration
	Budget string // the budget to cool down; empty for the whole account
	OfKey  bool   // to cool down the call's Key alone, if it has one
	Reason string // the upstream's reason; the caller is appended

	// UpTo, if it is above 0, says that For is a guess: the answer does not say
	// how long to pause. The cooldown then doubles with each further refusal,
	// up to UpTo, whichever process is refused.
	UpTo time.Duration
	// Unexplained says that the answer is a refusal that says nothing else.
	Unexplained bool

	// LeftOf names a budget of which the upstream has only Left left. If the
	// ledger holds less usage than that implies, the difference is recorded as
	// a note, in the background: it is external usage, by programs that do not
	// share the ledger. LeftOf is ignored for budgets of some lanes or regions.
	LeftOf string
	Left   Units
	// AlsoLeft is what is left of further budgets.
	AlsoLeft [3]BudgetLeft

	// LimitOf names a budget for which the upstream has a Limit that is too
	// different from the budget's to compare what is left. It is reported as a
	// *LimitError, once.
	LimitOf string
	Limit   Units

	// Never says that waiting does not help, because the upstream's limit is 0.
	// The answer sets no cooldown and is not retried.
	Never bool

	Transient bool          // the same request may succeed if it is retried
	After     time.Duration // how long to wait before a retry; 0 leaves it to the Transport
}

// KeyOf returns the key that the verdict stops alone, or "".
func (v *Verdict) KeyOf(call *Call) string {
	if v.OfKey {
		return call.Key
	}
	return ""
}

// BudgetLeft is what an upstream has left of a budget.
type BudgetLeft struct {
	Budget string
	Left   Units
}

// AddLeft adds what is left of a budget to LeftOf and AlsoLeft. Of several
// amounts of one budget, the lowest counts; budgets beyond the fourth are
// ignored.
func (v *Verdict) AddLeft(budget string, left Units) {
	if v.LeftOf == "" || v.LeftOf == budget {
		if v.LeftOf == "" || left < v.Left {
			v.LeftOf, v.Left = budget, left
		}
		return
	}
	for i := range v.AlsoLeft {
		also := &v.AlsoLeft[i]
		if also.Budget == "" || also.Budget == budget && left < also.Left {
			*also = BudgetLeft{budget, left}
		}
		if also.Budget == budget {
			return
		}
	}
}

// LateVerdict is a verdict that is known at the end of an answer's body. The
// zero LateVerdict is ready for use.
type LateVerdict struct {
	mu    sync.Mutex
	said  *Verdict
	apply func(Verdict)
}

// Tell says what the verdict is. It is called once, when the body is read to
// its end or closed, and returns when the verdict is applied.
func (l *LateVerdict) Tell(v Verdict) {
	l.mu.Lock()
	apply := l.apply
	l.said = &v
	l.mu.Unlock()
	if apply != nil {
		apply(v)
	}
}

// then calls apply with the verdict, at once if it is known.
func (l *LateVerdict) then(apply func(Verdict)) {
	l.mu.Lock()
	said := l.said
	l.apply = apply
	l.mu.Unlock()
	if said != nil {
		apply(*said)
	}
}

// maxRaise is how many times the price of a call may be charged for a cost that
// the upstream does not document.
const maxRaise = 10

// LimitError says that the upstream's limit differs so much from a budget's
// that one of them is probably wrong. It is passed to Transport.Report.
type LimitError struct {
	Account  string
	Budget   string
	Limit    Units // the budget's limit
	Upstream Units // the upstream's limit
}

// Error names both limits and says what to do.
func (e *LimitError) Error() string {
	if e.Upstream < e.Limit {
		return fmt.Sprintf("budget %q allows %d, but the upstream says that a limit is %d; if it is the same limit, "+
			"check that the calls carry the right credentials, or lower the budget's to %d",
			e.Budget, e.Limit, e.Upstream, e.Upstream)
	}
	return fmt.Sprintf("budget %q allows %d, less than half of the upstream's limit of %d, so what other programs "+
		"spend of that goes unnoticed; raise the budget's limit to %d or more, or end the budget's name with the "+
		"upstream's name for that limit",
		e.Budget, e.Limit, e.Upstream, (e.Upstream+1)/2)
}

// CostError says that the cost in an upstream's answer is out of bounds
// (see Verdict.Settled), so that another amount was charged. It is passed
// to Transport.Report.
type CostError struct {
	Account string
	Method  string
	Price   Units // the price of the call
	Cost    Units // the cost in the answer
	Charged Units // what was charged
}

// Error names the cost and the price and says what to do.
func (e *CostError) Error() string {
	return fmt.Sprintf("the upstream says that a call of %s costs %d instead of %d; %d were charged; correct the "+
		"price if the upstream is right",
		e.Method, e.Cost, e.Price, e.Charged)
}

// Answered applies what resp, the upstream's answer, says about the quota, for
// a call that Guard.Spend has granted and that was sent by other means. It does
// what RoundTrip does for its own requests: it settles the grant, sets
// cooldowns, ends the trial of a cooldown (see SpendTogether) and, in the
// background, records external usage. It returns the verdict with the cooldown
// that was set, and the ledger's errors, which go to Report too. If grant is
// nil, no charge is changed. The body of resp is read, not closed.
func (t *Transport) Answered(ctx context.Context, call Call, grant *Grant, resp *http.Response) (Verdict, error) {
	if t.Feedback == nil {
		return Verdict{}, nil
	}
	trial := grant.takeTrial()
	defer t.breakers.finish(ctx, t.Guard, trial)
	verdict := t.Feedback(call, resp)
	err := t.apply(ctx, call, grant, &verdict, trial, time.Now())
	if verdict.Later != nil {
		verdict.Later.then(func(v Verdict) {
			verdict.Settled, verdict.Units = v.Settled, v.Units
			verdict.Measures = v.Measures
			err = errors.Join(err, t.apply(ctx, call, grant, &v, nil, time.Now()))
		})
		_, _ = io.Copy(io.Discard, resp.Body) // which tells the verdict
	}
	return verdict, err
}

// apply applies the verdict on the answer to a request that was sent at a given
// time; trial is nil if it was not a trial. If a cooldown could not be set,
// apply clears Transient, because a retry would not wait for it. apply reports
// the ledger's errors and returns them.
func (t *Transport) apply(ctx context.Context, call Call, grant *Grant, v *Verdict, trial *trial,
	sent time.Time) (err error) {
	if v.Settled {
		err = t.settle(ctx, call, grant, v)
	}
	if v.LimitOf != "" {
		t.reportLimit(call, v)
	}
	if v.Free {
		err = t.refundFree(ctx, call, grant, v.Measures)
	}
	if v.LeftOf != "" {
		t.reportLeft(ctx, call, v)
	}
	if v.Never {
		return err
	}
	cooldown := Cooldown{Account: call.Account, Budget: v.Budget, Key: v.KeyOf(&call),
		Reason: withCaller(v.Reason, call.Caller)}
	if v.UpTo > 0 {
		v.For, cooldown.repeats = t.Guard.backOff(ctx, call, grant, v)
	}
	v.For = t.breakers.observe(t.Guard, call, v, trial, sent)
	if v.For > 0 {
		cooldown.For = v.For
		cooled := t.Guard.Cool(ctx, cooldown)
		v.Transient = t.succeeded(call, cooled) && v.Transient
		err = errors.Join(err, cooled)
	}
	return err
}

// settle settles a grant to the cost in the answer, within bounds.
func (t *Transport) settle(ctx context.Context, call Call, grant *Grant, v *Verdict) error {
	least, most := Units(0), MaxUnits
	if v.Undocumented {
		least, most = call.Units, min(most, maxRaise*call.Units)
	}
	units := min(max(v.Units, least), most)
	if units != v.Units && t.Guard.firstReport(call.Account, "cost of "+call.Method) {
		t.succeeded(call, &CostError{Account: call.Account, Method: call.Method, Price: call.Units, Cost: v.Units,
			Charged: units})
	}
	isSame := units == call.Units && len(v.Measures) == 0
	if isSame && (grant == nil || !grant.redeemed) {
		return nil
	}
	err := grant.SettleTo(ctx, Amounts{Units: units, Calls: 1, Named: v.Measures})
	if t.succeeded(call, err) && units != call.Units {
		t.charged(call, 0, units-call.Units)
	}
	return err
}

// refundFree takes back the charge for a call that the upstream does not count,
// but for some measures.
func (t *Transport) refundFree(ctx context.Context, call Call, grant *Grant, but map[Measure]Units) error {
	if grant == nil {
		return nil
	}
	refund := grant.Refund
	if len(but) > 0 {
		rest := Amounts{Named: map[Measure]Units{}}
		for m := range call.Measures {
			rest.Named[m] = 0
		}
		maps.Copy(rest.Named, but)
		refund = func(ctx context.Context) error { return grant.SettleTo(ctx, rest) }
	}
	err := refund(ctx)
	if t.succeeded(call, err) {
		t.charged(call, -1, -call.Units)
	}
	return err
}

// reportLeft records external usage of the budgets of which the upstream says
// what is left, that of the shortest window first.
func (t *Transport) reportLeft(ctx context.Context, call Call, v *Verdict) {
	all := []BudgetLeft{{v.LeftOf, v.Left}}
	for _, also := range v.AlsoLeft {
		if also.Budget != "" {
			all = append(all, also)
		}
	}
	window := func(b BudgetLeft) time.Duration {
		if charge := t.Guard.chargeOf(call.Account, b.Budget); charge != nil {
			return charge.Horizon()
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b BudgetLeft) int { return cmp.Compare(window(a), window(b)) })
	one := *v
	for _, left := range all {
		one.LeftOf, one.Left = left.Budget, left.Left
		t.Guard.external.report(ctx, t, call, one)
	}
}

// reportLimit reports that an upstream's limit differs from a budget's.
func (t *Transport) reportLimit(call Call, v *Verdict) {
	charge := t.Guard.chargeOf(call.Account, v.LimitOf)
	if charge != nil && charge.LimitOf(call.Key) != v.Limit &&
		t.Guard.firstReport(call.Account, "limit of "+v.LimitOf) {
		t.succeeded(call, &LimitError{Account: call.Account, Budget: v.LimitOf, Limit: charge.LimitOf(call.Key),
			Upstream: v.Limit})
	}
}

// firstReport reports whether what has not been reported for an account before.
func (g *Guard) firstReport(account, what string) bool {
	_, known := g.reported.LoadOrStore([2]string{account, what}, true)
	return !known
}

// withCaller appends the caller to the reason of a cooldown, as in
// 403 quotaExceeded (cron/trending IN).
func withCaller(reason string, c Caller) string {
	if c == (Caller{}) {
		return reason
	}
	source := c.Lane
	if c.Lane != "" && c.Job != "" {
		source += "/"
	}
	source += c.Job
	if source != "" && c.Region != "" {
		source += " "
	}
	source += c.Region
	source = " (" + human.Cut(source, MaxReason/2) + ")"
	return human.Cut(reason, MaxReason-len(source)) + source
}

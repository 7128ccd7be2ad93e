package quota

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"
)

// Transport is an http.RoundTripper that charges every request before it is
// sent. If a budget cannot pay for a request, RoundTrip does not send it and
// returns a *RefusedError, which errors.AsType finds in the error of
// http.Client. A Transport is safe for concurrent use. It must not be copied,
// and its fields must not be changed, after the first use.
//
// Each redirect that http.Client follows is a request of its own and is charged
// like the first. A redirect from a guarded host to a host that is not guarded,
// or from https to http, is refused with ErrRedirect. A redirect to another
// guarded host is followed without headers that could carry credentials.
// Loopback counts as https.
type Transport struct {
	Guard *Guard // required; without it every request is refused

	// Price returns the call that a request makes. If its error wraps
	// ErrUnguarded or ErrPaid, the request is sent without a charge; any other
	// error refuses the request. nil refuses every request. A call whose
	// account has no budget that covers it is sent, and recorded in that
	// account's log. Price must be safe for concurrent use and must not modify
	// the request.
	Price func(*http.Request) (Call, error)

	// Base sends the requests. nil means http.DefaultTransport. See RoundTrip
	// for how its type affects refunds. It must pass on a request's context, or
	// one derived from it: if Base ends another context from a goroutine of its
	// own, a refused resend may still be sent; it is then charged beyond the
	// limit.
	Base http.RoundTripper

	// MaxWait is the longest time that one request waits for its units. A
	// request that would have to wait longer is refused at once. 0 never waits.
	// After a cooldown, one request of all processes that share the ledger
	// tries the upstream first; MaxWait includes the wait for its answer, which
	// takes at most 10 seconds.
	MaxWait time.Duration
	// MaxTotalWait limits the time that all requests together wait. The time
	// that the ledger takes does not count. It is approximate: each of several
	// concurrent requests may use what is left. 0 means no limit.
	MaxTotalWait time.Duration

	// Retries is the most times that a request is sent again after an answer
	// that Feedback calls transient. 0 never retries. Each attempt is charged
	// and waits like the first. If it cannot be charged within MaxWait,
	// RoundTrip returns the last answer. Only GET, HEAD, OPTIONS and TRACE
	// requests without a body are retried. So that a failing upstream cannot
	// drain the quota, a Transport makes at most ten retries plus one for every
	// ten requests.
	Retries int

	// Feedback returns what an answer says about the quota. It may read the
	// body if it replaces it by an equal one. nil ignores answers.
	Feedback func(Call, *http.Response) Verdict
	// Report is called with errors that RoundTrip cannot return: a settle, a
	// refund, a cooldown or a note that failed, and a *LimitError or
	// *CostError, once for each budget or method. It may be called from another
	// goroutine. nil drops them.
	Report func(Call, error)
	// Charged is called whenever the amount charged for a call changes: with 1
	// and its price when it is granted, with 0 and the difference when it is
	// settled, and with -1 and the negative price when it is refunded.
	// Call.Caller includes the caller from the request's context. nil disables
	// the callback.
	Charged func(call Call, calls int, units Units)

	breakers breakers
	waited   atomic.Int64 // time.Duration
	sent     atomic.Int64 // requests, without retries
	retried  atomic.Int64
	closing  atomic.Bool
}

var (
	errNoGuard    = errors.New("quota: transport without a Guard or a Price; set both")
	errNoResponse = errors.New("quota: the transport's Base returned neither an answer nor an error; its RoundTrip " +
		"must return one of them")
)

// RoundTrip charges req and sends it.
//
// After an error, the units are refunded only if the request was provably not
// sent: its context ended before it was sent, or Base is an *http.Transport
// that asked for a connection and got none. After any other error the units
// stay charged. A Base that wraps an *http.Transport can have a method Unwrap()
// http.RoundTripper. With it, Base promises that it sends every request once,
// through what Unwrap returns; the units are then refunded if the error is the
// one with which connecting failed.
//
// If net/http resends a request by itself because a reused connection died, the
// second attempt is charged before it is sent. If that is refused, RoundTrip
// returns the refusal.
//
// A request is charged to an account at most once. RoundTrip returns
// ErrGuardedTwice if Base leads back to this Transport, or to another one that
// charges the same request to the same account. Transports of different
// accounts may be chained.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Guard == nil || t.Price == nil {
		return refuse(req, errNoGuard)
	}
	call, err := t.Price(req)
	passes := errors.Is(err, ErrUnguarded) || errors.Is(err, ErrPaid)
	if err != nil && !passes {
		return refuse(req, err)
	}
	link := nesting{transport: t, outer: nestingFrom(req.Context())}
	if !passes {
		link.account = call.Account
	}
	if err := link.check(req, t.base()); err != nil {
		return refuse(req, err)
	}
	safe, err := t.checkRedirect(req, errors.Is(err, ErrUnguarded))
	if err != nil {
		return refuse(req, err)
	}
	inner := safe.WithContext(link.into(req.Context()))
	var resp *http.Response
	if passes {
		resp, err = t.base().RoundTrip(inner)
	} else {
		call.Caller, call.ID = call.Caller.or(CallerFrom(req.Context())), ID{}
		call.Key = cmp.Or(requestOptionsOf(req.Context()).Key, call.Key)
		resp, err = t.sendCharged(inner, call)
	}
	if resp != nil {
		resp.Request = req // a request derived from inner would look as if it was guarded twice
	}
	return resp, err
}

// refuse closes the body of a request that is not sent, and returns err.
func refuse(req *http.Request, err error) (*http.Response, error) {
	if req.Body != nil {
		req.Body.Close()
	}
	return nil, err
}

// sendCharged charges and sends a request, and retries it while its answer
// is transient.
func (t *Transport) sendCharged(req *http.Request, call Call) (*http.Response, error) {
	grant, trial, err := t.pay(req.Context(), call)
	if err != nil {
		return refuse(req, err)
	}
	t.sent.Add(1)
	resp, verdict, err := t.send(req, call, grant, trial)
	for attempt := 1; err == nil && t.mayRetry(req, attempt, &verdict); attempt++ {
		if !t.pause(req.Context(), attempt, verdict) {
			break
		}
		grant, trial, refused := t.pay(req.Context(), call)
		if refused != nil {
			break
		}
		t.retried.Add(1)
		discard(resp)
		resp, verdict, err = t.send(req, call, grant, trial)
	}
	return resp, err
}

// pay charges a request, waiting as long as it may. The caller must pass the
// trial, which may be nil, to send.
func (t *Transport) pay(ctx context.Context, call Call) (*Grant, *trial, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	g := t.Guard
	grant, trial, err := g.await(t.countingWaits(ctx), g.request(ctx, call, 1), t.maxWaitOf(ctx), t.holding(), false)
	if err == nil && ctx.Err() != nil {
		if !t.succeeded(call, grant.Refund(ctx)) {
			t.charged(call, 1, call.Units)
		}
		err = context.Cause(ctx)
	}
	if err != nil {
		t.breakers.finish(ctx, t.Guard, trial)
		return nil, nil, err
	}
	return grant, trial, nil
}

// holding returns the breakers that hold calls. Without Feedback there are
// none, since no answer could end a trial.
func (t *Transport) holding() *breakers {
	if t.Feedback == nil {
		return nil
	}
	return &t.breakers
}

// send sends a request that is paid for and applies the verdict on its answer.
func (t *Transport) send(req *http.Request, call Call, grant *Grant, trial *trial) (*http.Response, Verdict, error) {
	defer t.breakers.finish(req.Context(), t.Guard, trial)
	t.charged(call, 1, call.Units)
	began := time.Now()
	ctx, cancel := context.WithCancelCause(req.Context())
	trace := &sendTrace{grants: []*Grant{grant}, cancel: cancel, charge: func() (*Grant, error) {
		again, err := t.Guard.Spend(ctx, call)
		if err == nil {
			t.charged(call, 1, call.Units)
		}
		return again, err
	}}
	resp, err := t.base().RoundTrip(req.WithContext(trace.start(ctx)))
	if err == nil && resp == nil {
		err = errNoResponse
	}
	if err != nil {
		if unsent := trace.unsent(err, t.base()); unsent != nil && t.succeeded(call, unsent.Refund(ctx)) {
			t.charged(call, -1, -call.Units)
		}
	}
	for range trace.uncharged() {
		if _, err := t.Guard.record(ctx, call); t.succeeded(call, err) {
			t.charged(call, 1, call.Units)
		}
	}
	for _, earlier := range trace.before(err == nil) {
		t.succeeded(call, earlier.End(ctx))
	}
	if err != nil {
		cancel(err)
		if resp != nil && resp.Body != nil {
			resp.Body.Close()
		}
		return nil, Verdict{}, cmp.Or(trace.refusal(), err)
	}
	if granted := requestOptionsOf(req.Context()).Granted; granted != nil {
		granted(trace.last())
	}
	resp.Request = req
	resp.Body = cancelingBody(resp, req.Context(), cancel, t.base())
	if t.Feedback == nil {
		t.endAtEnd(resp, call, trace.last())
		return resp, Verdict{}, nil
	}
	verdict := t.Feedback(call, resp)
	defer t.endAtEnd(resp, call, trace.last())                             // after what the verdict settles
	_ = t.apply(req.Context(), call, trace.last(), &verdict, trial, began) // reported
	if verdict.Later != nil {
		settled := context.WithoutCancel(req.Context())
		verdict.Later.then(func(v Verdict) { _ = t.apply(settled, call, trace.last(), &v, nil, began) })
	}
	return resp, verdict, nil
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// maxWaitOf returns how long a request may wait at present.
func (t *Transport) maxWaitOf(ctx context.Context) time.Duration {
	maxWait := t.MaxWait
	if own := requestOptionsOf(ctx).MaxWait; own != nil {
		maxWait = *own
	}
	if t.MaxTotalWait > 0 {
		return min(maxWait, t.MaxTotalWait-time.Duration(t.waited.Load()))
	}
	return maxWait
}

// countingWaits returns ctx with waits that are added to the total.
func (t *Transport) countingWaits(ctx context.Context) context.Context {
	if t.MaxTotalWait <= 0 {
		return ctx
	}
	return context.WithValue(ctx, totalWaitKey{}, &t.waited)
}

// mayRetry reports whether a request may be sent again after an answer.
func (t *Transport) mayRetry(req *http.Request, attempt int, v *Verdict) bool {
	hasBody := req.Body != nil && req.Body != http.NoBody
	isTransient := v.Transient && !v.Never
	if attempt > t.Retries || hasBody || !isTransient {
		return false
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return t.retried.Load() < 10+t.sent.Load()/10
	}
	return false
}

// pause waits before a retry: for v.After, or else about 100 ms, doubled with
// each attempt, with jitter. It returns false at once if the pause would exceed
// MaxWait, what is left of MaxTotalWait, or the context's deadline.
func (t *Transport) pause(ctx context.Context, attempt int, v Verdict) bool {
	d := v.After
	if d <= 0 {
		d = 100 * time.Millisecond << min(attempt-1, 10)
		d = d/2 + rand.N(d)
	}
	if d > t.maxWaitOf(ctx) {
		return false
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	t.waited.Add(int64(d))
	return sleep(ctx, d, nil) == nil
}

const (
	discardWait = 100 * time.Millisecond // how long discard waits for the rest of a body
	discardEnd  = time.Second            // how long reading it may take in the background
)

// discard reads and closes the body of an answer that is not returned, so that
// its connection can be reused for the retry.
func discard(resp *http.Response) {
	if resp.Body == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		end := time.AfterFunc(discardEnd, func() { resp.Body.Close() })
		io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		if end.Stop() {
			resp.Body.Close()
		}
	}()
	sleep(context.Background(), discardWait, done)
}

// succeeded reports whether err is nil, and calls Report if it is not.
func (t *Transport) succeeded(call Call, err error) bool {
	if err != nil && t.Report != nil {
		t.Report(call, err)
	}
	return err == nil
}

func (t *Transport) charged(call Call, calls int, units Units) {
	if t.Charged != nil {
		t.Charged(call, calls, units)
	}
}

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
// sent. A request that the budgets cannot pay never reaches Base: RoundTrip
// returns a *RefusedError, which errors.AsType finds through http.Client. It is
// safe for concurrent use; do not copy it, and do not change its fields once it
// is used.
//
// Each hop of a redirect is a request of its own, charged like the first. A
// redirect from a guarded host to one that is not, or from https to http, is
// refused with ErrRedirect. To another guarded host go only headers that carry
// no credentials. Loopback addresses count as https.
type Transport struct {
	Guard *Guard                            // nil refuses every request
	Price func(*http.Request) (Call, error) // nil refuses every request; ErrUnguarded and ErrPaid pass it through
	Base  http.RoundTripper                 // nil is http.DefaultTransport; see RoundTrip for refunds

	// MaxWait is the longest wait of one request for its units. 0 never
	// waits. A longer wait is a refusal, at once. When a cooldown has ended, one
	// request of all processes on the ledger asks the upstream again; the wait
	// for its answer, at most 10 seconds, counts as well.
	MaxWait time.Duration
	// MaxTotalWait is an approximate upper bound of the waits of all requests
	// together: requests in flight at the same time may each take what is left
	// of it. 0 sets no bound.
	MaxTotalWait time.Duration

	// Retries is how often a request is sent again when its answer is transient,
	// as Feedback says. Each attempt is charged and waits like the first. When
	// the budgets or MaxWait do not allow it, the last answer is returned. Only
	// requests without a body and with a repeatable verb (GET, HEAD, OPTIONS,
	// TRACE) are retried. A Transport makes at most ten retries, and one more for
	// every ten requests, so that a failing upstream cannot drain the quota. 0
	// never retries.
	Retries int

	// Feedback reads from an answer what it says about the quota. It may read the
	// body if it puts an equal one back. nil reads nothing.
	Feedback func(Call, *http.Response) Verdict
	// Report is called with what RoundTrip cannot return: a settle, a refund, a
	// cooldown or a note that did not reach the ledger, and, once a process and
	// budget or method, a *LimitError or *CostError about an answer. It may be
	// called from another goroutine. nil drops it.
	Report func(Call, error)
	// Charged is called whenever the amount charged for a call changes, with the
	// caller from its context: 1 call and its price when it is granted, the
	// difference when it is settled, -1 and its price when it is refunded. nil
	// disables the callback.
	Charged func(call Call, calls int, units Units)

	stops   stopList
	waited  atomic.Int64 // time.Duration
	sent    atomic.Int64 // requests, without retries
	retried atomic.Int64
	closing atomic.Bool
}

var (
	errNoGuard    = errors.New("quota: transport without a Guard or a Price refuses every request; set both")
	errNoResponse = errors.New("quota: the transport's Base returned neither an answer nor an error; its RoundTrip must return one of them")
)

// RoundTrip charges req and sends it. It closes the request's body whenever it
// returns an error, and returns no response with one.
//
// The units come back only on proof that nothing was sent: the caller's context
// had ended before, or net/http's own transport asked for a connection and got
// none. A Base that is not an *http.Transport proves this with a method
// Unwrap() http.RoundTripper, by which it promises that every request goes to
// what Unwrap returns, once, and nowhere else; the error must then be the one
// with which connecting failed. After any other error the units stay charged.
//
// When net/http sends a request again by itself, because a reused connection
// died, the further attempt is charged before it is sent. If it is refused,
// RoundTrip returns the refusal.
//
// One request is charged to one account once. A Transport whose Base leads to
// another Transport that prices the same request for the same account, or back
// to itself, returns ErrGuardedTwice; Transports of different accounts may be
// chained.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Guard == nil || t.Price == nil {
		return refuse(req, errNoGuard)
	}
	call, err := t.Price(req)
	passes := errors.Is(err, ErrUnguarded) || errors.Is(err, ErrPaid)
	if err != nil && !passes {
		return refuse(req, err)
	}
	link := chain{transport: t, outer: chainFrom(req.Context())}
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
	if passes {
		return restored(req)(t.base().RoundTrip(safe.WithContext(link.into(req.Context()))))
	}
	call.Caller = call.Caller.or(CallerFrom(req.Context()))
	return restored(req)(t.guarded(safe.WithContext(link.into(req.Context())), call))
}

// refuse returns err for a request that is not sent.
func refuse(req *http.Request, err error) (*http.Response, error) {
	if req.Body != nil {
		req.Body.Close()
	}
	return nil, err
}

// restored returns a function that names the caller's own request as the one
// that an answer is to, so that a request derived from it does not look like
// the same one guarded twice.
func restored(req *http.Request) func(*http.Response, error) (*http.Response, error) {
	return func(resp *http.Response, err error) (*http.Response, error) {
		if resp != nil {
			resp.Request = req
		}
		return resp, err
	}
}

// guarded sends a request with its price, and again when its answer is
// transient.
func (t *Transport) guarded(req *http.Request, call Call) (*http.Response, error) {
	grant, probe, err := t.pay(req.Context(), call)
	if err != nil {
		return refuse(req, err)
	}
	t.sent.Add(1)
	resp, verdict, err := t.send(req, call, grant, probe)
	for attempt := 1; err == nil && verdict.Transient && !verdict.Never && t.mayRetry(req, attempt); attempt++ {
		if !t.pause(req.Context(), attempt, verdict) {
			break
		}
		grant, probe, refused := t.pay(req.Context(), call)
		if refused != nil {
			break
		}
		t.retried.Add(1)
		discard(resp)
		resp, verdict, err = t.send(req, call, grant, probe)
	}
	return resp, err
}

// pay charges a request, after it has waited for its turn and for its units.
// The caller passes the probe, which may be nil, to send.
func (t *Transport) pay(ctx context.Context, call Call) (*Grant, *probe, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	began, limit := time.Now(), t.longest()
	grant, probe, err := t.charge(ctx, call, limit)
	if limit > 0 {
		t.waited.Add(int64(time.Since(began)))
	}
	if err == nil && ctx.Err() != nil {
		if !t.done(call, grant.Refund(ctx)) {
			t.charged(call, 1, call.Units)
		}
		err = context.Cause(ctx)
	}
	if err != nil {
		t.stops.leave(ctx, t.Guard, probe)
		return nil, nil, err
	}
	return grant, probe, nil
}

// charge charges a call within limit. Without Feedback no answer could end a
// probe.
func (t *Transport) charge(ctx context.Context, call Call, limit time.Duration) (*Grant, *probe, error) {
	if t.Feedback == nil {
		grant, err := t.Guard.Wait(ctx, call, limit)
		return grant, nil, err
	}
	return t.stops.wait(ctx, t.Guard, call, limit)
}

// send sends a request that is paid for, and applies what its answer says.
func (t *Transport) send(req *http.Request, call Call, grant *Grant, probe *probe) (*http.Response, Verdict, error) {
	defer t.stops.leave(req.Context(), t.Guard, probe)
	t.charged(call, 1, call.Units)
	began := time.Now()
	ctx, cancel := context.WithCancelCause(req.Context())
	sends := &sends{grants: []*Grant{grant}, cancel: cancel, charge: func() (*Grant, error) {
		again, err := t.Guard.Spend(ctx, call)
		if err == nil {
			t.charged(call, 1, call.Units)
		}
		return again, err
	}}
	resp, err := t.base().RoundTrip(req.WithContext(sends.watch(ctx)))
	if err == nil && resp == nil {
		err = errNoResponse
	}
	if err != nil {
		if unsent := sends.unsent(err, t.base()); unsent != nil && t.done(call, unsent.Refund(ctx)) {
			t.charged(call, -1, -call.Units)
		}
	}
	for range sends.uncharged() {
		if _, err := t.Guard.record(ctx, call); t.done(call, err) {
			t.charged(call, 1, call.Units)
		}
	}
	if err != nil {
		cancel(err)
		if resp != nil && resp.Body != nil {
			resp.Body.Close()
		}
		return nil, Verdict{}, cmp.Or(sends.refusal(), err)
	}
	resp.Request, resp.Body = req, released(resp, req.Context(), cancel)
	if t.Feedback == nil {
		return resp, Verdict{}, nil
	}
	verdict := t.Feedback(call, resp)
	t.apply(req.Context(), call, sends.last(), &verdict, probe, began)
	return resp, verdict, nil
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// longest returns how long a request may wait now.
func (t *Transport) longest() time.Duration {
	if t.MaxTotalWait > 0 {
		return min(t.MaxWait, t.MaxTotalWait-time.Duration(t.waited.Load()))
	}
	return t.MaxWait
}

// mayRetry reports whether a request may be sent once more.
func (t *Transport) mayRetry(req *http.Request, attempt int) bool {
	if attempt > t.Retries || req.Body != nil && req.Body != http.NoBody {
		return false
	}
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return t.retried.Load() < 10+t.sent.Load()/10
	}
	return false
}

// pause waits before a retry: as long as the upstream says, or about 100 ms,
// doubled each time, with jitter. It returns false, at once, if the pause would
// exceed MaxWait, what is left of MaxTotalWait, or the context's deadline.
func (t *Transport) pause(ctx context.Context, attempt int, v Verdict) bool {
	d := v.After
	if d <= 0 {
		d = 100 * time.Millisecond << min(attempt-1, 10)
		d = d/2 + rand.N(d)
	}
	if deadline, ok := ctx.Deadline(); d > t.longest() || ok && time.Until(deadline) < d {
		return false
	}
	t.waited.Add(int64(d))
	return sleep(ctx, d, nil) == nil
}

// How long discard waits for the rest of a body, and how long that may still
// take in the background.
const (
	discardWait = 100 * time.Millisecond
	discardEnd  = time.Second
)

// discard reads the rest of an answer that the caller never gets, so that its
// connection can serve the next request, and closes it.
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

// done reports whether err is nil, and calls Report if it is not.
func (t *Transport) done(call Call, err error) bool {
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

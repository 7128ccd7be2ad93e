package quota

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Transport is an http.RoundTripper that charges every request before it is
// sent. A request that the budgets cannot pay never reaches Base: RoundTrip
// returns a *RefusedError, which errors.AsType finds through http.Client. A
// redirect is a request of its own. It is safe for concurrent use; do not copy
// it, and do not change its fields once it is used.
type Transport struct {
	Guard *Guard                            // nil refuses every request
	Price func(*http.Request) (Call, error) // nil refuses every request; ErrUnguarded and ErrPaid pass it through
	Base  http.RoundTripper                 // nil is http.DefaultTransport; see RoundTrip for one that wraps it

	// MaxWait is the longest wait of one request for its units. 0 never
	// waits. A longer wait is a refusal, at once.
	MaxWait time.Duration
	// MaxTotalWait bounds the waits of all requests together, roughly: those
	// under way at once may each take what is left. 0 does not bound them.
	MaxTotalWait time.Duration

	// Retries is how often a request is sent again whose answer is transient,
	// as Feedback says. Each time is charged like the first, waits its turn
	// like the first, and is not made when the budgets or MaxWait do not allow it;
	// the last answer is then returned. Only requests without a body whose verb
	// may be repeated (GET, HEAD, OPTIONS, TRACE) are. All retries of a
	// Transport are at most ten, and one for every ten requests: an upstream
	// that is out of order does not get to spend the quota. 0 never retries.
	Retries int

	// Feedback reads from an answer what it says about the quota. It may read the
	// body if it puts an equal one back. nil reads nothing.
	Feedback func(Call, *http.Response) Verdict
	// Report is told of what cannot be returned: a settle, a refund, or a cooldown that
	// did not reach the ledger. nil drops it; the units stay charged.
	Report func(Call, error)
	// Charged is told of every change in what a call was charged, with the
	// caller from its context: 1 call and its price when it is granted, the
	// difference when it is settled, -1 and its price when it is refunded.
	// nil is told nothing.
	Charged func(call Call, calls int, units Units)

	left    lefts
	waited  atomic.Int64 // time.Duration
	sent    atomic.Int64 // requests, retries aside
	retried atomic.Int64
}

// Verdict is what an upstream's answer says about its quota. The zero Verdict
// is: nothing.
type Verdict struct {
	Settled bool  // Units is what the call really cost
	Units   Units // read when Settled

	Until  time.Time // not zero: a cooldown until then
	Budget string    // of this budget; empty: of the whole account
	Reason string    // in the upstream's words; who asked is added

	// LeftOf, when not empty, is a budget of which the upstream says that only
	// Left is left. When the ledger believes that more is, somebody else has spent
	// the difference: it is entered as a note. More than the ledger believes is
	// not taken. A budget whose window is an estimate is left alone.
	LeftOf string
	Left   Units

	// Never means that no wait lifts what Reason says: a limit of 0. It is
	// neither cooled nor retried.
	Never bool

	Transient bool          // the same request may succeed a moment later
	After     time.Duration // how long that is; 0 leaves it to the transport
}

var errNoGuard = errors.New("quota: transport without a Guard or a Price refuses every request; set both")

// RoundTrip charges req and sends it. It closes the request's body whenever it
// returns an error, and returns no response with one. The units come back
// when the request provably never left: no connection was made. (A Base that
// wraps net/http's transport has a method Unwrap() http.RoundTripper, so that
// its connections are known to be reported.) After anything later they stay charged. A request that net/http sent a second
// time on a fresh connection is charged a second time.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Guard == nil || t.Price == nil {
		closeBody(req)
		return nil, errNoGuard
	}
	call, err := t.Price(req)
	if errors.Is(err, ErrUnguarded) || errors.Is(err, ErrPaid) {
		return t.base().RoundTrip(req)
	}
	if err != nil {
		closeBody(req)
		return nil, err
	}
	ctx := req.Context()
	call.Caller = call.Caller.or(CallerFrom(ctx))
	grant, err := t.wait(ctx, call)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	t.sent.Add(1)
	resp, verdict, err := t.send(req, call, grant)
	for attempt := 1; err == nil && verdict.Transient && !verdict.Never && t.mayRetry(req, attempt); attempt++ {
		if !t.pause(ctx, attempt, verdict) {
			break
		}
		grant, refused := t.wait(ctx, call)
		if refused != nil {
			break
		}
		t.retried.Add(1)
		discard(resp)
		resp, verdict, err = t.send(req, call, grant)
	}
	return resp, err
}

// send sends a request that is paid for, and sees to what came of it.
func (t *Transport) send(req *http.Request, call Call, grant *Grant) (*http.Response, Verdict, error) {
	ctx := req.Context()
	t.charged(call, 1, call.Units)
	wire := &wire{}
	resp, err := t.base().RoundTrip(req.WithContext(wire.watch(ctx)))
	if err != nil && wire.neverLeft(err, t.base()) {
		if t.done(call, grant.Refund(ctx)) {
			t.charged(call, -1, -call.Units)
		}
	}
	t.chargeResent(ctx, call, wire)
	if err != nil {
		return nil, Verdict{}, err
	}
	if t.Feedback == nil {
		return resp, Verdict{}, nil
	}
	verdict := t.Feedback(call, resp)
	t.heed(ctx, call, grant, &verdict)
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

func (t *Transport) wait(ctx context.Context, call Call) (*Grant, error) {
	limit := t.longest()
	if limit <= 0 {
		return t.Guard.Spend(ctx, call)
	}
	began := time.Now()
	grant, err := t.Guard.Wait(ctx, call, limit)
	t.waited.Add(int64(time.Since(began)))
	return grant, err
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

// pause waits before a retry: as long as the upstream says, else some 100 ms,
// doubled each time and spread, so that many callers do not come back at once.
// It reports whether the retry is to be made; a pause beyond MaxWait or what is
// left of MaxTotalWait, or that would outlast the context's deadline, is not waited.
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

// discard ends an answer that nobody will see, so that its connection can
// serve the next request.
func discard(resp *http.Response) {
	if resp.Body != nil {
		io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
		resp.Body.Close()
	}
}

// heed does what the upstream's answer asks for. Without its cooldown, which
// did not reach the ledger, nothing is transient: a retry would not wait.
func (t *Transport) heed(ctx context.Context, call Call, grant *Grant, v *Verdict) {
	if v.Settled && v.Units != call.Units && t.done(call, grant.Settle(ctx, v.Units)) {
		t.charged(call, 0, v.Units-call.Units)
	}
	if v.LeftOf != "" {
		t.done(call, t.left.lower(ctx, t.Guard, call, *v))
	}
	if !v.Until.IsZero() && !v.Never {
		v.Transient = t.done(call, t.Guard.Cool(ctx, Cooldown{Account: call.Account, Budget: v.Budget, Until: v.Until, Reason: sourced(v.Reason, call.Caller)})) && v.Transient
	}
}

// chargeResent charges what net/http sent again by itself: it resends an
// idempotent request whose reused connection died (measured on Go 1.26.8: one
// RoundTrip, two requests at the upstream, no error).
func (t *Transport) chargeResent(ctx context.Context, call Call, w *wire) {
	for range max(0, w.sent.Load()-1) {
		if _, err := t.Guard.Record(ctx, call); t.done(call, err) {
			t.charged(call, 1, call.Units)
		}
	}
}

// done reports whether err is nil, and Reports it otherwise.
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

// wire watches what of one round trip reaches a connection.
type wire struct {
	trace     httptrace.ClientTrace
	connected atomic.Bool
	sent      atomic.Int32 // how often request headers were written
}

// watch returns a context under which w watches.
func (w *wire) watch(ctx context.Context) context.Context {
	w.trace.GotConn = func(httptrace.GotConnInfo) { w.connected.Store(true) }
	w.trace.WroteHeaders = func() { w.sent.Add(1) }
	return httptrace.WithClientTrace(ctx, &w.trace)
}

// neverLeft reports whether a failed round trip provably sent nothing. A
// transport other than net/http's may not report its connections, so there
// the error itself must be one of dialling or of the TLS handshake. One that
// only wraps net/http's has a method Unwrap() http.RoundTripper to say so.
func (w *wire) neverLeft(err error, base http.RoundTripper) bool {
	if w.connected.Load() || w.sent.Load() > 0 {
		return false
	}
	if reports(base) {
		return true
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	_, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok
}

// reports reports whether a transport is net/http's, or wraps it.
func reports(base http.RoundTripper) bool {
	for {
		switch t := base.(type) {
		case *http.Transport:
			return true
		case interface{ Unwrap() http.RoundTripper }:
			base = t.Unwrap()
		default:
			return false
		}
	}
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		req.Body.Close()
	}
}

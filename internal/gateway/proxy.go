package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// newBase returns the transport of proxied requests. It leaves encodings as the
// client and the upstream agreed on them.
func newBase() http.RoundTripper {
	base := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		base = standard.Clone()
	}
	base.DisableCompression = true
	base.MaxIdleConns = 0
	base.MaxIdleConnsPerHost = 100
	base.IdleConnTimeout = 90 * time.Second
	base.MaxResponseHeaderBytes = 1 << 20
	base.ResponseHeaderTimeout = headerTime
	return base
}

// headerTime is how long an upstream may take to begin its answer.
const headerTime = 5 * time.Minute

// flushTime is how long bytes of an answer with a Content-Length may be held.
const flushTime = 10 * time.Millisecond

// errUpgraded means that an upstream switched protocols unasked.
var errUpgraded = errors.New("the upstream switched to another protocol, which was not asked for")

// discardLog is for what httputil says of broken streams, which both ends see.
var discardLog = log.New(io.Discard, "", 0)

// copyBuffers holds the buffers of httputil.ReverseProxy.
var copyBuffers bufferPool

type bufferPool struct{ pool sync.Pool }

func (p *bufferPool) Get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

func (p *bufferPool) Put(b []byte) { p.pool.Put(&b) }

// proxy answers ANY /to/{host}/{path}: it sends the request to that host, as
// package client would.
func (g *Gateway) proxy(w http.ResponseWriter, r *http.Request) {
	c := g.acquire(w)
	if c == nil {
		return
	}
	release := sync.OnceFunc(c.users.Done)
	defer release()
	table := c.Table()
	ctx, wait, err := g.proxyContext(r, table)
	t, problem := g.newTarget(r, table)
	switch {
	case isWebSocket(r):
		problem = newProblem(http.StatusNotImplemented, "no-upgrade",
			"the gateway does not carry WebSockets: their messages have no price")
	case r.Method == http.MethodTrace:
		problem = newProblem(http.StatusNotImplemented, "no-trace",
			"the gateway does not send TRACE, whose answer would show the upstream's credential")
	case problem == nil && err != nil:
		problem = problemOf(err)
	}
	if problem != nil {
		problem.write(w)
		return
	}
	ctx = quota.WithRequestOptions(ctx, func(terms *quota.RequestOptions) { terms.Granted = t.setGrant })
	s, r := g.newStream(w, r, ctx)
	defer s.end()
	defer s.flushCut()
	defer s.endReadAhead()
	reverse := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			t.rewrite(p.Out)
			if p.Out.Body != nil {
				newRequestBody(s, p.In, p.Out, wait > 0)
			}
		},
		Transport:     c.proxied,
		FlushInterval: flushTime, // at once if the answer has no length
		BufferPool:    &copyBuffers,
		ModifyResponse: func(resp *http.Response) error {
			switch {
			case resp.StatusCode == http.StatusSwitchingProtocols:
				return errUpgraded
			case resp.StatusCode < 100: // net/http would panic
				return fmt.Errorf("the upstream answered with the invalid status %03d", resp.StatusCode)
			}
			t.clean(resp.Header, table)
			t.addGrant(resp.Header)
			deleteOwn(resp.Trailer)
			w.Header()["Content-Type"] = nil // net/http guesses none
			s.answer(r, resp)
			release()
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) { c.failed(w, r, t, s, err) },
		ErrorLog:     discardLog,
	}
	expects := r.ProtoMajor == 1 && r.Header.Get("Expect") != ""
	reverse.ServeHTTP(hintWriter{w, func(header http.Header) { t.clean(header, table) }, expects}, r)
}

// proxyContext returns a request's context with its caller, its key and how
// long it may wait, and the latter.
func (g *Gateway) proxyContext(r *http.Request, table *costs.Table) (ctx context.Context, wait time.Duration,
	err error) {
	var values [5]string
	for i, name := range [...]string{headerLane, headerJob, headerRegion, headerMaxWait, headerKey} {
		if values[i], err = single(r, name); err != nil {
			return nil, 0, err
		}
	}
	caller, err := g.callerOf(r, table, quota.Caller{Lane: values[0], Job: values[1], Region: values[2]})
	if err != nil {
		return nil, 0, err
	}
	key, err := keyOf(r, values[4])
	if err != nil {
		return nil, 0, err
	}
	wait = g.options.MaxWait
	if limit := values[3]; limit != "" {
		if wait, err = human.ParseSeconds(limit); err != nil {
			return nil, 0, fmt.Errorf("%w: %s: %w", quota.ErrBadCall, headerMaxWait, err)
		}
		wait = min(wait, maxWait)
	}
	ctx = quota.WithCaller(r.Context(), caller)
	return quota.WithRequestOptions(ctx, func(t *quota.RequestOptions) { t.Key, t.MaxWait = key, &wait }), wait, nil
}

// isWebSocket reports whether a request asks to become a WebSocket. Offers of
// other protocols, such as h2c, are ignored, as RFC 9110 allows.
func isWebSocket(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values("Upgrade"), func(value string) bool {
		return strings.Contains(strings.ToLower(value), "websocket")
	})
}

// hintWriter is a ResponseWriter that cleans the headers of informational
// answers, which do not pass through ModifyResponse. It drops 100 Continue,
// which net/http itself sends when the request's body is first read.
//
// For HTTP/2, net/http goes on reading the header after WriteHeader if the
// client has reset the stream, while httputil.ReverseProxy clears it. It reads
// a copy if there is a Content-Length, which it does not send. For HTTP/1, it
// writes 100 Continue without regard to what is written here, so that a request
// which expects that gets no other informational answer.
type hintWriter struct {
	http.ResponseWriter
	clean   func(http.Header)
	expects bool // the client expects 100 Continue, over HTTP/1
}

// WriteHeader implements http.ResponseWriter.
func (w hintWriter) WriteHeader(status int) {
	isHint := status < 200
	switch {
	case status == http.StatusContinue, isHint && w.expects:
		return
	case isHint:
		w.clean(w.Header())
		w.Header().Set("Content-Length", "0")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w hintWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// clean makes the headers of the upstream's answer those for the client.
func (t *target) clean(header http.Header, table *costs.Table) {
	deleteOwn(header)
	t.leadBack(header, table)
	if lines := header["Set-Cookie"]; len(lines) > 0 && !t.isDirect {
		header["Set-Cookie"] = t.ownCookies(lines)
	}
}

// setGrant keeps the grant of the request for addGrant.
func (t *target) setGrant(granted *quota.Grant) { t.grant = granted.Token() }

func (t *target) addGrant(header http.Header) {
	if t.grant != "" {
		header.Set(headerGrant, t.grant)
	}
}

// deleteOwn deletes the headers that are for the gateway or from it, also those
// that a program behind CGI or WSGI could not tell from them.
func deleteOwn(header http.Header) {
	for name := range header {
		if strings.HasPrefix(strings.Replace(name, "_", "-", 1), headerPrefix) {
			delete(header, name)
		}
	}
}

// rewrite makes out, a copy of the client's request, the one for the upstream.
func (t *target) rewrite(out *http.Request) {
	out.URL, out.Host = t.url, t.url.Host
	deleteOwn(out.Header)
	out.Header.Del("Connection") // of an upgrade, which does not pass
	out.Header.Del("Upgrade")
	if cookies := out.Header["Cookie"]; len(cookies) > 0 {
		out.Header["Cookie"] = withoutPageCookie(cookies)
	}
	if accepted := out.Header.Values("Accept-Encoding"); len(accepted) > 0 {
		out.Header.Set("Accept-Encoding", readable(accepted))
	}
	addCredential(out, t.credential, t.secret)
}

// readable returns those of a client's encodings in which an error can be read.
// Any other (*) is taken for gzip.
func readable(accepted []string) string {
	var kept []string
	gzip, other := false, ""
	for encoding := range strings.SplitSeq(strings.Join(accepted, ","), ",") {
		encoding = strings.TrimSpace(encoding)
		name, _, _ := strings.Cut(encoding, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip":
			gzip = true
			kept = append(kept, encoding)
		case "identity":
			kept = append(kept, encoding)
		case "*":
			other = "gzip" + encoding[1:]
		}
	}
	if other != "" && !gzip {
		kept = append(kept, other)
	}
	if len(kept) == 0 {
		return "identity"
	}
	return strings.Join(kept, ", ")
}

// failed answers a proxied request that brought no answer.
func (c *connected) failed(w http.ResponseWriter, r *http.Request, t *target, s *stream, err error) {
	switch cause, body := context.Cause(r.Context()), s.badBody.Load(); {
	case errors.Is(cause, errStalled) || body != nil && errors.Is(*body, os.ErrDeadlineExceeded):
		newProblem(http.StatusRequestTimeout, "too-slow", "no byte of the request's body arrived for %s",
			s.limit).write(w)
	case cause != nil:
		panic(http.ErrAbortHandler) // the client has gone
	case body != nil:
		newProblem(http.StatusBadRequest, "bad-body", "the request's body could not be read: %v", *body).write(w)
	default:
		sessionOf(r).recordRefusal(err)
		problem := c.notSent(err)
		problem.Detail = t.hide(problem.Detail)
		problem.write(w)
	}
}

// notSent returns the problem of a request that was refused, or that failed.
func (c *connected) notSent(err error) *problem {
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		call := quota.Call{Account: refused.Account, Method: refused.Method, Units: refused.Units,
			Caller: refused.Caller}
		return c.refusal(call, 1, err)
	}
	problem := problemOf(err) // the ledger's timeout is not the upstream's
	if problem.Status != http.StatusInternalServerError {
		return problem
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return newProblem(http.StatusGatewayTimeout, "upstream-timeout", "%v", err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the upstream closed the connection before it answered")
	}
	if _, isPlain := errors.AsType[tls.RecordHeaderError](err); isPlain {
		err = fmt.Errorf("%w; if the host speaks plain http, name it in costs.yaml: insecure: [HOST]", err)
	}
	return newProblem(http.StatusBadGateway, "upstream-failed", "%v", err)
}

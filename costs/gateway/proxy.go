package gateway

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/duration"
	"github.com/ration-dev/ration/quota"
)

// newBase returns the transport of proxied requests. It leaves encodings as the
// client and the upstream agreed on them.
func newBase() http.RoundTripper {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.DisableCompression = true
	base.MaxIdleConnsPerHost = 100
	base.ResponseHeaderTimeout = headerTime
	return base
}

// headerTime is how long an upstream may take to begin its answer.
const headerTime = 5 * time.Minute

// proxy answers ANY /to/{host}/{path}: it sends the request to that host, as
// package client would.
func (g *Gateway) proxy(w http.ResponseWriter, r *http.Request, c *connected) {
	if r.Header.Get("Upgrade") != "" {
		newProblem(http.StatusNotImplemented, "no-upgrade", "the gateway does not carry WebSockets or other upgrades: their messages have no price").write(w)
		return
	}
	target, problem := g.target(r, c.Table())
	if problem != nil {
		problem.write(w)
		return
	}
	caller, err := g.callerOf(r, c.Table(), quota.Caller{Lane: r.Header.Get(headerLane), Job: r.Header.Get(headerJob), Region: r.Header.Get(headerRegion)})
	ctx := quota.WithCaller(r.Context(), caller)
	if text := r.Header.Get(headerMaxWait); text != "" && err == nil {
		var limit time.Duration
		limit, err = duration.ParseSeconds(text)
		ctx = quota.WithMaxWait(ctx, min(limit, maxWait))
	}
	if err != nil {
		newProblem(http.StatusUnprocessableEntity, "bad-call", "%v", err).write(w)
		return
	}
	credential := c.Table().UpstreamOf(target).Credential
	secret, err := ReadCredential(credential)
	if err != nil {
		newProblem(http.StatusInternalServerError, "no-credential", "%v", err).write(w)
		return
	}
	_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1: the answer may begin before the request has ended
	reverse := httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			rewrite(p.Out, target)
			addCredential(p.Out, credential, secret)
		},
		Transport:      c.proxied,
		FlushInterval:  -1,
		ModifyResponse: func(resp *http.Response) error { keepGuarded(resp, c.Table()); return nil },
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { c.failed(w, r, err) },
		ErrorLog:       log.New(io.Discard, "", 0), // what it says of broken streams, both ends see
	}
	reverse.ServeHTTP(w, r.WithContext(ctx))
}

// target returns the URL that a request to /to/ is for.
func (g *Gateway) target(r *http.Request, table *costs.Table) (*url.URL, *problem) {
	host, path, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/to/"), "/")
	target, err := url.Parse("https://" + host + "/" + path)
	if err != nil || target.Host == "" || target.User != nil {
		return nil, newProblem(http.StatusBadRequest, "bad-target", "write /to/HOST/PATH, as in /to/www.example.com/v1/items")
	}
	upstream := table.UpstreamOf(target)
	if upstream == nil {
		return nil, newProblem(http.StatusForbidden, "not-guarded", "%s is not a host of costs.yaml; the gateway sends nothing elsewhere", headerText(target.Host))
	}
	if isLoopback(target.Hostname()) {
		target.Scheme = "http"
	}
	if endpoint, err := url.Parse(g.options.Endpoint); err == nil && endpoint.Host != "" {
		if replaced := table.UpstreamOf(endpoint); replaced != nil && replaced.Name == upstream.Name {
			prefix := strings.TrimSuffix(endpoint.EscapedPath(), "/")
			if strings.EqualFold(target.Host, endpoint.Host) {
				prefix = "" // the client names the endpoint itself
			}
			target, _ = url.Parse(endpoint.Scheme + "://" + endpoint.Host + prefix + "/" + path)
		}
	}
	target.RawQuery = r.URL.RawQuery
	return target, nil
}

// rewrite makes out, a copy of the client's request, the one for the upstream.
func rewrite(out *http.Request, target *url.URL) {
	out.URL, out.Host = target, target.Host
	for name := range out.Header {
		if strings.HasPrefix(name, headerPrefix) {
			delete(out.Header, name)
		}
	}
	if accepted := out.Header.Values("Accept-Encoding"); len(accepted) > 0 {
		out.Header.Set("Accept-Encoding", readable(accepted))
	}
}

// readable returns those of a client's encodings in which an error can be read.
func readable(accepted []string) string {
	var kept []string
	for encoding := range strings.SplitSeq(strings.Join(accepted, ","), ",") {
		name, _, _ := strings.Cut(encoding, ";")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "gzip", "identity":
			kept = append(kept, strings.TrimSpace(encoding))
		}
	}
	if len(kept) == 0 {
		return "identity"
	}
	return strings.Join(kept, ", ")
}

// keepGuarded makes a redirect to a guarded host lead back to the gateway, so
// that a client which follows it is still guarded.
func keepGuarded(resp *http.Response, table *costs.Table) {
	location, err := resp.Location()
	if err != nil {
		return
	}
	upstream := table.UpstreamOf(location)
	if upstream == nil {
		return
	}
	back := &url.URL{Path: "/to/" + location.Host + location.Path, RawQuery: location.RawQuery, Fragment: location.Fragment}
	if c := upstream.Credential; c != nil && c.Query != "" {
		back.RawQuery = withoutParameter(back.RawQuery, c.Query) // the upstream may repeat it; the gateway adds it again
	}
	if location.RawPath != "" {
		back.RawPath = "/to/" + location.Host + location.RawPath
	}
	resp.Header.Set("Location", back.String())
}

// failed answers a proxied request that brought no answer.
func (c *connected) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Cause(r.Context())) {
		return // the client has gone
	}
	call, _ := c.Table().Price(r)
	call.Caller = quota.CallerFrom(r.Context())
	sessionOf(r).recordRefusal(err)
	problem := c.refusal(call, 1, err)
	if problem.status == http.StatusInternalServerError {
		problem = newProblem(http.StatusBadGateway, "upstream-failed", "%v", err)
	}
	problem.write(w)
}

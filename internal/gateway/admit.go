package gateway

import (
	"cmp"
	"context"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

// The headers of a request that are for the gateway. They do not reach
// the upstream.
const (
	headerToken   = "Ration-Token"
	headerJob     = "Ration-Job"
	headerRegion  = "Ration-Region"
	headerLane    = "Ration-Lane"
	headerKey     = "Ration-Key"
	headerMaxWait = "Ration-Max-Wait"
	headerGrant   = "Ration-Grant" // of answers

	headerPrefix = "Ration-"
	// of an answer: why it is a problem, for clients that drop the body of an error
	headerDetail    = "Ration-Detail"
	headerRefusedBy = "Ration-Refused-By" // of an answer: the budget that refused, or the account in cooldown
)

// admit returns the request with its caller, or why it may not use the gateway.
// It removes the gateway's token.
func (g *Gateway) admit(r *http.Request) (*http.Request, *problem) {
	if !g.knowsHost(r) && r.URL.Host != "" {
		return r, notForwardProxy()
	}
	if !g.knowsHost(r) {
		return r, newProblem(http.StatusMisdirectedRequest, "unknown-host",
			"%q is not a name of this gateway; name it in --host", r.Host)
	}
	isForPage := g.isForPage(r)
	if isFromOtherSite(r) && !(isForPage && isNavigation(r)) {
		return r, newProblem(http.StatusForbidden, "cross-site", "a page of another site may not use the gateway")
	}
	if isForPage {
		return r, nil
	}
	token := takeToken(r)
	g.mu.Lock()
	session, known := g.sessions[token]
	g.mu.Unlock()
	isOwn := g.options.Token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(g.options.Token)) == 1
	isHealthCheck := r.URL.Path == "/healthz" || r.URL.Path == "/readyz" // which may come without a token
	isAdmitted := known || isOwn
	needsToken := g.options.Token != "" || strings.HasPrefix(token, tokenPrefix)
	if needsToken && !isAdmitted && !isHealthCheck {
		p := newProblem(http.StatusUnauthorized, "unauthorized",
			"the gateway needs its token, as Authorization: Bearer TOKEN or in the header %s", headerToken)
		p.header.Set("WWW-Authenticate", `Bearer realm="ration"`)
		return r, p
	}
	if isAdmitted {
		r.Header.Del(headerToken)
		if bearer(r) == token {
			r.Header.Del("Authorization")
		}
	}
	switch {
	case known:
		r = r.WithContext(context.WithValue(r.Context(), sessionKey{}, session))
	case !isOwn && g.options.Token != "":
		r = r.WithContext(context.WithValue(r.Context(), strangerKey{}, true))
	}
	return r, nil
}

// notForwardProxy answers a client that has the gateway as its HTTP proxy, and
// names the upstream in the request line.
func notForwardProxy() *problem {
	return newProblem(http.StatusNotImplemented, "no-tunnel",
		"the gateway is not a forward proxy; write its URL and /to/HOST/PATH, or start ration proxy --intercept")
}

type strangerKey struct{}

// isStranger reports whether a request is a health check without the token that
// the gateway has.
func isStranger(r *http.Request) bool {
	return r.Context().Value(strangerKey{}) != nil
}

// callerOf returns the caller of a request that asks for one: what its session
// fixes comes first.
func (g *Gateway) callerOf(r *http.Request, table *costs.Table, asked quota.Caller) (quota.Caller, error) {
	caller := asked
	if s := sessionOf(r); s != nil {
		caller = s.Caller(asked)
	}
	if g.options.Caller == nil {
		return caller, nil
	}
	known, err := g.options.Caller(table, caller)
	if err != nil {
		return caller, fmt.Errorf("%w: %w", quota.ErrBadCall, err)
	}
	return known, nil
}

// takeToken returns the token that a request has, or "".
func takeToken(r *http.Request) string {
	return cmp.Or(r.Header.Get(headerToken), bearer(r))
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// knowsHost reports whether the Host header names this server. Otherwise a web
// page whose name leads to a loopback address (DNS rebinding) could use it. On
// a Unix socket any name will do, and with a token, which such a page does not
// have, any address.
func (g *Gateway) knowsHost(r *http.Request) bool {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && addr.Network() == "unix" {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	ip := net.ParseIP(host)
	isLoopback := host == "localhost" || ip != nil && ip.IsLoopback()
	isOption := func(name string) bool { return strings.EqualFold(name, host) }
	if isLoopback || slices.ContainsFunc(g.options.Hosts, isOption) {
		return true
	}
	return g.options.Token != "" && ip != nil
}

// isFromOtherSite reports whether a browser sent the request for a page of
// another site.
func isFromOtherSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return true
	}
	return slices.ContainsFunc(r.Header.Values("Origin"), func(origin string) bool {
		u, err := url.Parse(origin)
		return err != nil || !strings.EqualFold(u.Host, r.Host)
	})
}

// isNavigation reports whether a browser follows a link, which shows the answer
// to its user and not to the site with the link.
func isNavigation(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
}

// single returns the value of a header that a request may have once, or "".
func single(r *http.Request, name string) (string, error) {
	values := r.Header.Values(name)
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", fmt.Errorf("%w: %d headers %s; give one", quota.ErrBadCall, len(values), name)
}

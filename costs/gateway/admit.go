package gateway

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// The headers of a request that are for the gateway. They do not reach the
// upstream.
const (
	headerToken   = "Ration-Token"
	headerJob     = "Ration-Job"
	headerRegion  = "Ration-Region"
	headerLane    = "Ration-Lane"
	headerMaxWait = "Ration-Max-Wait"

	headerPrefix    = "Ration-"
	headerRefusedBy = "Ration-Refused-By" // of an answer: the budget that refused, or the account in cooldown
)

// tokenPrefix begins the tokens of sessions, so that one which has ended is not
// taken for an upstream's credential.
const tokenPrefix = "ration_"

// Session returns a token for one program, whose calls are attributed to caller,
// and what ends it. The fields of caller that are set cannot be changed by the
// program's requests.
func (g *Gateway) Session(caller quota.Caller) (token string, end func()) {
	token = tokenPrefix + rand.Text()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sessions[token] = caller
	return token, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.sessions, token)
	}
}

// admit returns the request with its caller, or why it may not use the gateway.
// It removes the gateway's token.
func (g *Gateway) admit(r *http.Request) (*http.Request, *problem) {
	if !g.knowsHost(r) {
		return nil, newProblem(http.StatusMisdirectedRequest, "unknown-host", "%q is not a name of this gateway; name it in --host", r.Host)
	}
	if isFromOtherSite(r) {
		return nil, newProblem(http.StatusForbidden, "cross-site", "a page of another site may not use the gateway")
	}
	token := takeToken(r)
	g.mu.Lock()
	session, known := g.sessions[token]
	g.mu.Unlock()
	isOwn := g.options.Token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(g.options.Token)) == 1
	if !known && !isOwn {
		if g.options.Token != "" || strings.HasPrefix(token, tokenPrefix) {
			return nil, newProblem(http.StatusUnauthorized, "unauthorized", "the gateway needs its token, as Authorization: Bearer TOKEN or in the header %s", headerToken)
		}
	}
	if known || isOwn {
		r.Header.Del(headerToken)
		if bearer(r) == token {
			r.Header.Del("Authorization")
		}
	}
	return r.WithContext(context.WithValue(r.Context(), sessionKey{}, session)), nil
}

type sessionKey struct{}

// callerOf returns the caller of a request: what its session fixes, else asked.
func callerOf(r *http.Request, asked quota.Caller) quota.Caller {
	caller, _ := r.Context().Value(sessionKey{}).(quota.Caller)
	if caller.Lane == "" {
		caller.Lane = asked.Lane
	}
	if caller.Job == "" {
		caller.Job = asked.Job
	}
	if caller.Region == "" {
		caller.Region = asked.Region
	}
	return caller
}

// takeToken returns the token that a request has, or "".
func takeToken(r *http.Request) string {
	if token := r.Header.Get(headerToken); token != "" {
		return token
	}
	return bearer(r)
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// knowsHost reports whether the Host header names this server. Otherwise a web
// page whose name leads to a loopback address (DNS rebinding) could use it. On a
// Unix socket, and with a token, which such a page does not have, any name will
// do.
func (g *Gateway) knowsHost(r *http.Request) bool {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && addr.Network() == "unix" {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() || host == "localhost" || slices.Contains(g.options.Hosts, host) {
		return true
	}
	return g.options.Token != "" && net.ParseIP(host) != nil
}

// isFromOtherSite reports whether a browser sent the request for a page of
// another site.
func isFromOtherSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(u.Host, r.Host)
}

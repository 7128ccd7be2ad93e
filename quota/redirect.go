package quota

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// harmless reports whether a header may follow a redirect to another host: it
// is a standard header that cannot hold credentials.
func harmless(header string) bool {
	switch header {
	case "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control",
		"Content-Encoding", "Content-Language", "Content-Length", "Content-Type",
		"If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since",
		"Pragma", "Range", "User-Agent":
		return true
	}
	return false
}

// checkRedirect returns the request to send instead of one that follows a
// redirect, or an ErrRedirect if it must not be sent. It returns any other
// request unchanged.
func (t *Transport) checkRedirect(req *http.Request, unguarded bool) (*http.Request, error) {
	if req.Response == nil {
		return req, nil
	}
	previous := redirectedBy(req)
	if unguarded {
		if previous != nil {
			if _, err := t.Price(previous); errors.Is(err, ErrUnguarded) {
				return req, nil
			}
		}
		return nil,
			fmt.Errorf("%w: to host %q, which is not guarded; guard it (hosts in costs.yaml), or stop at the "+
				"redirect with http.Client.CheckRedirect", ErrRedirect, req.URL.Host)
	}
	first := previous
	for before := previous; before != nil; before = redirectedBy(before) {
		first = before
	}
	for _, before := range []*http.Request{first, previous} {
		if before != nil && before.URL.Scheme == "https" && !Confidential(req.URL) {
			return nil,
				fmt.Errorf("%w: from https to %s://%s, which would expose the request on the network; use the https "+
					"address of the upstream", ErrRedirect, req.URL.Scheme, req.URL.Host)
		}
	}
	if first != nil && sameHost(first.URL, req.URL) {
		return req, nil
	}
	safe := *req
	safe.Header = http.Header{}
	for name, values := range req.Header {
		if harmless(name) {
			safe.Header[name] = values
		}
	}
	return &safe, nil
}

// redirectedBy returns the request whose answer led to req, or nil if there is
// none with a URL.
func redirectedBy(req *http.Request) *http.Request {
	if req.Response == nil {
		return nil
	}
	previous := req.Response.Request
	if previous == nil || previous.URL == nil {
		return nil
	}
	return previous
}

// Confidential reports whether credentials may be sent to a URL: its scheme is
// https, or its host is a loopback address.
func Confidential(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	ip := net.ParseIP(host)
	isLoopback := ip != nil && ip.IsLoopback()
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || isLoopback
}

// sameHost reports whether two URLs name the same server. The default ports of
// http and https are the same server.
func sameHost(a, b *url.URL) bool {
	name := func(u *url.URL) string { return strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) }
	port := func(u *url.URL) string {
		if p := u.Port(); p != map[string]string{"http": "80", "https": "443"}[u.Scheme] {
			return p
		}
		return ""
	}
	return name(a) == name(b) && port(a) == port(b)
}

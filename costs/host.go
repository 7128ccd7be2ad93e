package costs

import (
	"cmp"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// canonicalHost returns a host in lower case, without a final dot or the
// default port of the scheme (of http and https if the scheme is ""). ok is
// false if a client could take it for another host: net/http truncates a Host
// header at a slash or space, and maps letters such as U+FF59 to ASCII.
func canonicalHost(scheme, host string) (string, bool) {
	const plain = "abcdefghijklmnopqrstuvwxyz0123456789-_."
	if !isASCII(host) {
		return canonicalName(scheme, host)
	}
	host = strings.ToLower(host)
	others := ":[]"
	if strings.HasPrefix(host, "[") {
		others += "%" // the zone of an IPv6 address
	}
	switch rest := strings.Trim(host, plain); {
	case rest == "" && !strings.HasSuffix(host, "."):
		return host, true
	case strings.Trim(rest, plain+others) != "":
		return "", false
	}
	name := withoutPort(host)
	port := strings.TrimPrefix(host[len(name):], ":")
	isDefaultTLS := port == "443" && scheme != "http"
	isDefaultPlain := port == "80" && scheme != "https"
	if isDefaultTLS || isDefaultPlain {
		port = ""
	}
	if strings.ContainsAny(name, "[]") && !bracketed(name) {
		return "", false // net/http would dial what is between the brackets
	}
	name = strings.TrimRight(name, ".")
	if port != "" {
		name += ":" + port
	}
	return name, true
}

// canonicalName is canonicalHost for an international name, by
// net/http's rules.
func canonicalName(scheme, host string) (string, bool) {
	name := withoutPort(host)
	ascii, err := idna.Lookup.ToASCII(name)
	if err != nil {
		return "", false
	}
	return canonicalHost(scheme, ascii+host[len(name):])
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isLower(c byte) bool   { return 'a' <= c && c <= 'z' }
func isCapital(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool   { return '0' <= c && c <= '9' }

// isWeb reports whether the scheme of a URL is http or https.
func isWeb(u *url.URL) bool { return u.Scheme == "http" || u.Scheme == "https" }

// hasOnlyHost reports whether a URL names a host, and neither a user, a path, a
// query nor a fragment.
func hasOnlyHost(u *url.URL) bool {
	if u.Host == "" || u.User != nil {
		return false
	}
	return strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.Fragment == ""
}

// bracketed reports whether a name is an IPv6 address in brackets.
func bracketed(name string) bool {
	inner, opened := strings.CutPrefix(name, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if !opened || !closed {
		return false
	}
	address, err := netip.ParseAddr(inner)
	return err == nil && address.Is6()
}

// withoutPort returns host without its :port.
func withoutPort(host string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.IndexByte(host[colon:], ']') >= 0 {
		return host
	}
	return host[:colon]
}

// isPort reports whether text is empty, or a colon and the number of a port
// without zeros in front.
func isPort(text string) bool {
	number, found := strings.CutPrefix(text, ":")
	port, err := strconv.ParseUint(number, 10, 16)
	isNumber := err == nil && port > 0 && number[0] != '0'
	return !found || isNumber
}

// newPriceError returns the error for a request without a certain price.
func newPriceError(req *http.Request, reason string) *PriceError {
	e := &PriceError{Verb: cmp.Or(req.Method, http.MethodGet), Host: req.URL.Host, Reason: reason, kind: ErrNoRoute}
	if req.URL.Opaque == "" {
		e.Path = req.URL.EscapedPath()
		if end := strings.Index(strings.ToUpper(e.Path), "%3F"); end >= 0 { // a query in the path may hold a key
			e.Path = e.Path[:end] + "…"
		}
	}
	return e
}

func noCostError(req *http.Request, method string) *PriceError {
	e := newPriceError(req, "method "+redact(method)+" has no cost; add it to costs: in costs.yaml")
	e.Method, e.kind = method, ErrNoCost
	return e
}

// whyNoRoute returns why a path and verb are not a method of the upstream.
func whyNoRoute(req *http.Request, routes []route) string {
	if len(routes) > 0 {
		var verbs []string
		for i := range routes {
			verbs = append(verbs, routes[i].verb)
		}
		return "the path takes no such verb; write " + strings.Join(verbs, " or ")
	}
	path := req.URL.EscapedPath()
	isTrailing := len(path) > 1 && strings.HasSuffix(path, "/")
	switch {
	case strings.HasPrefix(path, "/batch"):
		return "a batch hides how many calls it is; send them one by one"
	case strings.Contains(path, "//"), strings.Contains(path, "/./"), strings.Contains(path, "/../"), isTrailing:
		return "the path is not clean; write it without empty, dotted or trailing parts"
	case strings.Contains(path, "%"):
		return "the path has encoded letters; write it plainly"
	}
	return "no method of the upstream has this path; write it as the API documents it, letter for letter"
}

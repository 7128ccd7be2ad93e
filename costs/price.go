package costs

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// site holds the routes and costs of a guarded host.
type site struct {
	account  string
	api      *api       // nil: its routes are patterns, or there are none
	patterns []*pattern // the more exact first
	costs    map[string]quota.Units
	unlisted quota.Units  // 0: refuse
	key      requestField // or the name of a part of the path
	measured map[string]map[quota.Measure]Amount
	lease    time.Duration // of calls whose cost is an estimate
	batches  map[string]BatchMethod

	fieldPrices map[string]*FieldPrice // of methods whose requests say what they cost
}

// cost returns the cost of a method, or 0 if it must not be called.
func (s *site) cost(method string) quota.Units {
	if units, ok := s.costs[method]; ok {
		return units
	}
	return s.unlisted
}

// Price returns the account, key, method and units of a request. It does not
// set the caller; see quota.WithCaller. The error is quota.ErrUnguarded if the
// host is not guarded, quota.ErrPaid if the request continues a resumable
// upload, and otherwise a *PriceError that matches ErrNoRoute or ErrNoCost: the
// request must not be sent.
//
// Price refuses ambiguous requests, which a server, proxy or cache might take
// for another method. If a request may hold several calls (see
// Upstream.Batches), or a field of its body decides its method, its price, its
// amounts (see Amount) or its key, it reads up to 1 MiB of the body and
// replaces req.Body with an equal one. Price is safe for concurrent use with
// different requests. A nil Table refuses every request.
func (t *Table) Price(req *http.Request) (quota.Call, error) {
	if t == nil || req == nil || req.URL == nil {
		return quota.Call{}, &PriceError{Reason: "no table or no URL; load costs.yaml and set the request's URL",
			kind: ErrNoRoute}
	}
	s, reason := t.site(req)
	if s == nil && reason == "" {
		return quota.Call{}, quota.ErrUnguarded
	}
	q, whyNotRead := readQuery(req.URL.RawQuery)
	if reason = cmp.Or(reason, whyNotPlain(req), whyNotRead); reason != "" {
		return quota.Call{}, newPriceError(req, reason)
	}
	verb := cmp.Or(req.Method, http.MethodGet) // as net/http sends it
	if s.api == nil {
		method, reason := s.findMethod(verb, req)
		if reason != "" {
			return quota.Call{}, newPriceError(req, reason)
		}
		return s.call(req, method)
	}
	routes := s.api.routesFor(req.URL)
	found := routeOf(routes, verb)
	if len(routes) > 0 && routes[0].isUpload() && isChunk(req, verb, found != nil, &q) {
		return quota.Call{}, s.paidError(req, routes)
	}
	if found == nil {
		return quota.Call{}, newPriceError(req, whyNoRoute(req, routes))
	}
	return s.call(req, found.method)
}

// call returns the call of a request, or an error if the method has no cost.
func (s *site) call(req *http.Request, method string) (quota.Call, error) {
	units := s.cost(method)
	if units == 0 {
		return quota.Call{}, noCostError(req, method)
	}
	if p := s.fieldPrices[method]; p != nil {
		var reason string
		if units, reason = p.units(req); reason != "" {
			return quota.Call{}, newPriceError(req, reason)
		}
	}
	if batch, ok := s.batches[method]; ok {
		units = multiply(units, batch.countCalls(req))
	}
	key, reason := s.keyOf(req)
	if reason != "" {
		return quota.Call{}, newPriceError(req, reason)
	}
	call := quota.Call{Account: s.account, Key: key, Method: method, Units: units}
	s.measure(&call, req)
	return call, nil
}

// multiply returns the cost of several calls, at most quota.MaxUnits.
func multiply(units quota.Units, calls int64) quota.Units {
	if int64(units) > int64(quota.MaxUnits)/calls {
		return quota.MaxUnits // exceeds every sensible limit
	}
	return units * quota.Units(calls)
}

func routeOf(routes []route, verb string) *route {
	for i := range routes {
		if routes[i].verb == verb {
			return &routes[i]
		}
	}
	return nil
}

// site returns the site of a request, nil when its host is not guarded, or
// why it must not be sent. The host that is dialled and the one that the
// request names (req.Host goes over the wire) must be the same.
func (t *Table) site(req *http.Request) (*site, string) {
	dialled, ok := canonicalHost(req.URL.Scheme, req.URL.Host)
	named := dialled
	if ok && req.Host != "" && req.Host != req.URL.Host {
		named, ok = canonicalHost(req.URL.Scheme, req.Host)
	}
	s := t.sites[dialled]
	isGuarded := s != nil || t.sites[named] != nil
	if !ok || isGuarded && !isASCII(req.URL.Host+req.Host) {
		return nil, "a host is letters, digits, dots and hyphens; write it plainly"
	}
	if !isGuarded {
		return nil, t.whyNotUnguarded(req, dialled, named)
	}
	if dialled != named {
		return nil, "the Host header names another host than the URL; leave req.Host empty"
	}
	return s, ""
}

// whyNotUnguarded returns why a request must not be sent without a charge
// although its hosts, as they are written, are not guarded; "" if it may.
func (t *Table) whyNotUnguarded(req *http.Request, hosts ...string) string {
	for _, host := range hosts {
		if name := withoutPort(host); len(name) < len(host) && t.sites[name] != nil {
			return "the host is guarded, but not on this port; name the port in hosts, or leave it out"
		}
		if guarded := t.sameServer(host); guarded != "" {
			return "the host is another name of " + guarded +
				", which is guarded; write that, or add this name to hosts"
		}
		if found := t.domainOf(host); found != nil {
			if reason := found.whyRefused(req); reason != "" {
				return reason
			}
		}
	}
	// An opaque URL may name another host than the one that is dialled.
	if opaque := req.URL.Opaque; opaque != "" && !strings.HasPrefix(opaque, "//"+req.URL.Host+"/") {
		return "an opaque URL hides where it goes; set its Host and Path instead"
	}
	return ""
}

// whyNotPlain returns why a request to a guarded host is ambiguous, or "".
func whyNotPlain(req *http.Request) string {
	u := req.URL
	switch {
	case u.Opaque != "":
		return "an opaque URL hides its path; set Host and Path instead"
	case u.User != nil:
		return "userinfo in the URL; remove it, credentials travel in a header"
	case !isWeb(u):
		return "the scheme is neither https nor http; write a whole URL"
	}
	for name := range req.Header {
		if overridesMethod(name) || strings.EqualFold(name, "Host") && name != "Host" {
			return "a header changes its method or host on the way; remove the header and send the request as it is " +
				"meant"
		}
	}
	return ""
}

// methodOverrides are the headers and query parameters that change the method
// of a request: those of common frameworks, Google's system parameters
// $httpMethod and $httpHeaders
// (https://cloud.google.com/apis/docs/system-parameters), and
// Salesforce's _HttpMethod.
var methodOverrides = []string{"-method", "httpMethod", "$httpMethod", "httpHeaders", "$httpHeaders", "-HttpMethod",
	"X-HTTP-Method", "X-Method-Override", "X-HTTP-Method-Override"}

// overridesMethod reports whether name is one of methodOverrides, in any case.
// Underscores are hyphens, as in servers that read headers by CGI or WSGI.
func overridesMethod(name string) bool {
	name = strings.ReplaceAll(name, "_", "-")
	return slices.ContainsFunc(methodOverrides,
		func(known string) bool { return len(known) == len(name) && strings.EqualFold(known, name) })
}

// query holds the parts of a query that affect the price.
type query struct {
	ids       int  // upload_id parameters
	emptyID   bool // one of them is empty
	resumable int  // uploadType=resumable, upload_protocol=resumable
	other     bool // another uploadType or upload_protocol, or a spelling that some servers ignore
}

func readQuery(raw string) (q query, reason string) {
	encoded := strings.IndexByte(raw, '%') >= 0 || strings.IndexByte(raw, '+') >= 0
	if strings.IndexByte(raw, ';') >= 0 { // some servers separate with semicolons
		raw, q.other = strings.ReplaceAll(raw, ";", "&"), true
	}
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		name, value, _ := strings.Cut(pair, "=")
		if encoded && strings.ContainsAny(name, "%+") {
			decoded, err := url.QueryUnescape(name)
			if err != nil {
				return q, "a parameter's name is badly encoded; write it plainly"
			}
			name = decoded
		}
		if overridesMethod(name) {
			return q,
				"a query parameter changes its method on the way; remove the parameter and send the request as it " +
					"is meant"
		}
		switch {
		case len(name) < 9 || len(name) > 15:
		case strings.EqualFold(name, "upload_id"):
			q.ids++
			q.emptyID = q.emptyID || value == ""
			q.other = q.other || name != "upload_id"
		case strings.EqualFold(name, "uploadType"), strings.EqualFold(name, "upload_type"),
			strings.EqualFold(name, "upload_protocol"):
			if value == "resumable" && (name == "uploadType" || name == "upload_protocol") {
				q.resumable++
			} else {
				q.other = true
			}
		}
	}
	return q, ""
}

// isChunk reports whether a request continues a resumable upload, which was
// charged when it began. The request must have one upload_id, no upload type
// but resumable and, if its verb could begin an upload too, a Content-Range.
// Any other request is charged.
func isChunk(req *http.Request, verb string, couldBegin bool, q *query) bool {
	if verb != http.MethodPost && verb != http.MethodPut {
		return false
	}
	hasOneID := q.ids == 1 && !q.emptyID
	isResumable := q.resumable > 0 || strings.HasPrefix(req.URL.Path, resumablePrefix)
	if !hasOneID || q.other || !isResumable {
		return false
	}
	ranges := req.Header["Content-Range"]
	if couldBegin && (len(ranges) != 1 || !strings.HasPrefix(ranges[0], "bytes ")) {
		return false
	}
	for name := range req.Header { // another upload protocol, which can begin one
		if len(name) >= 14 && strings.EqualFold(strings.ReplaceAll(name[:14], "_", "-"), "X-Goog-Upload-") {
			return false
		}
	}
	return true
}

// paidError returns quota.ErrPaid if an upload to this path could have
// been charged.
func (s *site) paidError(req *http.Request, routes []route) error {
	for i := range routes {
		if s.cost(routes[i].method) > 0 {
			return quota.ErrPaid
		}
	}
	return noCostError(req, routes[0].method)
}

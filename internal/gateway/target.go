package gateway

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota/inbound"
)

// target is where a request to /to/ goes.
type target struct {
	url        *url.URL
	host       string // as the request names it: Options.Endpoint may take its place
	credential *costs.Credential
	secret     string
	grant      string // of the request, once it is answered
	isDirect   bool   // the client knows nothing of the gateway
}

// newTarget returns the target of a request.
func (g *Gateway) newTarget(r *http.Request, table *costs.Table) (*target, *problem) {
	host, path, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/to/"), "/")
	u, err := url.Parse("https://" + host + "/" + path)
	isURL := host == "https:" || host == "http:"
	isHost := err == nil && u.Hostname() != "" && u.User == nil
	if isURL || !isHost {
		return nil, newProblem(http.StatusBadRequest, "bad-target",
			"write /to/HOST/PATH, as in /to/www.example.com/v1/items")
	}
	if u.Scheme = "http"; !table.MayExpose(u) {
		u.Scheme = "https"
	}
	upstream := table.UpstreamOf(u)
	if upstream == nil {
		return nil, newProblem(http.StatusForbidden, "not-guarded",
			"%s is not a host of costs.yaml; the gateway sends nothing elsewhere", inbound.HeaderText(u.Host))
	}
	t := &target{url: u, host: u.Host, credential: upstream.Credential, isDirect: r.Context().Value(directKey{}) != nil}
	if endpoint, err := url.Parse(g.options.Endpoint); err == nil && endpoint.Host != "" {
		if replaced := table.UpstreamOf(endpoint); replaced != nil && replaced.Name == upstream.Name {
			u.Scheme, u.Host = endpoint.Scheme, endpoint.Host
		}
	}
	u.RawQuery, u.ForceQuery = r.URL.RawQuery, r.URL.ForceQuery
	if t.secret, err = ReadCredential(t.credential); err == nil && t.secret != "" && !table.MayExpose(u) {
		err = errors.New("the upstream's credential would be sent without encryption")
	}
	if err != nil {
		return nil, newProblem(http.StatusInternalServerError, "no-credential", "%v", err)
	}
	return t, nil
}

// leadBack makes the Location and the Links of an answer that lead to a
// guarded host lead back to the gateway, so that a client which follows them
// is still guarded. It removes a credential that the upstream repeats in them,
// in Content-Location or in Refresh.
func (t *target) leadBack(header http.Header, table *costs.Table) {
	if location := header.Get("Location"); location != "" {
		header.Set("Location", t.back(location, table))
	}
	for i, location := range header["Content-Location"] {
		header["Content-Location"][i] = t.withoutCredential(location)
	}
	for i, refresh := range header["Refresh"] {
		header["Refresh"][i] = t.withoutCredential(refresh)
	}
	for i, link := range header["Link"] {
		header["Link"][i] = replaceLinks(link, func(to string) string { return t.back(to, table) })
	}
}

// back returns the path on the gateway that a reference in an answer leads to,
// or the reference without the credential if that is not guarded.
func (t *target) back(reference string, table *costs.Table) string {
	reference = t.withoutCredential(reference)
	if t.isDirect {
		return reference
	}
	to, err := t.url.Parse(reference)
	if err != nil || to.Scheme != "https" && to.Scheme != "http" {
		return reference
	}
	upstream := table.UpstreamOf(to)
	if upstream == nil {
		return reference
	}
	host := withoutPort(to)
	credential := upstream.Credential
	query := to.RawQuery
	if strings.EqualFold(host, withoutPort(t.url)) {
		host, credential = t.host, t.credential
	}
	if credential != nil && credential.Query != "" { // which the gateway adds again
		query = withoutParameters(query, func(name, _ string) bool { return name == credential.Query })
	}
	back := "/to/" + host + cmp.Or(to.EscapedPath(), "/")
	if query != "" {
		back += "?" + query
	}
	if to.Fragment != "" {
		back += "#" + to.EscapedFragment()
	}
	return back
}

// withoutPort returns the host of a URL, and its port if that is not
// its scheme's.
func withoutPort(u *url.URL) string {
	if u.Scheme == "https" {
		return strings.TrimSuffix(u.Host, ":443")
	}
	return strings.TrimSuffix(u.Host, ":80")
}

// replaceLinks returns a Link header (RFC 8288) with its targets replaced.
func replaceLinks(link string, replace func(target string) string) string {
	var replaced strings.Builder
	quoted := false
	for i := 0; i < len(link); i++ {
		switch c := link[i]; {
		case c == '\\' && quoted && i+1 < len(link):
			replaced.WriteByte(c)
			i++
		case c == '"':
			quoted = !quoted
		case c == '<' && !quoted:
			if end := strings.IndexByte(link[i:], '>'); end > 0 {
				replaced.WriteString("<" + replace(link[i+1:i+end]))
				i += end
			}
		}
		replaced.WriteByte(link[i])
	}
	return replaced.String()
}

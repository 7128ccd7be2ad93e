package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/inbound"
)

// target is where a request to /to/ goes.
type target struct {
	url        *url.URL
	host       string // as the request names it: Options.Endpoint may take its place
	credential *costs.Credential
	secret     string
}

// newTarget returns the target of a request.
func (g *Gateway) newTarget(r *http.Request, table *costs.Table) (*target, *problem) {
	host, path, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/to/"), "/")
	u, err := url.Parse("https://" + host + "/" + path)
	if err != nil || u.Hostname() == "" || u.User != nil || host == "https:" || host == "http:" {
		return nil, newProblem(http.StatusBadRequest, "bad-target", "write /to/HOST/PATH, as in /to/www.example.com/v1/items")
	}
	if !quota.Confidential(&url.URL{Scheme: "http", Host: u.Host}) {
		u.Scheme = "https"
	} else {
		u.Scheme = "http" // a loopback address
	}
	upstream := table.UpstreamOf(u)
	if upstream == nil {
		return nil, newProblem(http.StatusForbidden, "not-guarded", "%s is not a host of costs.yaml; the gateway sends nothing elsewhere", inbound.HeaderText(u.Host))
	}
	t := &target{url: u, host: u.Host, credential: upstream.Credential}
	if endpoint, err := url.Parse(g.options.Endpoint); err == nil && endpoint.Host != "" {
		if replaced := table.UpstreamOf(endpoint); replaced != nil && replaced.Name == upstream.Name {
			u.Scheme, u.Host = endpoint.Scheme, endpoint.Host
		}
	}
	u.RawQuery, u.ForceQuery = r.URL.RawQuery, r.URL.ForceQuery
	if t.secret, err = ReadCredential(t.credential); err == nil && t.secret != "" && !quota.Confidential(u) {
		err = errors.New("the upstream's credential would be sent without encryption")
	}
	if err != nil {
		return nil, newProblem(http.StatusInternalServerError, "no-credential", "%v", err)
	}
	return t, nil
}

// leadBack makes a Location that leads to a guarded host lead back to the
// gateway, so that a client which follows it is still guarded.
func (t *target) leadBack(resp *http.Response, table *costs.Table) {
	location, err := resp.Location()
	if err != nil || location.Scheme != "https" && location.Scheme != "http" || table.UpstreamOf(location) == nil {
		return
	}
	host, query := location.Host, location.RawQuery
	if sameHost := strings.EqualFold(host, t.url.Host); sameHost {
		host = t.host
		if t.credential != nil && t.credential.Query != "" { // which the gateway adds again
			query = withoutParameter(query, t.credential.Query)
		}
	}
	if port := map[string]string{"https": ":443", "http": ":80"}[location.Scheme]; strings.HasSuffix(host, port) {
		host = strings.TrimSuffix(host, port)
	}
	path := location.EscapedPath()
	if path == "" {
		path = "/"
	}
	back := fmt.Sprintf("/to/%s%s", host, path)
	if query != "" {
		back += "?" + query
	}
	if location.Fragment != "" {
		back += "#" + location.EscapedFragment()
	}
	resp.Header.Set("Location", back)
}

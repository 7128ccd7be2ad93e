package costs

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"strings"
)

// WithEndpoint returns a copy of the table that also guards endpoint, the base
// URL of a server that takes the place of an upstream's hosts, such as a test
// server or a proxy. Its requests are priced as the upstream's own. upstream
// may be "" if only one upstream has an api, or if none has and only one has
// routes. An http endpoint must be a loopback address.
func (t *Table) WithEndpoint(upstream, endpoint string) (*Table, error) {
	with, err := t.withEndpoint(upstream, endpoint)
	if err != nil {
		return nil, fmt.Errorf("costs: endpoint: %w", err)
	}
	return with, nil
}

func (t *Table) withEndpoint(upstream, endpoint string) (*Table, error) {
	u, err := url.Parse(endpoint)
	if err != nil || !isWeb(u) || !hasOnlyHost(u) {
		return nil, errors.New("write scheme, host and port only, such as http://127.0.0.1:8080")
	}
	if u.Scheme == "http" && !isLoopback(u.Hostname()) {
		return nil, fmt.Errorf("plain http to %q would expose the key; write https, or a loopback address",
			u.Hostname())
	}
	host, ok := canonicalHost(u.Scheme, u.Host)
	if !ok {
		return nil, errors.New("malformed host; write letters, digits, dots and hyphens")
	}
	if !isPort(host[len(withoutPort(host)):]) {
		return nil, fmt.Errorf("%s has no port from 1 to 65535; write the one at which the server listens", host)
	}
	var chosen, routed []*site
	for _, u := range t.upstreams {
		switch meant := upstream == "" || u.Name == upstream || u.Account == upstream; {
		case meant && u.API != "":
			chosen = append(chosen, u.site)
		case meant && len(u.Hosts) > 0:
			routed = append(routed, u.site)
		}
	}
	if len(chosen) == 0 {
		chosen = routed
	}
	if len(chosen) != 1 {
		return nil, fmt.Errorf("%d upstreams match; name one of %s", len(chosen), strings.Join(t.names(), ", "))
	}
	if other := t.sites[host]; other != nil && other != chosen[0] {
		return nil, fmt.Errorf("%s belongs to another upstream; name another host", host)
	}
	with := *t
	with.sites = maps.Clone(t.sites)
	with.sites[host] = chosen[0]
	return &with, nil
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback() || strings.EqualFold(host, "localhost")
}

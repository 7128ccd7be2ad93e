package costs

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// domain is a domain whose other hosts may reach the same quota as a guarded
// host, such as team.slack.com next to slack.com.
type domain struct {
	name  string
	hosts []string // guarded hosts, for messages
	apis  []*api   // only requests that may be one of these are refused; nil refuses all
}

// googleDomains returns the domains of Google's APIs. Each API has many hosts
// there: content.googleapis.com/youtube/v3 is YouTube, too.
func googleDomains() []string { return []string{"googleapis.com", "clients6.google.com"} }

// setDomains sets the domains to those of the hosts, unless the file has them.
func (d *document) setDomains() {
	if d.domainsRead {
		return
	}
	if d.API != "" {
		d.Domains = googleDomains()
		return
	}
	for _, host := range d.Hosts {
		if name := domainOf(withoutPort(host)); name != "" && !slices.Contains(d.Domains, name) {
			d.Domains = append(d.Domains, name)
		}
	}
}

// domainOf returns the registrable domain of a host, such as hubapi.com for
// api.hubapi.com. It returns the host itself if that is a public suffix, and ""
// for an IP address or a name without dots.
func domainOf(host string) string {
	if !strings.Contains(host, ".") || isAddress(host) {
		return ""
	}
	if registered, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return registered
	}
	return host
}

// isAddress reports whether a host is an IP address.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

// isDomain reports whether a name is that of a domain or host: neither an IP
// address nor a suffix of other owners' domains, such as co.uk.
func isDomain(name string) bool {
	if isAddress(name) || strings.HasPrefix(name, ".") || !strings.Contains(name, ".") {
		return false
	}
	suffix, isPublic := publicsuffix.PublicSuffix(name)
	return suffix != name || !isPublic
}

// readDomain reads the name of a domain or host without a port. It returns ""
// after a mistake.
func readDomain(n strictyaml.Node) string {
	text := n.Text(maxText)
	if text == "" {
		return ""
	}
	name, ok := canonicalHost("", text)
	hasPort := withoutPort(text) != text
	if !ok || hasPort || !isDomain(name) {
		n.Mistake("%q is not the name of a domain or host: write one such as example.com, without scheme, port, "+
			"path or wildcard", text)
		return ""
	}
	return name
}

func (d *document) readDomains(n strictyaml.Node) {
	d.Domains, d.domainsRead = nil, true
	n.Items(func(n strictyaml.Node) {
		if name := readDomain(n); name != "" && !slices.Contains(d.Domains, name) {
			d.Domains = append(d.Domains, name)
		}
	})
}

func (d *document) readUnguarded(n strictyaml.Node) {
	d.Unguarded, d.unguardedAt = nil, nil
	n.Items(func(n strictyaml.Node) {
		name := readDomain(n)
		switch {
		case name == "":
		case slices.Contains(d.Unguarded, name):
			n.Mistake("host %s is repeated: remove one", name)
		default:
			d.Unguarded = append(d.Unguarded, name)
			if d.reading == nil {
				d.unguardedAt = append(d.unguardedAt, n)
			}
		}
	})
}

// checkUnguarded reports unguarded hosts that have no effect.
func (d *document) checkUnguarded() {
	for i, n := range d.unguardedAt {
		host := d.Unguarded[i]
		switch {
		case slices.Contains(d.Hosts, host):
			n.Mistake("host %s is in hosts as well: remove it here or there", host)
		case !slices.ContainsFunc(d.Domains, func(domain string) bool { return isWithin(host, domain) }):
			n.Mistake("host %s is in none of the guarded domains (%s), so its requests are sent without a charge: "+
				"remove it", host, strings.Join(d.Domains, ", "))
		}
	}
}

func (d *document) readInsecure(n strictyaml.Node) {
	n.Items(func(n strictyaml.Node) {
		if host, _ := canonicalHost("", n.Text(maxText)); n.Text(maxText) != "" {
			d.Insecure = append(d.Insecure, host)
			d.insecureAt = append(d.insecureAt, n)
		}
	})
}

// checkInsecure reports insecure hosts that are not among the hosts.
func (d *document) checkInsecure() {
	var meant []string
	for i, n := range d.insecureAt {
		named := d.hostsNamed(d.Insecure[i])
		if len(named) == 0 {
			n.Mistake("host %s is not in hosts: write it there too, or remove it here", n.Text(maxText))
		}
		meant = append(meant, named...)
	}
	d.Insecure = meant
}

// hostsNamed returns the host if it is among the hosts, or else, if it has no
// port, those of its name.
func (d *document) hostsNamed(host string) []string {
	if slices.Contains(d.Hosts, host) {
		return []string{host}
	}
	return slices.DeleteFunc(slices.Clone(d.Hosts), func(other string) bool { return withoutPort(other) != host })
}

// MayExpose reports whether a request to a URL may be sent with its
// credentials: they are encrypted or stay on this machine, or costs.yaml has
// the host in insecure.
func (t *Table) MayExpose(u *url.URL) bool {
	host, ok := canonicalHost(u.Scheme, u.Host)
	isInsecure := func(upstream *Upstream) bool { return slices.Contains(upstream.Insecure, host) }
	return quota.Confidential(u) || ok && slices.ContainsFunc(t.upstreams, isInsecure)
}

// isWithin reports whether a host is a domain or below it.
func isWithin(host, domain string) bool {
	return host == domain || strings.HasSuffix(host, "."+domain)
}

// addDomains adds the document's domains to the table, so that requests to
// other hosts there are refused.
func (t *Table) addDomains(d *document) {
	for _, name := range d.Domains {
		if len(d.Hosts) == 0 {
			return
		}
		known := t.domains[name]
		if known == nil {
			known = &domain{name: name}
			t.domains[name] = known
			if d.site.api != nil {
				known.apis = []*api{d.site.api}
			}
		} else if known.apis != nil && d.site.api != nil {
			known.apis = append(known.apis, d.site.api)
		} else {
			known.apis = nil
		}
		known.hosts = append(known.hosts, d.Hosts...)
	}
	for _, host := range d.Unguarded {
		t.unguarded[host] = true
	}
}

// domainOf returns the guarded domain of a canonical host, or nil if there is
// none or the host is unguarded.
func (t *Table) domainOf(host string) *domain {
	name := withoutPort(host)
	if len(t.domains) == 0 || t.unguarded[name] {
		return nil
	}
	for rest, more := name, true; more; _, rest, more = strings.Cut(rest, ".") {
		if found := t.domains[rest]; found != nil {
			return found
		}
	}
	return nil
}

// sameServer returns the guarded host that is the server of a canonical host by
// another name of this machine's loopback address, or "".
func (t *Table) sameServer(host string) string {
	names := []string{"127.0.0.1", "localhost", "[::1]"}
	name := withoutPort(host)
	if !slices.Contains(names, name) {
		return ""
	}
	for _, other := range names {
		if guarded := other + host[len(name):]; t.sites[guarded] != nil {
			return guarded
		}
	}
	return ""
}

// whyRefused returns why a request to a host of the domain must not be sent
// without a charge, or "" if it may.
func (dom *domain) whyRefused(req *http.Request) string {
	if dom.apis != nil && req.URL.Opaque == "" &&
		!slices.ContainsFunc(dom.apis, func(a *api) bool { return a.mayServe(req.URL) }) {
		return ""
	}
	return "the host is in the guarded domain " + dom.name + ", but not in hosts in costs.yaml; write " + dom.hosts[0] +
		", or add the host to hosts or, if it has a quota of its own, to unguarded"
}

// mayServe reports whether a server could take a path for one of the API, or
// for a batch, which may hold calls of the API.
func (a *api) mayServe(u *url.URL) bool {
	reading := u.EscapedPath()
	for range maxDecodings {
		path := strings.ToLower(cleanPath(reading))
		if path == "/batch" || strings.Contains(path+"/", "/"+a.name+"/") || strings.Contains(path, "/"+a.name+":") {
			return true
		}
		decoded, err := url.PathUnescape(reading)
		if err != nil || decoded == reading {
			return false
		}
		reading = decoded
	}
	return true // encoded too many times
}

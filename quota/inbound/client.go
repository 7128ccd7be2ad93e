package inbound

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Address returns a function for Options.Client that tells clients apart by
// their address. Behind proxies it takes the address from X-Forwarded-For, but
// only as far as trusted proxies have written it: from the right, the first one
// that is not of a trusted proxy. Clients with IPv6 addresses count by their
// /64, of which each has all; those in 64:ff9b::/96 (RFC 6052) by the IPv4
// address that a translator has put there.
func Address(trusted ...netip.Prefix) func(*http.Request) string {
	trusted = slices.Clone(trusted)
	translated := netip.MustParsePrefix("64:ff9b::/96")
	for i, prefix := range trusted {
		if prefix.Addr().Is4In6() && prefix.Bits() >= 96 { // as addresses are compared
			trusted[i] = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
		}
	}
	isTrusted := func(addr netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
	}
	return func(r *http.Request) string {
		port, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			return "" // of a Unix socket
		}
		client := port.Addr().Unmap().WithZone("")
		forwarded := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for i := len(forwarded) - 1; i >= 0 && isTrusted(client); i-- {
			before, err := parseForwarded(forwarded[i])
			if err != nil {
				break
			}
			client = before
		}
		if translated.Contains(client) {
			bytes := client.As16()
			client = netip.AddrFrom4([4]byte(bytes[12:]))
		}
		if client.Is6() {
			network, _ := client.Prefix(64)
			return network.String()
		}
		return client.String()
	}
}

// parseForwarded parses an address as proxies write it, perhaps with a port.
func parseForwarded(text string) (netip.Addr, error) {
	text = strings.TrimSpace(text)
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().Unmap().WithZone(""), nil
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return addr.Unmap().WithZone(""), err
}

// Header returns a function for Options.Client that tells clients apart by a
// header, such as an API key that the server has checked. Requests without it
// share one count.
func Header(name string) func(*http.Request) string {
	return func(r *http.Request) string { return r.Header.Get(name) }
}

package youtube

import (
	"net/http"
	"net/url"
	"strings"
)

// KeyHeader carries the API key: unlike the key parameter it is in no URL, and
// so in no error or log of one.
const KeyHeader = "X-Goog-Api-Key"

// KeyTransport adds the API key to requests for the API's own hosts, and to
// no others: a redirect elsewhere does not carry it. It belongs below the
// quota.Transport, and clones a request before it adds to it.
type KeyTransport struct {
	Key   string
	Hosts []string // host[:port], as in a URL
	Base  http.RoundTripper
}

// RoundTrip sends a copy of req that carries the key.
func (t *KeyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Key != "" && t.ours(req.URL) {
		req = req.Clone(req.Context())
		req.Header.Set(KeyHeader, t.Key)
	}
	return t.Base.RoundTrip(req)
}

func (t *KeyTransport) ours(u *url.URL) bool {
	for _, host := range t.Hosts {
		if strings.EqualFold(u.Host, host) {
			return true
		}
	}
	return false
}

// Unwrap returns the base, to which every request goes once.
func (t *KeyTransport) Unwrap() http.RoundTripper { return t.Base }

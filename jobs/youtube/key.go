package youtube

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// KeyHeader carries the API key: unlike the key parameter it is in no URL, and
// so in no error or log of one.
const KeyHeader = "X-Goog-Api-Key"

// KeyTransport adds the API key to requests for the API's own hosts, and to
// no others: a redirect elsewhere does not carry it. It sends the key over https
// or to a loopback address only, and returns an error, without sending the
// request, where one of the hosts is asked over plain http. It belongs below the
// quota.Transport, and clones a request before it adds to it.
type KeyTransport struct {
	Key   string
	Hosts []string // host[:port], as in a URL
	Base  http.RoundTripper
}

// RoundTrip sends a copy of req that carries the key.
func (t *KeyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.Key != "" && t.ours(req.URL) {
		if !quota.Confidential(req.URL) {
			if req.Body != nil {
				req.Body.Close()
			}
			return nil, fmt.Errorf("the API key is not sent to %s://%s, where anyone on the way can read it; use https", req.URL.Scheme, req.URL.Host)
		}
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

// Unwrap returns the base, to which every request goes that is sent, once.
func (t *KeyTransport) Unwrap() http.RoundTripper { return t.Base }

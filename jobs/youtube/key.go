package youtube

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// KeyHeader is the header with the API key. Unlike the key parameter, it does
// not appear in URLs, and so not in errors and logs.
const KeyHeader = "X-Goog-Api-Key"

// KeyTransport is an http.RoundTripper that adds the API key to requests for
// the given hosts, and to no others, not even after a redirect. A request to
// one of the hosts over plain http is an error and is not sent, unless the host
// is a loopback address. Use it as the Base of a quota.Transport.
type KeyTransport struct {
	// Key returns the API key for a request, and "" for none; nil adds none. A
	// request for which it returns an error is not sent.
	Key   func() (string, error)
	Hosts []string          // host[:port], as in a URL
	Base  http.RoundTripper // required
}

// RoundTrip sends req, or a copy of it with the key.
func (t *KeyTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	key := ""
	if t.Key != nil && t.isAPIHost(req.URL) {
		var err error
		key, err = t.Key()
		if err == nil && key != "" && !quota.Confidential(req.URL) {
			err = fmt.Errorf("the API key is not sent to %s://%s, which is not encrypted; use https", req.URL.Scheme,
				req.URL.Host)
		}
		if err != nil {
			if req.Body != nil {
				req.Body.Close()
			}
			return nil, err
		}
	}
	if key != "" {
		req = req.Clone(req.Context())
		req.Header.Set(KeyHeader, key)
	}
	return t.Base.RoundTrip(req)
}

func (t *KeyTransport) isAPIHost(u *url.URL) bool {
	return slices.ContainsFunc(t.Hosts, func(host string) bool { return strings.EqualFold(u.Host, host) })
}

// Unwrap returns t.Base.
func (t *KeyTransport) Unwrap() http.RoundTripper { return t.Base }

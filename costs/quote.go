package costs

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// Quote describes how a request would be charged.
type Quote struct {
	Guarded bool           // false if it would be sent without a charge; all other fields are zero then
	Paid    bool           // it continues an upload that was charged when it began
	Call    quota.Call     // the call, without a caller
	Budgets []quota.Budget // the budgets that the call would be charged to
}

// Quote returns how a request would be charged, without sending it. An
// empty verb means GET. The error is a *PriceError; it does not include the
// URL's query.
func (t *Table) Quote(verb, rawURL string) (Quote, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" && u.Opaque == "" {
		return Quote{}, &PriceError{Verb: verb, Reason: "the URL is incomplete; write " + t.completeURL(u),
			kind: ErrNoRoute}
	}
	call, err := t.Price(&http.Request{Method: verb, URL: u})
	switch {
	case errors.Is(err, quota.ErrUnguarded):
		return Quote{}, nil
	case errors.Is(err, quota.ErrPaid):
		return Quote{Guarded: true, Paid: true}, nil
	case err != nil:
		return Quote{Guarded: true}, err
	}
	return Quote{Guarded: true, Call: call, Budgets: t.Covering(call)}, nil
}

// completeURL says what to write for a URL without a scheme or a host. u is nil
// if it is malformed.
func (t *Table) completeURL(u *url.URL) string {
	hosts := t.upstreams[0].Hosts
	isPath := u != nil && u.Scheme == "" && !strings.Contains(u.Path, "@")
	if !isPath || len(hosts) == 0 {
		return "https://, the host and the path"
	}
	first, _, _ := strings.Cut(u.Path, "/")
	if strings.Contains(first, ".") {
		return "https://" + u.EscapedPath()
	}
	return "https://" + hosts[0] + "/" + strings.TrimPrefix(u.EscapedPath(), "/")
}

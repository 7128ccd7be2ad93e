package client

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
)

// RejectedError says that an upstream has rejected the credential of a call:
// its key has expired, say. It is reported at most once an hour and host.
type RejectedError struct {
	Account string
	Host    string
	Status  int
	Reason  string // what the upstream said; may be empty
}

// Error names the host and what it said.
func (e *RejectedError) Error() string {
	text := fmt.Sprintf("%s rejects the credential of account %s with %d %s", e.Host, e.Account, e.Status, http.StatusText(e.Status))
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// rejections are those that were reported. It is safe for concurrent use.
type rejections struct {
	mu       sync.Mutex
	reported map[[2]string]time.Time // by account and host
}

// notingRejections returns a function that reads answers as read does, and
// reports that a credential was rejected.
func (c *Client) notingRejections(
	read func(quota.Call, *http.Response) quota.Verdict,
) func(quota.Call, *http.Response) quota.Verdict {
	return func(call quota.Call, resp *http.Response) quota.Verdict {
		v := read(call, resp)
		if isRejection(resp.StatusCode, v.Reason) && resp.Request != nil {
			e := &RejectedError{Account: call.Account, Host: resp.Request.URL.Hostname(), Status: resp.StatusCode, Reason: v.Reason}
			if c.rejections.isNew(e, c.now()) {
				c.report(call, e)
			}
		}
		return v
	}
}

// isRejection reports whether an answer rejects a credential. Some upstreams
// say so with another status than 401.
func isRejection(status int, reason string) bool {
	reason = strings.ToLower(strings.NewReplacer("_", "", " ", "").Replace(reason))
	saysKey := strings.Contains(reason, "apikeyinvalid") || strings.Contains(reason, "keyinvalid") || strings.Contains(reason, "invalidapikey")
	isClients := status == http.StatusBadRequest || status == http.StatusForbidden
	return status == http.StatusUnauthorized || isClients && saysKey
}

func (r *rejections) isNew(e *RejectedError, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := [2]string{e.Account, e.Host}
	if last, known := r.reported[of]; known && now.Sub(last) < time.Hour {
		return false
	}
	if r.reported == nil {
		r.reported = map[[2]string]time.Time{}
	}
	r.reported[of] = now
	return true
}

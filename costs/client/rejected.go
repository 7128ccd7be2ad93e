package client

import (
	"fmt"
	"net/http"
	"strings"

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
	text := fmt.Sprintf("%s rejects the credential of account %s with %d %s", e.Host, e.Account, e.Status,
		http.StatusText(e.Status))
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// notingRejections returns a function that reads answers as read does, and
// reports that a credential was rejected.
func (c *Client) notingRejections(
	read func(quota.Call, *http.Response) quota.Verdict,
) func(quota.Call, *http.Response) quota.Verdict {
	return func(call quota.Call, resp *http.Response) quota.Verdict {
		v := read(call, resp)
		if isRejection(resp.StatusCode, v.Reason) && resp.Request != nil {
			e := &RejectedError{Account: call.Account, Host: resp.Request.URL.Hostname(), Status: resp.StatusCode,
				Reason: v.Reason}
			if c.rejected.isFirst(eventKind{account: e.Account, of: e.Host}, c.now(), nil) {
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
	saysKey := strings.Contains(reason, "apikeyinvalid") || strings.Contains(reason, "keyinvalid") ||
		strings.Contains(reason, "invalidapikey")
	isClients := status == http.StatusBadRequest || status == http.StatusForbidden
	return status == http.StatusUnauthorized || isClients && saysKey
}

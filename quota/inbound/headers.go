package inbound

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// SetHeaders sets the headers of an answer that tell a client its limits, and
// nothing if there are no balances:
//
//   - RateLimit-Policy and RateLimit, of draft-ietf-httpapi-ratelimit-headers-10:
//     for each budget its limit (q) and its window in seconds (w, which a
//     calendar window does not have), what remains (r) and in how many seconds
//     more of it is free (t);
//   - X-RateLimit-Limit, -Remaining and -Reset, which are older, for the budget
//     that has the least left. Reset is in seconds since 1970.
func SetHeaders(header http.Header, balances []quota.Balance) {
	var policies, limits []string
	var tightest *quota.Balance
	for i := range balances {
		b := &balances[i]
		name := quoted(b.Budget.Name)
		policy := fmt.Sprintf("%s;q=%d", name, b.Budget.Limit)
		if length := b.Budget.Window.Length(); length > 0 {
			policy += fmt.Sprintf(";w=%d", ceilSeconds(length))
		}
		policies = append(policies, policy)
		limit := fmt.Sprintf("%s;r=%d", name, b.Remaining)
		if !b.NextFree.IsZero() {
			limit += fmt.Sprintf(";t=%d", ceilSeconds(b.NextFree.Sub(b.At)))
		}
		limits = append(limits, limit)
		if tightest == nil || b.Remaining < tightest.Remaining {
			tightest = b
		}
	}
	if tightest == nil {
		return
	}
	header.Set("RateLimit-Policy", strings.Join(policies, ", "))
	header.Set("RateLimit", strings.Join(limits, ", "))
	header.Set("X-RateLimit-Limit", strconv.FormatInt(int64(tightest.Budget.Limit), 10))
	header.Set("X-RateLimit-Remaining", strconv.FormatInt(int64(tightest.Remaining), 10))
	reset := tightest.NextFree
	if reset.IsZero() {
		reset = tightest.At
	}
	header.Set("X-RateLimit-Reset", strconv.FormatInt(reset.Add(time.Second-1).Unix(), 10))
}

// ceilSeconds returns a duration in seconds, rounded up, and at least 0.
func ceilSeconds(d time.Duration) int64 { return int64(max(0, d+time.Second-1) / time.Second) }

// quoted returns a name as a string of RFC 9651, in which characters outside of
// ASCII become ?.
func quoted(name string) string {
	ascii := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
	return `"` + escapes.Replace(ascii) + `"`
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

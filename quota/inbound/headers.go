package inbound

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Balance is what is left of one limit, as headers say it.
type Balance struct {
	Name      string        // of the limit, such as 60/1m
	Limit     int64         // the most that the window may hold
	Window    time.Duration // its length
	Remaining int64
	At        time.Time // when that remained
	NextFree  time.Time // when more is free, or zero if all is
}

// SetHeaders sets the headers of an answer that tell a client its limits, and
// nothing if there are no balances. Seconds are rounded up:
//
//   - RateLimit-Policy and RateLimit, of draft-ietf-httpapi-ratelimit-headers-10:
//     for each limit its size (q) and its window in seconds (w), what remains
//     (r) and in how many seconds more of it is free (t);
//   - X-RateLimit-Limit, -Remaining and -Reset, which are older, for the limit
//     that has the least left. Reset is in seconds since 1970.
func SetHeaders(header http.Header, balances []Balance) {
	if len(balances) == 0 {
		return
	}
	var policies, limits []string
	tightest := &balances[0]
	for i := range balances {
		b := &balances[i]
		name := strconv.Quote(HeaderText(b.Name)) // a string of RFC 9651
		policies = append(policies, fmt.Sprintf("%s;q=%d;w=%d", name, b.Limit, max(1, ceilSeconds(b.Window))))
		limit := fmt.Sprintf("%s;r=%d", name, b.Remaining)
		if !b.NextFree.IsZero() {
			limit += fmt.Sprintf(";t=%d", ceilSeconds(b.NextFree.Sub(b.At)))
		}
		limits = append(limits, limit)
		if b.Remaining < tightest.Remaining {
			tightest = b
		}
	}
	reset := cmp.Or(tightest.NextFree, tightest.At)
	header.Set("RateLimit-Policy", strings.Join(policies, ", "))
	header.Set("RateLimit", strings.Join(limits, ", "))
	header.Set("X-RateLimit-Limit", strconv.FormatInt(tightest.Limit, 10))
	header.Set("X-RateLimit-Remaining", strconv.FormatInt(tightest.Remaining, 10))
	header.Set("X-RateLimit-Reset", strconv.FormatInt(reset.Add(time.Second-1).Unix(), 10))
}

// RetryAfter returns in how many seconds more is free, rounded up, and at least
// 1: the header Retry-After of a refusal.
func (b *Balance) RetryAfter() int64 { return max(1, ceilSeconds(b.NextFree.Sub(b.At))) }

// ceilSeconds returns a duration in seconds, rounded up, and at least 0.
func ceilSeconds(d time.Duration) int64 { return int64(max(0, d+time.Second-1) / time.Second) }

// HeaderText returns a name as it may stand in a header: characters other than
// printable ASCII become ?.
func HeaderText(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
}

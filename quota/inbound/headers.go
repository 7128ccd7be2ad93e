package inbound

import (
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
//     for each budget its limit (q) and its window in seconds (w), what remains
//     (r) and in how many seconds more of it is free (t);
//   - X-RateLimit-Limit, -Remaining and -Reset, which are older, for the budget
//     that has the least left. Reset is in seconds since 1970.
//
// Amounts are in what the budget counts: units, or calls. Seconds are
// rounded up.
func SetHeaders(header http.Header, balances []quota.Balance) {
	var policies, limits []byte
	var tightest *quota.Balance
	for i := range balances {
		b := &balances[i]
		if i > 0 {
			policies, limits = append(policies, ", "...), append(limits, ", "...)
		}
		name := quoted(b.Budget.Name)
		policies = appendParameter(append(policies, name...), ";q=", int64(b.Limit()))
		policies = appendParameter(policies, ";w=", windowSeconds(b))
		limits = appendParameter(append(limits, name...), ";r=", int64(b.Remaining))
		if !b.NextFree.IsZero() {
			limits = appendParameter(limits, ";t=", ceilSeconds(b.NextFree.Sub(b.At)))
		}
		if tightest == nil || b.Remaining < tightest.Remaining {
			tightest = b
		}
	}
	if tightest == nil {
		return
	}
	header["Ratelimit-Policy"] = []string{string(policies)} // net/http's spelling: case does not matter
	header["Ratelimit"] = []string{string(limits)}
	header["X-Ratelimit-Limit"] = []string{strconv.FormatInt(int64(tightest.Limit()), 10)}
	header["X-Ratelimit-Remaining"] = []string{strconv.FormatInt(int64(tightest.Remaining), 10)}
	reset := tightest.NextFree
	if reset.IsZero() {
		reset = tightest.At
	}
	header["X-Ratelimit-Reset"] = []string{strconv.FormatInt(reset.Add(time.Second-1).Unix(), 10)}
}

func appendParameter(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(append(b, key...), n, 10)
}

// windowSeconds returns the length of a budget's window, or of its present day
// or month. The draft allows no window of less than a second.
func windowSeconds(b *quota.Balance) int64 {
	window := b.Budget.Window
	length := window.Length()
	if window.Kind() == quota.KindDaily {
		day := window.Day(b.At)
		length = day.Opens.Sub(day.Start)
	}
	return max(1, ceilSeconds(length))
}

// ceilSeconds returns a duration in seconds, rounded up, and at least 0.
func ceilSeconds(d time.Duration) int64 { return int64(max(0, d+time.Second-1) / time.Second) }

// HeaderText returns a name as it may stand in a header: characters other than
// those of ASCII become ?.
func HeaderText(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
}

var quotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// quoted returns a name as a string of RFC 9651.
func quoted(name string) string { return `"` + quotes.Replace(HeaderText(name)) + `"` }

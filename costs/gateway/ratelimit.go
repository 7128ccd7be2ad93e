package gateway

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
)

// setRateLimit sets the fields of draft-ietf-httpapi-ratelimit-headers-10 (q: the
// limit, w: the window in seconds, r: what remains, t: seconds until more does),
// and the older X-RateLimit ones for the budget with the least left. Their reset
// is in seconds since 1970. Amounts are in what the budget counts: units, or
// calls.
func setRateLimit(header http.Header, balances []quota.Balance) {
	var policies, limits []string
	var tightest *quota.Balance
	for i := range balances {
		b := &balances[i]
		name := quoted(b.Budget.Name)
		policies = append(policies, fmt.Sprintf("%s;q=%d;w=%d", name, b.Budget.Limit, windowSeconds(b)))
		limit := fmt.Sprintf("%s;r=%d", name, b.Remaining)
		if !b.NextFree.IsZero() {
			limit += fmt.Sprintf(";t=%d", max(0, human.SecondsUntil(b.At, b.NextFree)))
		}
		limits = append(limits, limit)
		if tightest == nil || b.Remaining < tightest.Remaining {
			tightest = b
		}
	}
	if tightest == nil {
		return
	}
	header["Ratelimit-Policy"] = []string{strings.Join(policies, ", ")} // net/http's spelling: case does not matter
	header["Ratelimit"] = []string{strings.Join(limits, ", ")}
	header["X-Ratelimit-Limit"] = []string{strconv.FormatInt(int64(tightest.Budget.Limit), 10)}
	header["X-Ratelimit-Remaining"] = []string{strconv.FormatInt(int64(tightest.Remaining), 10)}
	reset := tightest.NextFree
	if reset.IsZero() {
		reset = tightest.At
	}
	header["X-Ratelimit-Reset"] = []string{strconv.FormatInt(reset.Add(time.Second-1).Unix(), 10)}
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
	return max(1, human.Seconds(length))
}

// headerText returns a name as it may stand in a header: characters other than
// those of ASCII become ?.
func headerText(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
}

var quotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// quoted returns a name as a string of RFC 9651.
func quoted(name string) string {
	return `"` + quotes.Replace(headerText(name)) + `"`
}

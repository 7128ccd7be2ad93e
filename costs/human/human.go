// Package human writes times, durations, counts and names as ration's messages,
// tables and JSON documents do.
package human

import (
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Time writes t in RFC 3339 and UTC, rounded up to a second, so that a caller
// that comes back then is not early. A time later than quota.MaxUnix, the last
// second of the year 9999, is written as that.
func Time(t time.Time) string {
	t = time.Unix(min(t.Add(time.Second-1).Unix(), quota.MaxUnix), 0)
	return t.UTC().Format(time.RFC3339)
}

// far is a duration that is not counted any more: the difference of two times is
// never more than 292 years, however far apart they are.
const far = 290 * 365 * 24 * time.Hour

// Duration writes d rounded up: 250ms, 12s, 3m5s, 3h12m. More than an hour is
// written in minutes, 290 years or more as such, and a negative duration as 0s.
func Duration(d time.Duration) string {
	unit := time.Second
	switch {
	case d >= far:
		return "290 years or more"
	case d <= 0:
		return "0s"
	case d < time.Second:
		unit = time.Millisecond
	case d > time.Hour:
		unit = time.Minute
	}
	return Exactly((d + unit - 1).Truncate(unit))
}

// Exactly writes d without rounding and without its zero units: 5m, not 5m0s.
func Exactly(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Package human writes times, durations, counts and names as ration's messages,
// tables and JSON documents do, and reads durations.
package human

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxUnix is the last second that RFC 3339 can represent, as Unix
// time: 9999-12-31T23:59:59Z.
const MaxUnix = 253402300799

// Time formats t in RFC 3339 and UTC: the second in which t falls, as a clock
// shows it. It is never later than t; JSON documents have t exactly. A time
// later than MaxUnix is written as that.
func Time(t time.Time) string {
	return time.Unix(min(t.Unix(), MaxUnix), 0).UTC().Format(time.RFC3339)
}

// far is the longest duration that Duration spells out. time.Time.Sub saturates
// at 292 years, so a longer one may be wrong.
const far = 290 * 365 * 24 * time.Hour

// Duration formats d rounded up: 250ms, 12s, 3m5s, 3h12m. More than an hour is
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

// Exactly formats d without rounding and without its zero units: 5m, not 5m0s.
func Exactly(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// Cut returns at most n bytes of s, without cutting a character.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// Shorten returns s, or at most n bytes of it and an ellipsis.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Cut(s, n) + "…"
}

// Printable returns s on one line, with what is not printable escaped as in Go,
// so that it is safe on a terminal: control characters, direction marks,
// quotes.
func Printable(s string) string {
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}

// Name returns a name from outside, quoted if it has characters that a terminal
// would obey or not show.
func Name(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// Count writes a number of things: 1 unit, 2 units, 1 entry, 2 entries. thing
// is the singular of a regular English noun.
func Count[N ~int | ~int64](n N, thing string) string {
	switch before, isY := strings.CutSuffix(thing, "y"); {
	case n == 1:
	case isY:
		thing = before + "ies"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

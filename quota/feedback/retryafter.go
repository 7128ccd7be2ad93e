package feedback

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest wait that a Retry-After header can set; longer
// ones are cut to it.
const MaxRetryAfter = 24 * time.Hour

// absurd is longer than any intended wait: a header with a longer one
// is ignored.
const absurd = 366 * 24 * time.Hour

// ParseRetryAfter returns the wait that the Retry-After header of a response
// asks for, from 0 to MaxRetryAfter. The header holds seconds, of which a
// fraction is rounded up, or a date in one of HTTP's three formats, which is
// compared with the response's own Date, so that the host's clock does not
// matter. A date in the past is 0. ok is false if the header is missing,
// repeated, malformed or longer than a year.
func ParseRetryAfter(header http.Header) (after time.Duration, ok bool) {
	date, _ := dateOf(header)
	return retryAfter(header, date)
}

func dateOf(header http.Header) (time.Time, bool) {
	date, err := http.ParseTime(single(header, "Date"))
	return date, err == nil
}

// retryAfter is ParseRetryAfter given the current time on the upstream's clock;
// the zero time is unknown. It also reads the headers in which some upstreams
// send milliseconds.
func retryAfter(header http.Header, now time.Time) (after time.Duration, ok bool) {
	text := single(header, "Retry-After")
	if text == "" {
		for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
			if wait := milliseconds.parse(single(header, name), now); wait >= 0 {
				return min(wait, MaxRetryAfter), true
			}
		}
		return 0, false
	}
	if seconds, ok := wholeSeconds(text); ok {
		if seconds > int64(absurd/time.Second) {
			return 0, false
		}
		return min(time.Duration(seconds)*time.Second, MaxRetryAfter), true
	}
	until, err := http.ParseTime(text)
	if err != nil || now.IsZero() || until.Sub(now) > absurd {
		return 0, false
	}
	return min(max(until.Sub(now), 0), MaxRetryAfter), true
}

// wholeSeconds parses a number of seconds, rounded up: "2.0" is 2, as Shopify
// sends it, and "1.5" too.
func wholeSeconds(text string) (int64, bool) {
	whole, fraction, hasFraction := strings.Cut(text, ".")
	seconds, ok := digits(whole)
	part, isNumber := digits(fraction)
	if hasFraction && !isNumber {
		return 0, false
	}
	if part > 0 {
		seconds = min(seconds, int64(absurd/time.Second)) + 1
	}
	return seconds, ok
}

// single returns the value of a header that occurs once and has at most
// 100 bytes, or "". name is in canonical form, which spares forming it for
// each answer.
func single(header http.Header, name string) string {
	values := header[name]
	if len(values) != 1 || len(values[0]) > 100 {
		return ""
	}
	return strings.Trim(values[0], " \t")
}

func digits(text string) (int64, bool) {
	if text == "" { // most headers are missing, and an error costs more than the rest
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

package feedback

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest wait that a Retry-After header is believed.
const MaxRetryAfter = 24 * time.Hour

// absurd is a wait that nobody means: such a header is not read at all.
const absurd = 366 * 24 * time.Hour

// ParseRetryAfter returns what the Retry-After header of an answer asks for,
// from 0 to MaxRetryAfter: whole seconds, or a date in any of HTTP's three
// forms, taken against the answer's own Date, so that no clock here matters. A
// date that has passed is 0. ok is false without a header, with two, and for
// anything else: signs, fractions, exponents, years.
func ParseRetryAfter(header http.Header) (after time.Duration, ok bool) {
	date, _ := dateOf(header)
	return retryAfter(header, date)
}

// dateOf returns an answer's Date: by the upstream's clock, when it was made.
func dateOf(header http.Header) (time.Time, bool) {
	text, _ := single(header, "Date")
	date, err := http.ParseTime(text)
	return date, err == nil
}

// retryAfter returns what Retry-After asks for, where it is now a time by the
// clock that a date in it is of; zero is unknown. Some upstreams send
// milliseconds in a header of their own.
func retryAfter(header http.Header, now time.Time) (after time.Duration, ok bool) {
	text, ok := single(header, "Retry-After")
	if !ok {
		for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
			text, _ := single(header, name)
			if wait := millis.read(text, now); text != "" && wait >= 0 {
				return min(wait, MaxRetryAfter), true
			}
		}
		return 0, false
	}
	if seconds, ok := digits(text); ok {
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

// single returns the only value of a header, if it has one of a plausible length.
func single(header http.Header, name string) (string, bool) {
	values := header.Values(name)
	if len(values) != 1 || len(values[0]) > 100 {
		return "", false
	}
	text := strings.Trim(values[0], " \t")
	return text, text != ""
}

// digits returns a number that is written with ASCII digits alone.
func digits(text string) (int64, bool) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

package feedback

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// limit is what a response says about one of the upstream's limits.
type limit struct {
	bucket    string        // its name, or empty
	max, left quota.Units   // -1 if unknown
	reset     time.Duration // until all of it is available again, or unknownReset
	daily     bool          // it resets when the upstream's day ends
	leaky     bool          // max is the size of a leaky bucket, which refills steadily
}

// unknownReset is the reset of a limit whose response does not state one.
const unknownReset time.Duration = -1

// unknownLimit is a limit of which only the bucket's name is known.
func unknownLimit(bucket string) limit {
	return limit{bucket: bucket, max: -1, left: -1, reset: unknownReset}
}

// limitHeaders names the headers that describe one limit. An empty name is a
// header that the upstream does not send.
type limitHeaders struct {
	bucket string // the limit's name
	named  string // a header that names it

	max, left, used, reset string
	format                 resetFormat

	pair  string // a header that holds used and max: "18/5000" or "api-usage=18/5000"
	daily bool
	leaky bool
}

// read returns the limit that the headers describe, or none.
func (h limitHeaders) read(res *response) []limit {
	l := unknownLimit(h.bucket)
	l.daily, l.leaky = h.daily, h.leaky
	if h.pair != "" {
		used, most, ok := usedOfMax(res.header, h.pair)
		if !ok {
			return nil
		}
		l.max, l.left = most, max(0, most-used)
		return []limit{l}
	}
	l.max, l.left = amount(res.header, h.max), amount(res.header, h.left)
	used := amount(res.header, h.used)
	switch {
	case used < 0:
	case l.left < 0 && l.max >= 0:
		l.left = max(0, l.max-used)
	case l.left >= 0 && l.max < 0:
		l.max = l.left + used
	}
	if text := single(res.header, h.reset); text != "" {
		l.reset = h.format.parse(text, res.now)
	}
	if text := single(res.header, h.named); text != "" {
		l.bucket = bucketName(text)
	}
	if l.left < 0 && l.reset < 0 {
		return nil
	}
	return []limit{l}
}

// resetFormat is how a header writes the time at which a limit resets.
type resetFormat uint8

const (
	delta        resetFormat = iota // seconds from now: 30
	deltaOrEpoch                    // seconds from now, or a Unix time
	duration                        // a Go duration: 6m0s
	rfc3339                         // a timestamp: 2026-11-20T12:00:00Z
	milliseconds                    // milliseconds from now
)

// minEpoch is the lowest number that deltaOrEpoch takes for a Unix time: as a
// delta it would be more than 30 years.
const minEpoch = 1_000_000_000

// parse returns how long after now the limit resets, at least 0, or
// unknownReset if text is malformed.
func (f resetFormat) parse(text string, now time.Time) time.Duration {
	wait := unknownReset
	switch f {
	case duration:
		if d, err := time.ParseDuration(text); err == nil && d >= 0 {
			wait = d
		}
	case rfc3339:
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			wait = max(0, at.Sub(now))
		}
	default:
		n, ok := digits(text)
		switch {
		case !ok:
		case f == milliseconds && n <= absurd.Milliseconds():
			wait = time.Duration(n) * time.Millisecond
		case f == deltaOrEpoch && n >= minEpoch && n < 10*minEpoch:
			wait = max(0, time.Unix(n, 0).Sub(now))
		case f != milliseconds && n <= int64(absurd/time.Second):
			wait = time.Duration(n) * time.Second
		}
	}
	if wait > absurd {
		return unknownReset
	}
	return wait
}

// amount returns the number in a header, rounded down, or -1. Reddit sends
// numbers with a fraction.
func amount(header http.Header, name string) quota.Units {
	whole, fraction, _ := strings.Cut(single(header, name), ".")
	if _, ok := digits(fraction); !ok && fraction != "" {
		return -1
	}
	return units(whole)
}

// units parses a number of ASCII digits, at most quota.MaxLimit. It returns -1
// for anything else.
func units(text string) quota.Units {
	n, ok := digits(text)
	if !ok || n > int64(quota.MaxLimit) {
		return -1
	}
	return quota.Units(n)
}

// usedOfMax parses the first "used/max" in a header. A name may precede it,
// before an equals sign; what follows a semicolon describes another limit.
func usedOfMax(header http.Header, name string) (used, most quota.Units, ok bool) {
	text, _, _ := strings.Cut(single(header, name), ";")
	if _, value, found := strings.Cut(text, "="); found {
		text = value
	}
	before, after, _ := strings.Cut(strings.TrimSpace(text), "/")
	used, most = units(before), units(after)
	return used, most, used >= 0 && most > 0
}

// untilReset returns how long it is until every limit with nothing left has
// reset. If all have something left, it is not known which one stopped the
// call: it returns the latest reset, and for a SlowDown at most a minute.
func (res *response) untilReset() (wait time.Duration, known bool) {
	_, spent := res.spentLimit()
	for _, l := range res.limits {
		if l.reset != unknownReset && (l.left == 0 || !spent) {
			wait, known = max(wait, l.reset), true
		}
	}
	if !spent && res.class == SlowDown {
		wait = min(wait, defaultWait)
	}
	return wait, known
}

// spentLimit returns the first limit with nothing left.
func (res *response) spentLimit() (limit, bool) {
	for _, l := range res.limits {
		if l.left == 0 {
			return l, true
		}
	}
	return limit{}, false
}

// seconds returns n seconds, rounded up, at most absurd.
func seconds(n float64) time.Duration {
	if !(n > 0) { // NaN too
		return 0
	}
	return time.Duration(min(math.Ceil(n), absurd.Seconds())) * time.Second
}

package feedback

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// limit is what an answer says of one of the upstream's limits.
type limit struct {
	bucket    string        // its name, or empty
	max, left quota.Units   // -1: not said
	reset     time.Duration // until it is whole again, 0 or more, or unknownReset
	day       bool          // it is a day's, and whole again when the upstream's day ends
	leaky     bool          // max is how much a bucket holds that fills all the time
}

// unknownReset is the reset of a limit that the answer does not say.
const unknownReset time.Duration = -1

// headers are the headers that tell of one limit. Empty names are not sent.
type headers struct {
	bucket string // the limit's name
	named  string // a header that names it

	max, left, used, reset string
	clock                  clock

	pair  string // a header such as "18/5000" or "api-usage=18/5000": used and max in one
	day   bool
	leaky bool
}

// read returns the limit that an answer's headers tell of, or none.
func (h headers) read(a *answer) []limit {
	l := limit{bucket: h.bucket, max: -1, left: -1, reset: unknownReset, day: h.day, leaky: h.leaky}
	number := func(name string) quota.Units {
		if name == "" {
			return -1
		}
		return amount(a.header, name)
	}
	if h.pair != "" {
		used, most, ok := pair(a.header, h.pair)
		if !ok {
			return nil
		}
		l.max, l.left = most, max(0, most-used)
		return []limit{l}
	}
	l.max, l.left = number(h.max), number(h.left)
	used := number(h.used)
	switch {
	case l.left < 0 && l.max >= 0 && used >= 0:
		l.left = max(0, l.max-used)
	case l.left >= 0 && l.max < 0 && used >= 0:
		l.max = l.left + used
	}
	if text, ok := single(a.header, h.reset); ok {
		l.reset = h.clock.read(text, a.now)
	}
	if text, ok := single(a.header, h.named); ok {
		l.bucket = bucketName(text)
	}
	if l.left < 0 && l.reset < 0 {
		return nil
	}
	return []limit{l}
}

// clock is how a header writes when a limit is whole again.
type clock uint8

const (
	delta    clock = iota // seconds from now: 30
	either                // that, or an epoch: a delta of 30 years is none
	spelled               // a duration: 6m0s
	rfc3339               // an instant: 2026-11-20T12:00:00Z
	millis                // milliseconds from now
	longTime = 1_000_000_000
)

// read returns how long it is from an instant, from 0 on, or unknownReset for
// what no clock writes.
func (c clock) read(text string, now time.Time) time.Duration {
	wait := unknownReset
	switch c {
	case spelled:
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
		case c == millis && n <= absurd.Milliseconds():
			wait = time.Duration(n) * time.Millisecond
		case c == either && n >= longTime && n < 10*longTime:
			wait = max(0, time.Unix(n, 0).Sub(now))
		case c != millis && n <= int64(absurd/time.Second):
			wait = time.Duration(n) * time.Second
		}
	}
	if wait > absurd {
		return unknownReset
	}
	return wait
}

// amount returns the number of a header, rounded down, or -1: digits, and a
// fraction as Reddit sends it.
func amount(header http.Header, name string) quota.Units {
	text, ok := single(header, name)
	if !ok {
		return -1
	}
	whole, fraction, _ := strings.Cut(text, ".")
	if _, ok := digits("0" + fraction); !ok {
		return -1
	}
	return units(whole)
}

// units returns a number that is written with digits, up to quota.MaxLimit, or -1.
func units(text string) quota.Units {
	n, ok := digits(text)
	if !ok || text == "" || n > int64(quota.MaxLimit) {
		return -1
	}
	return quota.Units(n)
}

// pair returns used and most of a header's first "used/most". What comes
// before an equals sign is a name, what comes after a semicolon is another's.
func pair(header http.Header, name string) (used, most quota.Units, ok bool) {
	text, ok := single(header, name)
	if !ok {
		return 0, 0, false
	}
	text, _, _ = strings.Cut(text, ";")
	if _, value, found := strings.Cut(text, "="); found {
		text = value
	}
	before, after, _ := strings.Cut(strings.TrimSpace(text), "/")
	used, most = units(before), units(after)
	return used, most, used >= 0 && most > 0
}

// reset returns how long it is until the limits are whole again of which
// nothing is left. When all have something left, the one that stopped the call
// is not known: it is the last of them, and for a SlowDown at most a minute.
func (a *answer) reset() (wait time.Duration, said bool) {
	_, spent := a.spent()
	for _, l := range a.limits {
		if l.reset != unknownReset && (l.left == 0 || !spent) {
			wait, said = max(wait, l.reset), true
		}
	}
	if !spent && a.class == SlowDown {
		wait = min(wait, defaultWait)
	}
	return wait, said
}

// spent returns a limit of which nothing is left.
func (a *answer) spent() (limit, bool) {
	for _, l := range a.limits {
		if l.left == 0 {
			return l, true
		}
	}
	return limit{}, false
}

// seconds returns a number of seconds as a duration, at most absurd.
func seconds(n float64) time.Duration {
	if !(n > 0) { // NaN too
		return 0
	}
	return time.Duration(min(math.Ceil(n), absurd.Seconds())) * time.Second
}

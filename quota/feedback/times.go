package feedback

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The longest waits. Whatever a header says, no wait is longer than MaxDate,
// and none is longer than MaxRetryAfter, or the longest window, unless it is a
// date.
const (
	MaxRetryAfter = 24 * time.Hour
	MaxDate       = 31 * 24 * time.Hour
)

// Numbers from minEpoch on are Unix times: as seconds from now they would be
// more than 30 years.
const minEpoch = 1e9

// moment is a time or a wait, as an answer has it.
type moment struct {
	wait time.Duration // from now, at least 0
	date bool          // it was a time, not a wait
	bare bool          // it was a whole number, so that the unit may be another
	far  bool          // it was more than a year ahead, which no limit is
}

// ParseWait reads a time or a wait in any of the forms that upstreams use, and
// returns how long it is from now: numbers of a unit from now ("40", "39.5";
// the unit is a second if it is 0), Unix times in seconds to nanoseconds,
// durations ("40s", "6m0s", "1.5 minutes", "PT1M", "00:00:40"), and timestamps
// of RFC 3339, HTTP, JavaScript and Go. A time in the past is 0. ok is false
// for anything else, and for times that are more than a year ahead.
func ParseWait(text string, now time.Time, unit time.Duration) (wait time.Duration, ok bool) {
	return near(parseMoment(text, func() time.Time { return now }, unit))
}

// wait is ParseWait by the answer's clock.
func (a *answer) wait(text string, unit time.Duration) (wait time.Duration, ok bool) {
	return near(parseMoment(text, a.now, unit))
}

func near(m moment, ok bool) (time.Duration, bool) {
	if !ok || m.far {
		return 0, false
	}
	return m.wait, true
}

// parseMoment asks what time it is only if the text is a time.
func parseMoment(text string, now func() time.Time, unit time.Duration) (m moment, ok bool) {
	const absurd = 366 * 24 * time.Hour
	text = strings.TrimSpace(text)
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		text = strings.Trim(text, " \t\"'")
	}
	if text == "" || len(text) > 100 {
		return m, false
	}
	if n, isNumber := decimal(text); isNumber {
		m, ok = parseNumber(n, now, unit)
		m.bare = ok && !m.date && !strings.Contains(text, ".")
	} else if d, isDuration := parseDuration(text); isDuration {
		m, ok = moment{wait: d}, true
	} else if at, isDate := parseDate(text); isDate && !now().IsZero() {
		m, ok = moment{wait: max(0, at.Sub(now())), date: true}, true
	}
	if m.far = m.wait > absurd; m.far {
		m.wait = absurd
	}
	return m, ok && m.wait >= 0
}

// parseNumber reads a number: a wait in a unit, or a Unix time, whose digits
// tell its unit.
func parseNumber(n float64, now func() time.Time, unit time.Duration) (moment, bool) {
	if n < minEpoch {
		if unit == 0 {
			unit = time.Second
		}
		wait := n * float64(unit)
		return moment{wait: time.Duration(min(wait, float64(1<<62))).Round(time.Microsecond)}, true
	}
	scale := 1.0
	for range 3 {
		if n/scale < 10*minEpoch {
			break
		}
		scale *= 1000
	}
	if n /= scale; n >= 10*minEpoch || n < minEpoch || now().IsZero() {
		return moment{}, false
	}
	at := time.UnixMicro(int64(n * 1e6))
	return moment{wait: max(0, at.Sub(now())), date: true}, true
}

// decimal parses digits with at most one fraction, and nothing else.
func decimal(text string) (float64, bool) {
	whole, fraction, hasFraction := strings.Cut(text, ".")
	if !isDigits(whole) || hasFraction && !isDigits(fraction) {
		return 0, false
	}
	if len(text) <= 15 && !hasFraction {
		n, err := strconv.ParseInt(text, 10, 64)
		return float64(n), err == nil
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}

func isDigits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != "" && len(text) <= 20
}

var (
	durationPart = pattern("duration_part")
	clockForm    = pattern("clock")
	isoDuration  = pattern("iso_duration")
	isoDate      = pattern("iso_date")
)

var isoUnits = [...]time.Duration{7 * day, day, time.Hour, time.Minute, time.Second}

// parseDuration reads "6m0s", "2 minutes, 30 seconds", "PT1M30S", "00:01:30"
// and, with days, "2.00:01:30".
func parseDuration(text string) (sum time.Duration, ok bool) {
	text = strings.ToLower(text)
	parts, units := isoDuration.FindStringSubmatch(text), isoUnits[:]
	if parts == nil || text == "p" || text[len(text)-1] == 't' {
		parts, units = clockForm.FindStringSubmatch(text), isoUnits[1:]
	}
	if parts != nil {
		for i, unit := range units {
			n, _ := decimal(parts[i+1])
			sum += time.Duration(n * float64(unit))
		}
		return sum, true
	}
	for text != "" {
		part := durationPart.FindStringSubmatch(text)
		if part == nil {
			return 0, false
		}
		unit, known := unitNamed(part[2])
		n, _ := decimal(part[1])
		if !known || n*float64(unit) > float64(1<<61) {
			return 0, false
		}
		sum += time.Duration(n * float64(unit))
		text = text[len(part[0]):]
		ok = true
	}
	return sum, ok && sum >= 0
}

const (
	day   = 24 * time.Hour
	month = 30 * day
)

// unitNamed returns the unit of a word: s, secs, seconds.
func unitNamed(word string) (time.Duration, bool) {
	if len(word) > 2 {
		word = strings.TrimSuffix(word, "s")
	}
	unit, ok := common.Units[word]
	return unit, ok
}

// dateForms are the layouts of timestamps, after parseDate has removed what
// they vary in. Those without a zone are in UTC.
var dateForms = []string{
	time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05.999999999Z0700",
	"2006-01-02T15:04:05.999999999", "2006-01-02T15:04", time.DateOnly,
	time.RFC1123Z, "Mon Jan 02 2006 15:04:05 GMT-0700", "Mon, 2 Jan 2006 15:04:05 MST",
	"Mon Jan _2 15:04:05 MST 2006", "Jan 2, 2006 15:04:05",
}

func parseDate(text string) (time.Time, bool) {
	if at, err := http.ParseTime(text); err == nil {
		return at, true
	}
	if end := strings.Index(text, " ("); end > 0 { // (Coordinated Universal Time)
		text = text[:end]
	}
	if parts := isoDate.FindStringSubmatch(text); parts != nil {
		zone := parts[3]
		if zone == "" || zone[0] != '+' && zone[0] != '-' {
			zone = "Z"
		}
		text = parts[1] + "T" + parts[2] + zone
	}
	for _, form := range dateForms {
		if at, err := time.Parse(form, text); err == nil {
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

// unitOf is the unit that In names; perSecond says that the number is a rate.
func unitOf(in string) (unit time.Duration, perSecond, ok bool) {
	if in == "" {
		return 0, false, true
	}
	if word, isRate := strings.CutPrefix(in, "per "); isRate {
		unit, ok = unitNamed(word)
		return unit, true, ok
	}
	unit, ok = unitNamed(in)
	return unit, false, ok
}

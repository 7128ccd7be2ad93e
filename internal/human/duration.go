// This file parses durations in files and on the command line, so that
// all places accept the same ones.

package human

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ErrDuration is wrapped by the errors of Parse and ParseSeconds.
var ErrDuration = errors.New("not a duration")

// maxShown is how much of a text an error quotes.
const maxShown = 60

// ParseDuration parses a duration such as 500ms, 30s, 10m, 24h, 7d or 1d12h.
// The units are those of time.ParseDuration and d, which is 24 hours and comes
// first. A sign is an error, and so is a number without a unit, except 0.
// Errors wrap ErrSyntax.
func ParseDuration(text string) (time.Duration, error) {
	d, ok := parse(text)
	if !ok {
		return 0, fmt.Errorf("%q is %s%w; write a number and a unit, such as 30s, 10m, 24h or 7d",
			Shorten(text, maxShown), note(text, parse), ErrDuration)
	}
	return d, nil
}

// ParseSeconds is like Parse, but a number without a unit, such as 5 or 0.5,
// counts seconds.
func ParseSeconds(text string) (time.Duration, error) {
	d, ok := parseSeconds(text)
	if !ok {
		return 0,
			fmt.Errorf("%q is %s%w; write seconds, such as 30, or a number and a unit, such as 30s, 10m, 24h or 7d",
				Shorten(text, maxShown), note(text, parseSeconds), ErrDuration)
	}
	return d, nil
}

// note says of a text that would be a duration without its minus, or with
// smaller numbers, that it is negative or too long. It is empty for others.
func note(text string, parse func(string) (time.Duration, bool)) string {
	positive, isNegative := strings.CutPrefix(text, "-")
	if _, ok := parseSeconds(positive); isNegative && ok {
		return "negative, and "
	}
	if _, ok := parse(digits.ReplaceAllString(text, "1")); ok {
		return "too long, and "
	}
	return ""
}

// digits matches each run of digits.
var digits = regexp.MustCompile(`[0-9]+`)

func parseSeconds(text string) (time.Duration, bool) {
	if number(text) {
		text += "s"
	}
	return parse(text)
}

func parse(text string) (time.Duration, bool) {
	if text == "" || text[0] < '0' || text[0] > '9' { // a sign, or .5s
		return 0, false
	}
	var days time.Duration
	if before, rest, found := strings.Cut(text, "d"); found {
		if !number(before) {
			return 0, false
		}
		hours, err := time.ParseDuration(before + "h")
		if err != nil || hours > math.MaxInt64/24 {
			return 0, false
		}
		if days, text = 24*hours, rest; text == "" {
			return days, true
		}
		if text[0] < '0' || text[0] > '9' || number(text) {
			return 0, false
		}
	}
	rest, err := time.ParseDuration(text)
	if err != nil || rest > math.MaxInt64-days {
		return 0, false
	}
	return days + rest, true
}

// number reports whether text is a plain decimal number: 5, 0.5.
func number(text string) bool {
	hasOther := strings.Trim(text, "0123456789.") != ""
	if hasOther || strings.HasPrefix(text, ".") || strings.HasSuffix(text, ".") {
		return false
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}

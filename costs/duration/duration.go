// Package duration parses durations in files and on the command line, so that
// all places accept the same ones.
package duration

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/textfmt"
)

// ErrSyntax is wrapped by the errors of Parse and ParseSeconds.
var ErrSyntax = errors.New("not a duration")

// maxShown is how much of a text an error quotes.
const maxShown = 60

// Parse parses a duration such as 500ms, 30s, 10m, 24h, 7d or 1d12h. The
// units are those of time.ParseDuration and d, which is 24 hours and comes
// first. A sign is an error, and so is a number without a unit, except 0.
// Errors wrap ErrSyntax.
func Parse(text string) (time.Duration, error) {
	d, ok := parse(text)
	if !ok {
		return 0, fmt.Errorf("%q is %s%w; write a number and a unit, such as 30s, 10m, 24h or 7d", textfmt.Shorten(text, maxShown), signNote(text), ErrSyntax)
	}
	return d, nil
}

// ParseSeconds is like Parse, but a number without a unit, such as 5 or 0.5,
// counts seconds.
func ParseSeconds(text string) (time.Duration, error) {
	if number(text) {
		text += "s"
	}
	d, ok := parse(text)
	if !ok {
		return 0, fmt.Errorf("%q is %s%w; write seconds, such as 30, or a number and a unit, such as 30s, 10m, 24h or 7d", textfmt.Shorten(text, maxShown), signNote(text), ErrSyntax)
	}
	return d, nil
}

// signNote says of a text that would be a duration without its minus that it is
// negative, and is empty for others.
func signNote(text string) string {
	positive, isNegative := strings.CutPrefix(text, "-")
	_, ok := parse(positive)
	if isNegative && (ok || number(positive)) {
		return "negative, and "
	}
	return ""
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

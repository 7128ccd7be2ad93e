package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/human"
)

// ParseTime reads the time that a flag gives: RFC 3339, from 1970 to the end of
// a year in UTC.
func ParseTime(flag, text string, last int) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, &Error{fmt.Errorf("%s %q: write a time such as 2026-11-20T09:00:00Z", flag, text)}
	}
	if year := t.UTC().Year(); year < 1970 || year > last {
		return t,
			&Error{fmt.Errorf("%s %q: in UTC its year is %d; write a time from 1970 to %d, such as "+
				"2026-11-20T09:00:00Z", flag, text, year, last)}
	}
	return t, nil
}

// CooldownEnd checks --for and --until of a cooldown, one of which says how
// long it lasts. It returns the time of --until, which is zero for reset and
// with --for.
func CooldownEnd(length time.Duration, hasLength bool, until string) (at time.Time, err error) {
	switch {
	case hasLength && until != "":
		return at, &Error{errors.New("--for and --until: give one of them")}
	case hasLength && length == 0:
		return at, &Error{errors.New("--for 0: give more than 0, such as 10m")}
	case !hasLength && until == "":
		return at, &Error{errors.New("say how long: --for 10m, --until a time, or --until reset")}
	case until == "" || until == untilReset:
		return at, nil
	}
	if at, err = ParseTime("--until", until, LastYear); err != nil {
		return at, &Error{fmt.Errorf("%w, or reset", err)}
	}
	return at, nil
}

// untilReset is what --until accepts besides a time.
const untilReset = "reset"

// The last years that flags may give: of a time that is only compared and
// shown, and of one from which windows are counted on.
const (
	LastYear    = 9999
	LastNowYear = 9900
)

// ParseMoment reads the time that a flag gives: how long ago, a day of UTC,
// such as 2026-11-20, yesterday or today, or a time. It is zero for "" and 0.
func ParseMoment(flag, text string, now time.Time) (at time.Time, err error) {
	if text == "" {
		return at, nil
	}
	switch today := now.UTC().Truncate(24 * time.Hour); text {
	case "today":
		return today, nil
	case "yesterday":
		return today.AddDate(0, 0, -1), nil
	}
	if length, err := human.ParseDuration(text); err == nil {
		if length > 0 {
			if at = now.Add(-length); at.Unix() < 0 {
				at = time.Unix(0, 0)
			}
		}
		return at, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return ParseTime(flag, day.Format(time.RFC3339), LastYear)
	}
	if _, err := time.Parse(time.RFC3339, text); err != nil {
		return at,
			&Error{fmt.Errorf("%s %q: write how long, such as 24h or 7d, a day such as 2026-11-20 or yesterday, "+
				"which begins at midnight UTC, or a time such as 2026-11-20T09:00:00Z", flag, text)}
	}
	return ParseTime(flag, text, LastYear)
}

// TimeOrZero returns the time at t, or the zero time for null.
func TimeOrZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

package main

import (
	"fmt"
	"time"
)

// parseTime reads the time that a flag gives: RFC 3339, from 1970 to the end of
// a year in UTC.
func parseTime(flag, text string, last int) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, &usageError{fmt.Errorf("%s %q: write a time such as 2026-11-20T09:00:00Z", flag, text)}
	}
	if year := t.UTC().Year(); year < 1970 || year > last {
		return t, &usageError{fmt.Errorf("%s %q: in UTC its year is %d; write a time from 1970 to %d, such as 2026-11-20T09:00:00Z", flag, text, year, last)}
	}
	return t, nil
}

// The last years that flags may give: of a time that is only compared and
// shown, and of one from which windows are counted on.
const (
	lastYear    = 9999
	lastNowYear = 9900
)

// setNow makes the time that --at gives the present time of the command; "" is
// the clock's.
func (a *app) setNow(at string) error {
	if at == "" {
		return nil
	}
	now, err := parseTime("--at", at, lastNowYear)
	if err == nil {
		a.now, a.fixed, a.elsewhen = func() time.Time { return now }, true, true
	}
	return err
}

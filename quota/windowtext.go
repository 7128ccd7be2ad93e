package quota

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

// LimitText says what a limit of the budget is: 20, +1 per 60s of a bucket, 10
// in flight, and otherwise the number alone.
func (b *Budget) LimitText(limit Units) string {
	w, number := b.Window, b.Measure.Number(limit)
	switch unit := w.UnitTime(); w.Kind() {
	case engine.Bucket:
		rate := strconv.FormatFloat(float64(w.is.Restore)/(float64(w.is.Every)/1e6), 'g', 4, 64) + " per s"
		if unit > time.Second {
			rate = "1 per " + strconv.FormatFloat(unit.Seconds(), 'g', 4, 64) + "s"
		}
		return number + ", +" + rate
	case engine.InFlight:
		return number + " in flight"
	}
	return number
}

// String returns the window as it is written in costs.yaml: 24h, {sliding: 2s,
// margin: 20ms}, {day: America/Los_Angeles}, {month: UTC, from: 12}, {every:
// 15m}, {bucket: {restore: 50/s}} or {in_flight: 2m}.
func (w Window) String() string {
	length := human.Exactly(micros(w.is.Length))
	switch w.is.Kind {
	case engine.Sliding:
		if w.Margin() != w.ArrivalMargin() {
			return "{sliding: " + length + ", margin: " + human.Exactly(w.Margin()) + "}"
		}
		return length
	case engine.Calendar:
		return w.calendarText()
	case engine.Bucket:
		if w.Margin() != w.ArrivalMargin() {
			return "{bucket: {restore: " + w.Rate() + "}, margin: " + human.Exactly(w.Margin()) + "}"
		}
		return "{bucket: {restore: " + w.Rate() + "}}"
	case engine.InFlight:
		return "{in_flight: " + length + "}"
	}
	return "none"
}

// Words returns the window in words: 24 hours, sliding; day in Los Angeles;
// month in UTC from day 12, 06:00; steps of 15 minutes; refilled at 50/s; in
// flight.
func (w Window) Words() string {
	switch w.is.Kind {
	case engine.Sliding:
		return lengthWords(micros(w.is.Length)) + ", sliding"
	case engine.Bucket:
		return "refilled at " + w.Rate()
	case engine.InFlight:
		return "in flight"
	}
	zone := w.is.Zone.String()
	unit, from := "day", []string{}
	switch w.is.Unit {
	case engine.Weeks:
		unit = "week"
		if w.is.First != int(time.Monday) {
			from = append(from, time.Weekday(w.is.First).String())
		}
	case engine.Months:
		unit = "month"
		if w.is.First > 1 {
			from = append(from, "day "+strconv.Itoa(w.is.First))
		}
	case engine.Steps:
		return "steps of " + lengthWords(micros(w.is.Length))
	}
	if start := micros(w.is.Start); start > 0 {
		from = append(from, fmt.Sprintf("%02d:%02d", start/time.Hour, start%time.Hour/time.Minute))
	}
	text := unit + " in " + strings.ReplaceAll(zone[strings.LastIndexByte(zone, '/')+1:], "_", " ")
	if len(from) > 0 {
		text += " from " + strings.Join(from, ", ")
	}
	return text
}

// lengthWords returns a length in words: 24 hours.
func lengthWords(d time.Duration) string {
	for _, unit := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if d%unit.of == 0 && (d > unit.of || unit.of < 24*time.Hour) {
			return human.Count(int64(d/unit.of), unit.name)
		}
	}
	return human.Exactly(d)
}

// Rate returns how fast a bucket refills, such as 50/s or 3/2m.
func (w Window) Rate() string {
	in := human.Exactly(micros(w.is.Every))
	for _, unit := range [...]string{"s", "m", "h"} {
		if in == "1"+unit {
			in = unit
		}
	}
	return strconv.FormatInt(w.is.Restore, 10) + "/" + in
}

func (w Window) calendarText() string {
	more, zone := "", w.is.Zone.String()
	if w.is.Unit == engine.Weeks && w.is.First != int(time.Monday) {
		more = ", from: " + strings.ToLower(time.Weekday(w.is.First).String())
	}
	if w.is.Unit == engine.Months && w.is.First > 1 {
		more = ", from: " + strconv.Itoa(w.is.First)
	}
	if at := micros(w.is.Start); at > 0 {
		more += fmt.Sprintf(", at: %q", fmt.Sprintf("%02d:%02d", at/time.Hour, at%time.Hour/time.Minute))
	}
	switch w.is.Unit {
	case engine.Weeks:
		return "{week: " + zone + more + "}"
	case engine.Months:
		return "{month: " + zone + more + "}"
	case engine.Steps:
		if length := micros(w.is.Length); length != time.Hour {
			return "{every: " + human.Exactly(length) + "}"
		}
		return "{hour: " + zone + "}"
	}
	return "{day: " + zone + more + "}"
}

func (w Window) check() error {
	length := micros(w.is.Length)
	if w.is.Kind == engine.Sliding && (length < time.Millisecond || length > MaxHistory) {
		return fmt.Errorf("a window of %s; set it to 1ms to 400 days, in whole microseconds", length)
	}
	if w.is.Margin < 0 || w.Margin() > time.Hour {
		return fmt.Errorf("a margin of %s, or a length in parts of a microsecond; set the margin to 0 to 1h, and "+
			"both in whole microseconds", w.Margin())
	}
	switch w.is.Kind {
	case engine.Sliding:
		return nil
	case engine.Calendar:
		return w.checkCalendar()
	case engine.Bucket:
		isRestore, in := 1 <= w.is.Restore && w.is.Restore <= int64(MaxUnits), micros(w.is.Every)
		if !isRestore || in < time.Millisecond || in > MaxHistory {
			return fmt.Errorf("a bucket that restores %s; restore 1 to %d units in 1ms to 400 days", w.Rate(), MaxUnits)
		}
		return nil
	case engine.InFlight:
		if length < time.Second || length > 24*time.Hour {
			return fmt.Errorf("a lease of %s; set it to 1s to 24h", length)
		}
		return nil
	}
	return fmt.Errorf("no window; set one with quota.Sliding, Daily, Bucket or another function")
}

func (w Window) checkCalendar() error {
	at, length := micros(w.is.Start), micros(w.is.Length)
	switch isStep := w.is.Unit == engine.Steps; {
	case w.is.Zone == nil:
		return fmt.Errorf("a calendar window without a zone; pass one, such as time.UTC")
	case at < 0 || at >= 24*time.Hour || at%time.Minute != 0:
		return fmt.Errorf("a calendar window that begins at %s; pass a time of day in whole minutes", at)
	case isStep && !isStepLength(length):
		return fmt.Errorf("a window of every %s on the clock; set it to 1s to 12h, a whole part of a day", length)
	case isStep && w.Margin() > length/4:
		return fmt.Errorf("a margin of %s in a window of every %s; set it to a quarter at most", w.Margin(), length)
	case w.is.Unit == engine.Weeks && (w.is.First < 0 || w.is.First > 6):
		return fmt.Errorf("a week that begins on day %d; pass time.Sunday to time.Saturday", w.is.First)
	case w.is.Unit == engine.Months && (w.is.First < 1 || w.is.First > 28):
		return fmt.Errorf("a month that begins on day %d; pass 1 to 28", w.is.First)
	}
	return nil
}

// isStepLength reports whether a day has a whole number of steps.
func isStepLength(length time.Duration) bool {
	return time.Second <= length && length <= 12*time.Hour && (24*time.Hour)%length == 0
}

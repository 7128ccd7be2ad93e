package feedback_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/quota/feedback"
)

// readTimes are the forms in which upstreams write a time or a wait, each 40 s
// after noon on 2026-11-20 unless it says otherwise.
var readTimes = []struct {
	text string
	unit time.Duration
	want time.Duration
}{
	{"40", 0, 40 * time.Second}, {" 40\t", 0, 40 * time.Second}, {`"40"`, 0, 40 * time.Second}, {"0", 0, 0},
	{"007", 0, 7 * time.Second},
	{"39.5", 0, 39500 * time.Millisecond}, {"2.0", 0, 2 * time.Second},
	{"40000", time.Millisecond, 40 * time.Second}, {"2", time.Minute, 2 * time.Minute},
	{"1795176040", 0, 40 * time.Second}, {"1795176040.500", 0, 40500 * time.Millisecond},
	{"1795176040000", 0, 40 * time.Second},
	{"1795176040000000", 0, 40 * time.Second}, {"1795176040000000000", 0, 40 * time.Second}, {"1795175000", 0, 0},
	{"40s", 0, 40 * time.Second}, {"6m0s", 0, 6 * time.Minute}, {"120ms", 0, 120 * time.Millisecond},
	{"7.66s", 0, 7660 * time.Millisecond}, {"1h2m3s", 0, time.Hour + 2*time.Minute + 3*time.Second},
	{"40 seconds", 0, 40 * time.Second}, {"1 minute", 0, time.Minute},
	{"2 hours, 30 minutes", 0, 2*time.Hour + 30*time.Minute}, {"1 day", 0, 24 * time.Hour},
	{"40 SEC", 0, 40 * time.Second},
	{"PT40S", 0, 40 * time.Second}, {"PT1M", 0, time.Minute}, {"P1DT2H", 0, 26 * time.Hour},
	{"PT0.5S", 0, 500 * time.Millisecond},
	{"00:00:40", 0, 40 * time.Second}, {"01:00:00", 0, time.Hour},
	{"2.01:00:00", 0, 49 * time.Hour},
	{"2026-11-20T12:00:40Z", 0, 40 * time.Second}, {"2026-11-20T12:00:40.250Z", 0, 40250 * time.Millisecond},
	{"2026-11-20T13:00:40+01:00", 0, 40 * time.Second},
	{"2026-11-20T13:00:40+0100", 0, 40 * time.Second}, {"2026-11-20T12:01Z", 0, time.Minute},
	{"2026-11-20T12:00:40", 0, 40 * time.Second},
	{"2026-11-20 12:00:40 UTC", 0, 40 * time.Second}, {"2026-11-20 12:00:40", 0, 40 * time.Second},
	{"2026-11-20 12:00:40 +0000 UTC", 0, 40 * time.Second}, {"2026-11-21 at 00:00 UTC", 0, 12 * time.Hour},
	{"2026-11-21", 0, 12 * time.Hour},
	{"Fri, 20 Nov 2026 12:00:40 GMT", 0, 40 * time.Second}, {"Friday, 20-Nov-26 12:00:40 GMT", 0, 40 * time.Second},
	{"Fri Nov 20 12:00:40 2026", 0, 40 * time.Second},
	{"Fri, 20 Nov 2026 12:00:40 +0000", 0, 40 * time.Second},
	{"Fri Nov 20 2026 12:00:40 GMT+0000 (Coordinated Universal Time)", 0, 40 * time.Second},
	{"Fri, 20 Nov 2026 11:00:00 GMT", 0, 0},
}

// unreadTimes are no times, or too far ahead.
var unreadTimes = []string{"", " ", "-1", "+1", "1.", ".5", "1.5.0", "1e3", "0x10", "NaN", "Infinity", "1_0", "٣",
	"60, 120", "soon", "-6m0s", "P", "PT", "40 parsecs", "99:99:99",
	"999999999", "40000000000", "99999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "2999-01-01", "400 days"}

func TestTimesAreReadInEveryForm(t *testing.T) {
	now := at(noon)
	for _, c := range readTimes {
		if got, ok := feedback.ParseWait(c.text, now, c.unit); !ok || got != c.want {
			t.Errorf("%q: %s, %v; want %s", c.text, got, ok, c.want)
		}
	}
	for _, text := range unreadTimes {
		if got, ok := feedback.ParseWait(text, now, 0); ok {
			t.Errorf("%q: %s; want none", text, got)
		}
	}
}

// FuzzParseWait: a wait is never negative and never longer than a year.
func FuzzParseWait(f *testing.F) {
	for _, c := range readTimes {
		f.Add(c.text, int64(c.unit))
	}
	for _, text := range unreadTimes {
		f.Add(text, int64(0))
	}
	now := at(noon)
	f.Fuzz(func(t *testing.T, text string, unit int64) {
		if unit < 0 || unit > int64(24*time.Hour) {
			return
		}
		got, ok := feedback.ParseWait(text, now, time.Duration(unit))
		if got < 0 || got > 366*24*time.Hour || !ok && got != 0 {
			t.Errorf("%q: %s, %v", text, got, ok)
		}
	})
}

package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/human"
)

// TestTimesOfAnotherYearShowTheirYear checks what tables print around New
// Year's Eve; synctest's clock starts in 2000.
func TestTimesOfAnotherYearShowTheirYear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pacific, err := time.LoadLocation("America/Los_Angeles")
		if err != nil {
			t.Fatal(err)
		}
		for at, want := range map[time.Time]string{
			{}: "-",
			time.Date(2000, 11, 20, 12, 0, 0, 0, time.UTC):   "11-20 12:00:00Z",
			time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC):      "2001-01-01 00:00:00Z",
			time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC): "1999-12-31 23:59:59Z",
			time.Date(2000, 12, 31, 20, 0, 0, 0, pacific):    "2001-01-01 04:00:00Z",
		} {
			if got := (&app{now: time.Now}).clock(at); got != want {
				t.Errorf("%s is shown as %s; want %s", at, got, want)
			}
		}
		local := time.Date(2000, 1, 15, 20, 0, 0, 0, pacific) // the bubble's own year there is still 1999
		if got := human.Dated(local, time.Now(), "Mon 01-02 15:04 MST"); got != "Sat 2000-01-15 20:00 PST" {
			t.Errorf("a local time is shown as %s", got)
		}
	})
}

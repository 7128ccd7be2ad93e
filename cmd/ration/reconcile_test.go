package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestNothingIsEnteredBetweenDays: within the margins of a boundary a correction
// would count into both days.
func TestNothingIsEnteredBetweenDays(t *testing.T) {
	for _, c := range []struct {
		window quota.Window
		at     string
		says   string // empty: it may be entered
	}{
		{quota.Daily(time.UTC), "2026-11-20T23:59:29Z", ""},
		{quota.Daily(time.UTC), "2026-11-20T23:59:30Z", "day begins anew, and what is entered now would count into both its windows; go on at 2026-11-21T00:00:30Z (in 1m)"},
		{quota.Daily(time.UTC), "2026-11-21T00:00:29Z", "go on at 2026-11-21T00:00:30Z (in 1s)"},
		{quota.Daily(time.UTC), "2026-11-21T00:00:30Z", ""},
		{quota.Monthly(time.UTC), "2026-11-20T23:59:59Z", ""},
		{quota.Monthly(time.UTC).WithMargin(time.Hour), "2026-11-30T23:00:00Z", "go on at 2026-12-01T01:00:00Z (in 2h)"},
		{quota.Daily(time.UTC).WithMargin(0), "2026-11-21T00:00:00Z", ""},
		{quota.Sliding(time.Hour), "2026-11-21T00:00:00Z", ""},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		got := betweenDays(&quota.Budget{Name: "day", Window: c.window}, at)
		if (got == nil) != (c.says == "") || got != nil && (!strings.HasSuffix(got.Error(), c.says) || !errors.Is(got, quota.ErrRefused)) {
			t.Errorf("%s at %s: %v; want %q", c.window, c.at, got, c.says)
		}
	}
}

// TestDrift tells what was found missing from calls, and from what is neither.
func TestDrift(t *testing.T) {
	for _, c := range []struct {
		job, lane    string
		units, calls quota.Units
		want         string
	}{
		{"-", "upstream", 70, 0, byUpstream},
		{"-", "upstream", 0, 1, byUpstream}, // of a budget that counts calls
		{"trending", "upstream", 1, 1, ""},  // somebody's own lane
		{"reconcile", "manual", 70, 0, byHand},
		{"reconcile", "manual", 0, 1, byHand},
		{"reconcile", "manual", 1, 1, ""},
		{"cooldown:youtube", "manual", 0, 0, ""},
		{"trending", "cron", 1, 1, ""},
		{"trending", "cron", 9, 0, ""}, // added to an earlier call
		{"trending", "cron", 0, 1, ""}, // a 304 that is free
	} {
		if got := drift(c.job, c.lane, c.units, c.calls); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

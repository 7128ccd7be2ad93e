package quota_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

type floors = map[string]quota.Units

func regional(region string, units quota.Units) quota.Call {
	c := call("search.list", units)
	c.Caller.Region = region
	return c
}

func TestFloorsAreChecked(t *testing.T) {
	daily := quota.Daily(time.UTC)
	for _, c := range []struct {
		name    string
		window  quota.Window
		floor   floors
		until   time.Duration
		regions []string
		want    string // empty: accepted
	}{
		{"none", daily, nil, 0, nil, ""},
		{"the whole limit", daily, floors{"IN": 60, "BR": 40}, 0, nil, ""},
		{"more than the limit", daily, floors{"IN": 60, "BR": 41}, 0, nil,
			"floors of 101 together, above the limit of 100"},
		{"nothing", daily, floors{"IN": 0}, 0, nil, `a floor of 0 for "IN"`},
		{"less than nothing", daily, floors{"IN": -1, "BR": 101}, 0, nil, `a floor of -1 for "IN"`},
		{"so much that sums overflow", daily, floors{"IN": 1 << 62, "BR": 1 << 62, "DE": 1 << 62}, 0, nil,
			"a floor of 4611686018427387904"},
		{"no region", daily, floors{"": 1}, 0, nil, "a floor without a region"},
		{"a region of the budget", daily, floors{"IN": 1}, 0, []string{"IN", "BR"}, ""},
		{"a region of another", daily, floors{"US": 1}, 0, []string{"IN", "BR"},
			`a floor for "US", which the budget does not cover`},
		{"sliding", quota.Sliding(time.Hour), floors{"IN": 1}, 0, nil, ""},
		{"until", daily, floors{"IN": 1}, 2 * time.Hour, nil, ""},
		{"until, in a month", quota.Monthly(time.UTC), floors{"IN": 1}, 48 * time.Hour, nil, ""},
		{"until, sliding", quota.Sliding(time.Hour), floors{"IN": 1}, time.Minute, nil,
			"floors that end 1m before the window does"},
		{"until without floors", daily, nil, time.Hour, nil, "floors that end 1h before the window does"},
		{"until after the end", daily, floors{"IN": 1}, -time.Hour, nil, "floors that end -1h"},
		{"until before the day", daily, floors{"IN": 1}, 24 * time.Hour, nil, "less than 22h29m"},
		{"until the day's shortest", daily, floors{"IN": 1}, 22*time.Hour + 29*time.Minute, nil, "less than 22h29m"},
		{"until just less", daily, floors{"IN": 1}, 22*time.Hour + 29*time.Minute - time.Microsecond, nil, ""},
		{"until in nanoseconds", daily, floors{"IN": 1}, time.Hour + 1, nil, "whole microseconds"},
	} {
		_, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{{Account: account, Name: "day", Limit: 100,
			Window: c.window, Regions: c.regions, Floor: c.floor, FloorUntil: c.until}}, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
	many := budget("day", 1000, time.Hour)
	many.Floor = floors{}
	for i := range quota.MaxCoverages { // and the budget's own
		many.Floor[fmt.Sprint(i)] = 1
	}
	if _, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{many}, nil); err == nil ||
		!strings.Contains(err.Error(), "65 different coverages; have at most 64, floors included") {
		t.Errorf("64 floors: %v", err)
	}
}

// TestAFloorIsLeftForItsRegion spends a budget from regions with and without a
// floor, and checks what is left for each.
func TestAFloorIsLeftForItsRegion(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	day := quota.Budget{Account: account, Name: "youtube", Limit: 1000, Window: quota.Daily(time.UTC),
		Floor: floors{"IN": 400, "BR": 100}, FloorUntil: 2 * time.Hour}
	hour := budget("hour", 900, time.Hour)
	hour.Floor = floors{"IN": 400}
	guard := newGuard(t, &memledger.Options{Now: clock.Now}, day, hour)
	ctx := t.Context()
	spend := func(region string, units quota.Units, want string) {
		t.Helper()
		_, err := guard.Spend(ctx, regional(region, units))
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%d from %q:\ngot  %s\nwant %s", units, region, got, want)
		}
	}
	spend("US", 300, "<nil>")
	spend("", 201,
		"youtube has 200 of 1000 units left (500 reserved for other regions), search.list needs 201; try again at "+
			"2026-11-20T21:59:30Z (in 10h)")
	spend("US", 501,
		"hour allows 900 units and keeps 400 of them for other regions, search.list needs 501 and never fits; lower "+
			"its cost or the floors, or raise the limit")
	spend("IN", 500, "<nil>")
	spend("IN", 101,
		"youtube has 100 of 1000 units left (100 reserved for other regions), search.list needs 101; try again at "+
			"2026-11-20T21:59:30Z (in 10h)")
	covering := guard.Covering(regional("IN", 1))
	if len(covering) != 2 || covering[0].Floor["BR"] != 100 {
		t.Errorf("covering %+v; want both budgets with all their floors", covering)
	}
	for _, at := range []struct {
		hour    int
		youtube []quota.FloorBalance
	}{{12, []quota.FloorBalance{{"BR", 100, 0, 100}, {"IN", 400, 500, 0}}},
		{22, []quota.FloorBalance{{"BR", 100, 0, 0}, {"IN", 400, 500, 0}}}} {
		clock.Set(time.Date(2026, 11, 20, at.hour, 0, 0, 0, time.UTC))
		balances, err := guard.Balances(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if b := balances[0]; b.Used != 800 || b.Remaining != 200 || !slices.Equal(b.Floors, at.youtube) {
			t.Errorf("at %d h %+v; want 800 used, and floors %+v", at.hour, b, at.youtube)
		}
		if b := balances[1]; len(b.Floors) != 1 || b.Floors[0].Region != "IN" || b.Used > 0 != (at.hour == 12) {
			t.Errorf("at %d h %+v; want one floor of its own", at.hour, b)
		}
	}
	spend("US", 200, "<nil>")
}

// TestRefusalsAreCachedPerRegion: a cached refusal is valid for its region
// only, and until the region returns units.
func TestRefusalsAreCachedPerRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asks := false // the ledger
		ledger := testledger.Before(memledger.Open(nil), func(string) error { asks = true; return nil })
		day := budget("day", 10, time.Minute)
		day.Floor = floors{"IN": 4, "BR": 2}
		guard, err := quota.NewGuard(ledger, []quota.Budget{day}, nil)
		if err != nil {
			t.Fatal(err)
		}
		spend := func(region string, units quota.Units, granted, wantAsks bool) *quota.Grant {
			t.Helper()
			asks = false
			grant, err := guard.Spend(t.Context(), regional(region, units))
			if (err == nil) != granted || !granted && !errors.Is(err, quota.ErrRefused) || asks != wantAsks {
				t.Fatalf("%d from %s: %v, asked %t; want granted %t", units, region, err, asks, granted)
			}
			return grant
		}
		spend("US", 4, true, true)
		spend("US", 1, false, true)
		spend("US", 1, false, false)
		spend("IN", 1, true, true)
		spend("US", 1, false, false) // what others spend of their floors frees nothing
		grant := spend("IN", 3, true, true)
		spend("IN", 1, false, true)
		spend("IN", 1, false, false)
		if err := grant.Refund(t.Context()); err != nil {
			t.Fatal(err)
		}
		spend("US", 1, false, true) // it is India's
		spend("IN", 3, true, true)
	})
}

// TestNoRegionWaitsBehindAnother lets one region wait for a budget with a floor
// for another.
func TestNoRegionWaitsBehindAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		day := budget("day", 10, time.Minute)
		day.Floor = floors{"IN": 4}
		guard := newGuard(t, nil, day)
		if _, err := guard.Spend(t.Context(), regional("US", 6)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		wait := func(region string, units quota.Units, limit, want time.Duration) {
			_, err := guard.Wait(t.Context(), regional(region, units), limit)
			if took := time.Since(began); took != want || (err == nil) != (want <= limit) {
				t.Errorf("%d from %q: %v after %s; want after %s", units, region, err, took, want)
			}
		}
		go wait("US", 6, time.Hour, time.Minute)
		synctest.Wait()
		wait("IN", 1, time.Second, 0)
		wait("IN", 3, time.Second, 0)
		go wait("GB", 1, 2*time.Hour, 2*time.Minute) // it has no floor, and waits its turn
		time.Sleep(3 * time.Minute)
	})
}

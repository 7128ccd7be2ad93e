package usage_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/usage"
)

// TestForecastAgainstWhatComes: a forecast from the units that are left alone
// said noon, and the morning's units came back at eleven. Calls go on at their
// pace after the forecast, and the first that the guard refuses must come
// within 5 % of the forecast time, or within one call of it.
func TestForecastAgainstWhatComes(t *testing.T) {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.SampledFrom([]quota.Window{quota.Sliding(24 * time.Hour), quota.Sliding(6 * time.Hour), quota.Daily(zone)}).Draw(t, "window")
		clock := &ledgertest.Clock{}
		clock.Set(time.Date(2026, 11, 20, rapid.IntRange(0, 23).Draw(t, "hour"), 0, 0, 0, time.UTC))
		ledger := memledger.Open(&memledger.Options{Now: clock.Now})
		defer ledger.Close()
		units := quota.Units(rapid.IntRange(1, 20).Draw(t, "units"))
		budget := quota.Budget{Account: "p", Name: "b", Limit: quota.Units(rapid.IntRange(500, 20_000).Draw(t, "limit")), Window: window}
		guard, err := quota.NewGuard(ledger, []quota.Budget{budget}, nil)
		if err != nil {
			t.Fatal(err)
		}
		call := quota.Call{Account: "p", Method: "m", Units: units}
		for range rapid.IntRange(0, 5).Draw(t, "lumps") { // what was spent otherwise, before the pace began
			clock.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "minutes")) * time.Minute)
			lump := call
			lump.Units = quota.Units(rapid.IntRange(1, 3000).Draw(t, "lump"))
			_, _ = guard.Spend(t.Context(), lump)
		}
		every := time.Duration(rapid.IntRange(20, 200).Draw(t, "every")) * time.Second
		for range 4 * time.Hour / every {
			clock.Add(every)
			if _, err := guard.Spend(t.Context(), call); err != nil {
				t.Skip() // the pace is less than what is asked
			}
		}
		statuses, err := usage.Status(t.Context(), guard)
		if err != nil {
			t.Fatal(err)
		}
		compareForecast(t, &statuses[0], every, func() error {
			clock.Add(every)
			_, err := guard.Spend(t.Context(), call)
			return err
		}, clock)
	})
}

func compareForecast(t *rapid.T, s *usage.BudgetStatus, every time.Duration, next func() error, clock *ledgertest.Clock) {
	if s.PaceOver == 0 {
		t.Fatal("no pace after four hours")
	}
	now := s.At
	real := time.Time{}
	end := now.Add(s.Budget.Window.Horizon())
	for clock.Now().Before(end) {
		if err := next(); errors.Is(err, quota.ErrRefused) {
			real = clock.Now()
			break
		}
	}
	if real.IsZero() || s.RunsOut.IsZero() {
		full := s.Pace * s.Budget.Window.Horizon().Hours() // what a whole window holds
		near := math.Abs(full-float64(s.Budget.Limit)) < 0.1*float64(s.Budget.Limit) || s.RunsOut.After(end.Add(-time.Hour))
		if real.IsZero() != s.RunsOut.IsZero() && !near {
			t.Fatalf("refused at %s; forecast at %s, at %.1f an hour", real, s.RunsOut, s.Pace)
		}
		return
	}
	off := real.Sub(s.RunsOut).Abs()
	if limit := real.Sub(now) / 20; off > limit+2*every {
		t.Fatalf("refused in %s; forecast in %s at %.1f an hour", real.Sub(now), s.RunsOut.Sub(now), s.Pace)
	}
}

// TestForecastOfTheLastMinute: a call in the margin after the end of a day must
// still fit that day, so a budget can run out there. It was forecast for the
// next day.
func TestForecastOfTheLastMinute(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC))
	ledger := memledger.Open(&memledger.Options{Now: clock.Now})
	defer ledger.Close()
	const every, limit = 10 * time.Second, 4 * 360 // used up 5 seconds after midnight
	guard, err := quota.NewGuard(ledger, []quota.Budget{{Account: "p", Name: "b", Limit: limit, Window: quota.Daily(time.UTC)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	clock.Add(5 * time.Second)
	spend := func() error {
		clock.Add(every)
		_, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 1})
		return err
	}
	for range 3 * 360 {
		if err := spend(); err != nil {
			t.Fatal(err)
		}
	}
	statuses, err := usage.Status(t.Context(), guard)
	if err != nil {
		t.Fatal(err)
	}
	forecast := statuses[0].RunsOut
	for err = spend(); err == nil; err = spend() {
	}
	if off := clock.Now().Sub(forecast).Abs(); !errors.Is(err, quota.ErrRefused) || off > 2*every {
		t.Errorf("refused at %s; forecast for %s", clock.Now(), forecast)
	}
}

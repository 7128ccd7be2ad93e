package usage_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestAForecastIsWhatComes: a forecast from the units that are left alone
// said noon, and the morning's units came back at eleven. Calls go on at their
// pace after the forecast, and the first that the guard refuses must come
// within 5 % of the forecast time, or within two calls of it. Units that come
// back just then may turn a call more or less into hours: where the budget is
// full but for two calls, or over by less than two, either is right.
func TestAForecastIsWhatComes(t *testing.T) {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.SampledFrom([]quota.Window{quota.Sliding(24 * time.Hour), quota.Sliding(6 * time.Hour),
			quota.Daily(zone)}).Draw(t, "window")
		clock := &ledgertest.Clock{}
		clock.Set(time.Date(2026, 11, 20, rapid.IntRange(0, 23).Draw(t, "hour"), 0, 0, 0, time.UTC))
		ledger := memledger.Open(&memledger.Options{Now: clock.Now})
		defer ledger.Close()
		units := quota.Units(rapid.IntRange(1, 20).Draw(t, "units"))
		budget := quota.Budget{Account: "p", Name: "b",
			Limit: quota.Units(rapid.IntRange(500, 20_000).Draw(t, "limit")), Window: window}
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
		// each divides paceOver
		every := rapid.SampledFrom([]time.Duration{20, 27, 36, 45, 60, 75, 100, 135, 180, 200}).Draw(t,
			"every") * time.Second
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
		compareForecast(t, &statuses[0], every, func() quota.Units {
			clock.Add(every)
			if _, err := guard.Spend(t.Context(), call); errors.Is(err, quota.ErrRefused) {
				spent := quota.Call{Account: "p", Method: "m", Units: units}
				if err := guard.Note(t.Context(), quota.Note{Call: spent, Calls: 1}); err != nil {
					t.Fatal(err)
				}
			}
			balances, err := guard.Balances(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return balances[0].Used
		}, clock)
	})
}

// compareForecast compares the forecast of s with what comes, where next goes
// on at the pace, beyond the limit too, and returns what is used.
func compareForecast(t *rapid.T, s *usage.BudgetStatus, every time.Duration, next func() quota.Units,
	clock *ledgertest.Clock) {
	if s.PaceOver == 0 {
		t.Fatal("no pace after four hours")
	}
	twoCalls := quota.Units(math.Round(2 * s.Pace * every.Hours())) // 1.9999 are two
	end := s.At.Add(s.Budget.Horizon())
	earliest, latest := end, end
	for clock.Now().Before(end) && latest.Equal(end) {
		used := next()
		if used >= s.Budget.Limit-twoCalls && earliest.Equal(end) {
			earliest = clock.Now()
		}
		if used >= s.Budget.Limit+twoCalls {
			latest = clock.Now()
		}
	}
	off := func(at time.Time) time.Duration { return at.Sub(s.At)/20 + 2*every }
	switch {
	case s.RunsOut.IsZero():
		if latest.Before(end.Add(-time.Hour)) {
			t.Fatalf("full at %s; no forecast at %.1f an hour", latest, s.Pace)
		}
	case s.RunsOut.Before(end.Add(-time.Hour)):
		if s.RunsOut.Before(earliest.Add(-off(earliest))) || s.RunsOut.After(latest.Add(off(latest))) {
			t.Fatalf("full in %s to %s; forecast in %s at %.1f an hour", earliest.Sub(s.At), latest.Sub(s.At),
				s.RunsOut.Sub(s.At), s.Pace)
		}
	}
}

// TestABudgetMayRunOutInADaysLastMinute: a call in the margin after the end of
// a day must still fit that day, so a budget can run out there. It was forecast
// for the next day.
func TestABudgetMayRunOutInADaysLastMinute(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC))
	ledger := memledger.Open(&memledger.Options{Now: clock.Now})
	defer ledger.Close()
	const every, limit = 10 * time.Second, 4 * 360 // used up 5 seconds after midnight
	guard, err := quota.NewGuard(ledger,
		[]quota.Budget{{Account: "p", Name: "b", Limit: limit, Window: quota.Daily(time.UTC)}}, nil)
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

// TestThePaceLeavesCorrectionsOut: what a correction enters at once was spent
// over days, and does not go on.
func TestThePaceLeavesCorrectionsOut(t *testing.T) {
	s := newStand(t, quota.Budget{Name: "day", Window: quota.Sliding(24 * time.Hour)})
	for range 60 {
		s.spend(t, quota.Call{Method: "m", Units: 1})
		s.now = s.now.Add(time.Minute)
	}
	before := s.status(t)[0]
	note := quota.Note{Call: quota.Call{Account: "p", Method: "m", Units: 300}, Kind: quota.EntryCorrection}
	if err := s.guard.Note(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	after := s.status(t)[0]
	if before.Pace == 0 || after.Pace != before.Pace || after.Used != before.Used+300 {
		t.Errorf("%d used at %g an hour, then %d at %g; want 300 more at the same pace", before.Used, before.Pace,
			after.Used, after.Pace)
	}
}

// TestABudgetThatStaysFullDoesNotRunOut: a budget that is full but for three
// calls, and stays so, was said to run out where the forecast had made all its
// queries.
func TestABudgetThatStaysFullDoesNotRunOut(t *testing.T) {
	s := newStand(t, quota.Budget{Name: "window", Limit: 6*180 + 3, Window: quota.Sliding(6 * time.Hour)})
	for range 6 * 180 {
		s.spend(t, quota.Call{Method: "m", Units: 1})
		s.now = s.now.Add(20 * time.Second)
	}
	if status := s.status(t)[0]; status.Pace == 0 || !status.RunsOut.IsZero() {
		t.Errorf("%d of %d used at %g an hour: forecast for %s, want none", status.Used, status.Limit(), status.Pace,
			status.RunsOut)
	}
}

// TestNoPaceThroughACooldown: while no call goes out, the pace of the hours
// before says nothing.
func TestNoPaceThroughACooldown(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
	ledger := memledger.Open(&memledger.Options{Now: clock.Now})
	guard, err := quota.NewGuard(ledger,
		[]quota.Budget{{Account: "p", Name: "b", Limit: 1000, Window: quota.Sliding(24 * time.Hour)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 8 {
		clock.Add(30 * time.Minute)
		if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 100}); err != nil {
			t.Fatal(err)
		}
	}
	forecast := func() time.Time {
		statuses, err := usage.Status(t.Context(), guard)
		if err != nil {
			t.Fatal(err)
		}
		return statuses[0].RunsOut
	}
	if forecast().IsZero() {
		t.Error("no forecast without a cooldown")
	}
	if err := guard.Cool(t.Context(), quota.Cooldown{Account: "p", For: time.Hour, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	if at := forecast(); !at.IsZero() {
		t.Errorf("%s, through a cooldown", at)
	}
}

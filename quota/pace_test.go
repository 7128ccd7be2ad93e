package quota_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestPacedBackfillLeavesTheScheduleItsUnits: for two days a paced backfill
// takes all that the schedule of eight regions leaves, evenly, and no scheduled
// call is refused. Each day ends at 95 to 100 % of its limit.
func TestPacedBackfillLeavesTheScheduleItsUnits(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of calls one after the other")
	}
	synctest.Test(t, func(t *testing.T) {
		zone := time.FixedZone("PST", -8*60*60)
		midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, zone).Add(24 * time.Hour)
		time.Sleep(time.Until(midnight.Add(30 * time.Second)))
		budgets := []quota.Budget{
			{Account: "a", Name: "youtube", Limit: 9500, Window: quota.Sliding(24 * time.Hour)},
			{Account: "a", Name: "day", Limit: 9500, Window: quota.Daily(zone)},
			{Account: "a", Name: "search", Limit: 4000, Window: quota.Sliding(24 * time.Hour),
				Methods: []string{"search.list"}},
			{Account: "a", Name: "burst", Limit: 1500, Window: quota.Sliding(10 * time.Minute),
				Methods: []string{"search.list"}},
		}
		ledger := memledger.Open(&memledger.Options{Now: time.Now})
		open := func() *quota.Guard {
			guard, err := quota.NewGuard(ledger, budgets, &quota.Options{
				Paced: func(_, lane string) bool { return lane == quota.LaneBackfill },
			})
			if err != nil {
				t.Fatal(err)
			}
			return guard
		}
		ctx := t.Context()
		ctx, stop := context.WithCancel(ctx)
		done := make(chan [2]int, 1)
		go func() { done <- runBackfill(ctx, t, open(), midnight) }()
		guard := open()
		for run := range 2 * 4 * 8 { // eight regions every six hours, 7 minutes apart
			day, region := run/32, time.Duration(run%8)
			early := time.Duration(day) * 20 * time.Second // than the day before
			time.Sleep(time.Until(midnight.Add(time.Duration(run/8)*6*time.Hour + region*7*time.Minute +
				time.Minute - early)))
			for _, units := range []quota.Units{1, 1, 1, 1, 100, 1, 1, 1} {
				call := quota.Call{Account: "a", Method: "videos.list", Units: units,
					Caller: quota.Caller{Lane: quota.LaneCron}}
				if units > 1 {
					call.Method = "search.list"
				}
				if _, err := guard.Spend(ctx, call); err != nil {
					t.Errorf("a scheduled call was refused on %s: %v", time.Now().In(zone), err)
				}
				time.Sleep(200 * time.Millisecond)
			}
			if run%32 < 31 {
				continue
			}
			time.Sleep(time.Until(midnight.Add(time.Duration(day+1)*24*time.Hour - time.Minute)))
			balances, err := guard.Balances(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if used := float64(balances[1].Used) / 9500; used < 0.95 || used > 1 {
				t.Errorf("day %d ends at %.1f %%", day, used*100)
			} else {
				t.Logf("day %d ends at %.1f %%", day, used*100)
			}
		}
		stop()
		if days := <-done; days[0] < 250 || days[1] < 250 {
			t.Errorf("%d calls of the backfill in each day; want those that the schedule leaves", days)
		}
	})
}

// TestABurstOnANewLogStopsNoBackfill: a scheduled call of a second ago was
// taken for a call each second until the window ends.
func TestABurstOnANewLogStopsNoBackfill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Minute) // after the margin of the hour
		budgets := []quota.Budget{{Account: "a", Name: "hour", Limit: 1000, Window: quota.Hourly(time.UTC)}}
		guard, err := quota.NewGuard(memledger.Open(&memledger.Options{Now: time.Now}), budgets, &quota.Options{
			Paced: func(_, lane string) bool { return lane == quota.LaneBackfill },
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, lane := range []string{quota.LaneCron, quota.LaneBackfill, quota.LaneBackfill} {
			call := quota.Call{Account: "a", Method: "get", Units: 1, Caller: quota.Caller{Lane: lane}}
			if _, err := guard.Wait(t.Context(), call, 10*time.Second); err != nil {
				t.Errorf("%s: %v", lane, err)
			}
		}
	})
}

// runBackfill makes calls as they are granted until ctx ends, and returns how
// many there were on each day since midnight.
func runBackfill(ctx context.Context, t *testing.T, guard *quota.Guard, midnight time.Time) (days [2]int) {
	call := quota.Call{Account: "a", Method: "videos.list", Units: 20, Caller: quota.Caller{Lane: quota.LaneBackfill}}
	for ctx.Err() == nil {
		_, err := guard.Wait(ctx, call, 48*time.Hour)
		if err == nil {
			days[time.Since(midnight)/(24*time.Hour)]++
		} else if ctx.Err() == nil {
			t.Errorf("the backfill was refused %s after midnight: %v", time.Since(midnight), err)
		}
	}
	return days
}

package quota_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestWindowsAgainstTheUpstreamsDay plays a caller that spends as much as it
// can, minute by minute, over the days on which the Pacific clocks change,
// and counts like the upstream, by its own calendar day. The figures are
// those of docs/windows.md.
func TestWindowsAgainstTheUpstreamsDay(t *testing.T) {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	const limit = 100
	sliding, daily := quota.Sliding(24*time.Hour), quota.Daily(pacific)
	for _, c := range []struct {
		name    string
		day     time.Time // the local midnight at which the caller begins
		windows []quota.Window
		most    int64         // that the upstream counted in one of its days
		after   time.Duration // from the next local midnight until the first call of that day
	}{
		{"sliding alone, a day of 25 hours", time.Date(2026, 11, 1, 0, 0, 0, 0, pacific), []quota.Window{sliding}, 200,
			23 * time.Hour},
		{"sliding alone, a day of 23 hours", time.Date(2027, 3, 14, 0, 0, 0, 0, pacific), []quota.Window{sliding}, 100,
			time.Hour},
		{"calendar alone, a day of 25 hours", time.Date(2026, 11, 1, 0, 0, 0, 0, pacific), []quota.Window{daily}, 100,
			time.Minute},
		{"calendar alone, a day of 23 hours", time.Date(2027, 3, 14, 0, 0, 0, 0, pacific), []quota.Window{daily}, 100,
			time.Minute},
		{"both, a day of 25 hours", time.Date(2026, 11, 1, 0, 0, 0, 0, pacific), []quota.Window{sliding, daily}, 100,
			time.Minute},
		{"both, a day of 23 hours", time.Date(2027, 3, 14, 0, 0, 0, 0, pacific), []quota.Window{sliding, daily}, 100,
			time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := &ledgertest.Clock{}
			clock.Set(c.day)
			upstream := youtubetest.New(&youtubetest.Options{Limit: 10_000, Now: clock.Now})
			var budgets []quota.Budget
			for i, w := range c.windows {
				budgets = append(budgets, quota.Budget{Account: account, Name: fmt.Sprint(i), Limit: limit, Window: w})
			}
			guard, err := quota.NewGuard(memledger.Open(&memledger.Options{Now: clock.Now}), budgets, nil)
			if err != nil {
				t.Fatal(err)
			}
			next := c.day.AddDate(0, 0, 1)
			var most int64
			var first time.Time
			for clock.Set(c.day.Add(time.Minute)); clock.Now().Before(next.AddDate(0, 0, 1)); clock.Add(time.Minute) {
				for {
					if _, err := guard.Spend(t.Context(), call("videos.list", 1)); errors.Is(err, quota.ErrRefused) {
						break
					}
					upstream.ServeHTTP(httptest.NewRecorder(),
						httptest.NewRequest(http.MethodGet, "/youtube/v3/videos?part=id&id=x&key=k", nil))
					if first.IsZero() && !clock.Now().Before(next) {
						first = clock.Now()
					}
				}
				most = max(most, upstream.Used()[youtubetest.DefaultBucket])
			}
			if most != c.most {
				t.Errorf("the upstream counted %d of %d in a day; want %d", most, limit, c.most)
			}
			if got := first.Sub(next); got < c.after-time.Minute || got > c.after+time.Minute {
				t.Errorf("the next day's first call came %s after midnight; want %s", got, c.after)
			}
		})
	}
}

package redisledger_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// BenchmarkShipped has the budgets of the costs.yaml that ships with ration:
// the trailing day and Google's day over all calls, and the trailing day of
// searches; with burst, the ten minutes of searches too, without which the
// figures of docs/performance.md are. The log is a day old.
func BenchmarkShipped(b *testing.B) {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		b.Fatal(err)
	}
	day, calendar := charge("day", quota.MaxLimit, quota.Sliding(24*time.Hour)), charge("calendar", quota.MaxLimit, quota.Daily(pacific))
	search := charge("search", quota.MaxLimit, quota.Sliding(24*time.Hour), "search.list")
	burst := charge("burst", quota.MaxLimit, quota.Sliding(10*time.Minute), "search.list")
	fill := func(b *bench, _ *redisledger.Ledger) {
		now := time.Now().Add(-27 * time.Hour)
		old, err := redisledger.Open(b.server.URL(), &redisledger.Options{Prefix: "b", Now: func() time.Time { return now }})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = old.Close() })
		for n := range 970 {
			now = now.Add(100 * time.Second)
			batch := &quota.Batch{Account: account}
			for i := range 10 {
				r := quota.Request{Method: "videos.list", Units: 1, Charges: []*quota.Charge{day, calendar}}
				if i == 0 && n%3 == 0 {
					r = quota.Request{Method: "search.list", Units: 100, Charges: []*quota.Charge{day, calendar, search}}
				}
				batch.Requests = append(batch.Requests, r)
			}
			if _, err := old.Spend(context.Background(), batch); err != nil {
				b.Fatal(err)
			}
		}
	}
	for name, charges := range map[string][]*quota.Charge{
		"videos.list": {day, calendar}, "search.list": {day, calendar, search}, "search.list with burst": {day, calendar, search, burst},
	} {
		method, _, _ := strings.Cut(name, " ")
		each(b, name, nil, func(b *bench, l *redisledger.Ledger) {
			batch := &quota.Batch{Account: account, Requests: []quota.Request{{Method: method, Units: 1, Charges: charges}}}
			if answers, err := l.Spend(context.Background(), batch); err != nil || answers[0].Err != nil {
				b.Error(fmt.Sprint(answers, err))
			}
		}, fill)
	}
}

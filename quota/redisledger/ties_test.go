package redisledger_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestFirstOfTwoBudgetsThatFreeTogetherRefuses: the first in the request
// refuses, whatever the order in the batch, with floors that end and without.
func TestFirstOfTwoBudgetsThatFreeTogetherRefuses(t *testing.T) {
	server := redistest.Start(t)
	india := []quota.Floor{{Coverage: quota.NewCoverage(quota.Coverage{Regions: []string{"IN"}}), Units: 2}}
	first, second := charge("first", 9, quota.Daily(time.UTC)), charge("second", 5, quota.Daily(time.UTC))
	first.Floors, first.FloorUntil = india, time.Hour
	for _, l := range []quota.Ledger{memledger.Open(&memledger.Options{Now: noonUTC}), fresh(t, server.URL(), noonUTC)} {
		full := quota.Request{Method: "m", Units: 9, Force: true, Charges: []*quota.Charge{second}}
		one := func(charges ...*quota.Charge) quota.Request {
			return quota.Request{Method: "m", Units: 1, Charges: charges}
		}
		answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{full, one(second), one(first, second), one(second, first)}})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{1: "second", 2: "first", 3: "second"} {
			if refused, ok := answers[i].Err.(*quota.RefusedError); i > 0 && (!ok || refused.Budget != want) {
				t.Errorf("%T: request %d: %v; want a refusal by %s", l, i, answers[i].Err, want)
			}
		}
	}
}

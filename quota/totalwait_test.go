package quota_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
)

// slow is a ledger that takes a second for each spend.
type slow struct{ quota.Log }

func (s slow) Spend(ctx context.Context, b *quota.Batch) ([]quota.Answer, error) {
	time.Sleep(time.Second)
	return s.Log.Spend(ctx, b)
}

// TestASlowLedgerUsesUpNoWait: the time that the ledger took for calls
// which did not wait for units counted as their waits. Later calls that had to
// wait were refused.
func TestASlowLedgerUsesUpNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, err := quota.NewGuard(slow{testledger.Memory(nil)}, []quota.Budget{budget("burst", 5, 8*time.Second)},
			nil)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), MaxWait: time.Minute,
			MaxTotalWait: 4 * time.Second,
			Base:         statusTripper(func(*http.Request) int { return http.StatusOK })}}
		for i := range 6 { // the last waits for 3 seconds
			resp, err := client.Get("http://upstream/m")
			if err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			resp.Body.Close()
		}
	})
}

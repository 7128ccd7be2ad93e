package quota_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestASlowLedgerUsesUpNoWait: the time that the ledger took for calls
// which did not wait for units counted as their waits. Later calls that had to
// wait were refused.
func TestASlowLedgerUsesUpNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := testledger.Before(memledger.Open(nil), func(op string) error {
			if op == "append" {
				time.Sleep(time.Second)
			}
			return nil
		})
		guard, err := quota.NewGuard(slow, []quota.Budget{budget("burst", 5, 7*time.Second)},
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

package redisledger_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/redistest"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestHeadNeverComesAgain sets a cooldown, lifts it, and sets it again until the
// same instant, as an upstream does that names its midnight, while another client
// takes up a new budget: what the first client knew of the coverages from
// before must not be believed again.
func TestHeadNeverComesAgain(t *testing.T) {
	server := redistest.Start(t)
	prefix := fmt.Sprintf("t%d", prefixes.Add(1))
	open := func() *redisledger.Ledger {
		l, err := redisledger.Open(server.URL(), &redisledger.Options{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	a, b := open(), open()
	window := quota.Sliding(24 * time.Hour)
	all := &quota.Charge{Budget: "all", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 1000, Window: window}
	search := &quota.Charge{Budget: "search", Coverage: quota.NewCoverage(quota.Coverage{Methods: []string{"search"}}), Limit: 10, Window: window}
	cooldown := quota.Cooldown{Account: account, Budget: "other", Until: time.Now().Add(3 * time.Hour), Reason: "quotaExceeded"}
	mustSpend(t, a, "search", 1, all)
	for round := range 3 {
		if err := a.SetCooldown(t.Context(), cooldown); err != nil {
			t.Fatal(err)
		}
		receipt := mustSpend(t, a, "search", 1, all) // a knows the head of now
		if err := b.ClearCooldown(t.Context(), account, "other"); err != nil {
			t.Fatal(err)
		}
		mustSpend(t, b, "search", 1, all)
		if round == 0 {
			mustSpend(t, b, "search", 1, all, search)
		}
		if err := b.SetCooldown(t.Context(), cooldown); err != nil {
			t.Fatal(err)
		}
		mustSpend(t, a, "search", 2, all)
		if err := a.Settle(t.Context(), receipt, 1); err != nil {
			t.Fatal(err)
		}
		if whole, part := used(t, b, all), used(t, b, search); whole != part {
			t.Fatalf("round %d: %d units in all, %d of them searches; every one was", round, whole, part)
		}
	}
	if _, err := spend(t, a, "search", 1, all, search); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("beyond the limit of searches: %v; want a refusal", err)
	}
}

package quota_test

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/redistest"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// claimEight asks for the same claim eight times at once. It fails the test unless want
// of them get it, and returns one of those.
func claimEight(t *testing.T, guard *quota.Guard, want int) *quota.Claim {
	t.Helper()
	held := make(chan *quota.Claim, 8)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c, err := guard.Claim(t.Context(), account, "level", time.Minute, 24*time.Hour)
			if err != nil {
				t.Error(err)
			}
			if c != nil {
				held <- c
			}
		})
	}
	wg.Wait()
	if len(held) != want {
		t.Fatalf("%d hold the claim; want %d", len(held), want)
	}
	if want == 0 {
		return nil
	}
	return <-held
}

// TestClaimIsHeldTwice: of many processes one gets a claim. It is free again after a
// release, when its holder has died, and a time after it was done.
func TestClaimIsHeldTwice(t *testing.T) {
	for name, open := range map[string]func(*testing.T, func() time.Time) (quota.Ledger, error){
		"memory": func(_ *testing.T, now func() time.Time) (quota.Ledger, error) {
			return memledger.Open(&memledger.Options{Now: now}), nil
		},
		"SQLite": func(t *testing.T, now func() time.Time) (quota.Ledger, error) {
			return sqliteledger.Open(filepath.Join(t.TempDir(), "ledger.db"), &sqliteledger.Options{Now: now})
		},
		"Redis": func(t *testing.T, now func() time.Time) (quota.Ledger, error) {
			return redisledger.Open(redistest.Start(t).URL(), &redisledger.Options{Now: now})
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := &ledgertest.Clock{}
			clock.Set(time.Unix(1_800_000_000, 0))
			ledger, err := open(t, clock.Now)
			if err != nil {
				t.Fatal(err)
			}
			defer ledger.Close()
			guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 10, time.Hour)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			claim := func(want int) *quota.Claim { return claimEight(t, guard, want) }
			settled := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			settled(guard.Cool(t.Context(), quota.Cooldown{Account: account, For: 100 * time.Hour}))
			settled(claim(1).Release(t.Context()))
			claim(1) // its holder dies
			clock.Add(59 * time.Second)
			claim(0)
			clock.Add(2 * time.Second)
			settled(claim(1).Done(t.Context()))
			clock.Add(23 * time.Hour)
			claim(0)
			clock.Add(time.Hour + time.Minute)
			claim(1)
			if n := used(t, guard); n != 0 {
				t.Errorf("claims count %d units", n)
			}
		})
	}
}

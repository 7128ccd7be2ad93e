package quota_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
)

// reign is the time, by the ledger's clock, for which one process held a claim.
type reign struct {
	owner      string
	begin, end time.Time
}

// TestTwoOwnersAtOnce: of processes that claim, renew early and late, release
// and die at random, no two hold a claim at the same time.
func TestTwoOwnersAtOnce(t *testing.T) {
	onEachLedger(t, func(t *testing.T, guard *quota.Guard, clock *ledgertest.Clock) {
		var mu sync.Mutex
		var reigns []reign
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for turn := range 25 {
					if r := reignOnce(t, guard, clock, fmt.Sprintf("%d.%d", worker, turn)); r != nil {
						mu.Lock()
						reigns = append(reigns, *r)
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		for i, a := range reigns {
			for _, b := range reigns[:i] {
				if a.begin.Before(b.end) && b.begin.Before(a.end) {
					t.Errorf("%s from %v to %v, %s from %v to %v", a.owner, a.begin, a.end, b.owner, b.begin, b.end)
				}
			}
		}
		if len(reigns) < 10 {
			t.Errorf("only %d owners", len(reigns))
		}
	})
}

// reignOnce claims, and if it is granted renews a few times. A third of the
// owners release the claim, the others let it lapse.
func reignOnce(t *testing.T, guard *quota.Guard, clock *ledgertest.Clock, owner string) *reign {
	passTime := func() { clock.Add(time.Duration(rand.IntN(20)) * time.Second) }
	passTime()
	claim, err := guard.Claim(t.Context(), claiming(owner))
	if err != nil {
		if !errors.Is(err, quota.ErrClaimed) && !errors.Is(err, quota.ErrInDoubt) { // in doubt on a machine that is busy for seconds
			t.Error(err)
		}
		return nil
	}
	r := &reign{owner: owner, begin: clock.Now()}
	for range rand.IntN(4) {
		passTime()
		if err := claim.Renew(t.Context()); errors.Is(err, quota.ErrClaimLost) {
			break
		} else if err != nil && !errors.Is(err, quota.ErrInDoubt) {
			t.Error(err)
		}
	}
	r.end = quota.ClaimEnd(claim)
	if now := clock.Now(); rand.IntN(3) == 0 && now.Before(r.end) {
		r.end = now
		if err := claim.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return r
}

// TestTwoFollowersOfTheDead: two processes that take over the claim of one that
// has ended both got it.
func TestTwoFollowersOfTheDead(t *testing.T) {
	onEachLedger(t, func(t *testing.T, guard *quota.Guard, clock *ledgertest.Clock) {
		claimEight(t, guard, "dead", 1)
		following := func(owner string) quota.ClaimRequest {
			request := claiming(owner)
			request.Resumes = []string{"dead"}
			return request
		}
		var other *quota.Claim
		slow, err := quota.NewGuard(&paused{Ledger: guard.Ledger(), before: func() {
			var err error
			other, err = guard.Claim(t.Context(), following("other"))
			succeed(t, err)
		}}, guard.Budgets(), nil)
		succeed(t, err)
		if _, err := slow.Claim(t.Context(), following("slow")); !errors.Is(err, quota.ErrClaimed) {
			t.Errorf("%v; want that the other process has claimed it", err)
		}
		clock.Add(59 * time.Second)
		succeed(t, other.Renew(t.Context()))
	})
}

package redisledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestHeadNeverComesAgain sets a cooldown, lifts it, and sets it again until
// the same time, like an upstream that names its midnight, while another client
// adds a budget. The first client's cache of the coverages must stay invalid.
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
		receipt := mustSpend(t, a, "search", 1, all) // a caches the current head
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

// TestOldestIsKnown: meta's copy of the log's oldest record is right, whatever
// happens to that record. A refusal that relies on it has the same balance and
// retry time as the log itself.
func TestOldestIsKnown(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	l := fresh(t, server.URL(), clock.Now)
	random := rand.New(rand.NewPCG(1, 6))
	all := charge("all", 40, quota.Sliding(40*time.Hour))
	for step := range 600 {
		what := random.IntN(12)
		switch log := entries(t, l); {
		case what == 0:
			if _, err := client.Del(t.Context(), redisledger.LogKey(l, account)).Result(); err != nil {
				t.Fatal(err)
			}
		case what == 1:
			meta := strings.TrimSuffix(redisledger.LogKey(l, account), "log") + "meta"
			if _, err := client.Del(t.Context(), meta).Result(); err != nil {
				t.Fatal(err)
			}
			if len(log) == 0 || random.IntN(2) == 0 {
				break
			}
			fallthrough // then the settle is first
		case what < 4 && len(log) > 0:
			receipt := quota.Receipt{Account: account, ID: log[0].ID, At: log[0].At}
			if err := l.Settle(t.Context(), receipt, quota.Units(random.IntN(5))); err != nil && !errors.Is(err, quota.ErrStays) {
				t.Fatal(err)
			}
		case what < 6:
			clock.Add(time.Duration(random.Int64N(int64(30 * time.Hour))))
		default:
			_, _ = spend(t, l, "m", quota.Units(1+random.IntN(9)), all)
		}
		sum := used(t, l, all)
		needed := min(all.Limit, max(all.Limit-sum+1+quota.Units(random.IntN(3)), 1))
		var at time.Time
		left := sum
		for _, e := range entries(t, l) {
			if clock.Now().Sub(e.At) < all.Window.Length() && left+needed > all.Limit {
				left, at = left-e.Units, e.At.Add(all.Window.Length())
			}
		}
		_, err := spend(t, l, "m", needed, all)
		refused, ok := errors.AsType[*quota.RefusedError](err)
		if sum > 0 && (!ok || refused.Remaining != max(0, all.Limit-sum) || !refused.RetryAt.Equal(at)) || sum == 0 && err != nil {
			t.Fatalf("step %d (%d): %d used, %d needed, and then %v; want %s", step, what, sum, needed, err, at)
		}
	}
}

// TestOlderCopyComesToTheSameHead: an older copy of meta takes the place of one
// with another budget, and a process that adds a budget there comes to the head
// that it knows. It took its own coverages for those of the copy, and gave up.
func TestOlderCopyComesToTheSameHead(t *testing.T) {
	server := redistest.Start(t)
	l, client := fresh(t, server.URL(), nil), raw(t, server)
	window := quota.Sliding(24 * time.Hour)
	all := charge("all", 1000, window)
	mustSpend(t, l, "list", 1, all)
	meta := do(t, client, "keys", "*:meta").([]any)[0]
	do(t, client, "copy", meta, "older")
	mustSpend(t, l, "search", 1, all, charge("searches", 10, window, "search"))
	do(t, client, "copy", "older", meta, "replace")
	mustSpend(t, l, "list", 1, all, charge("lists", 10, window, "list"))
}

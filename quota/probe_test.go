package quota_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestProbeAnswersAsSpendWould: whatever is recorded, kept for other regions or
// cooling down, Probe refuses exactly the calls that Spend refuses.
func TestProbeAnswersAsSpendWould(t *testing.T) {
	rapid.Check(t, func(d *rapid.T) {
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		floored, narrow := budget("floored", 100, time.Hour), budget("narrow", 3, time.Minute)
		floored.Floor = map[string]quota.Units{"IN": 30, "GB": 10}
		narrow.Methods, narrow.Measure = []string{"search"}, quota.Calls
		day := quota.Budget{Account: account, Name: "day", Limit: 150, Window: quota.Daily(time.UTC)}
		guard := newGuard(t, &memledger.Options{Now: func() time.Time { return now }}, floored, narrow, day)
		for range rapid.IntRange(1, 30).Draw(d, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 1200).Draw(d, "seconds")) * time.Second)
			if rapid.IntRange(0, 9).Draw(d, "cool") == 0 {
				stop := quota.Cooldown{Account: account,
					Budget: rapid.SampledFrom([]string{"", "narrow", "day"}).Draw(d, "budget"), For: time.Minute,
					Reason: "stop"}
				if err := guard.Cool(t.Context(), stop); err != nil {
					d.Fatal(err)
				}
			}
			c := call(rapid.SampledFrom([]string{"search", "list"}).Draw(d, "method"),
				quota.Units(rapid.IntRange(1, 60).Draw(d, "units")))
			c.Caller.Region = rapid.SampledFrom([]string{"", "IN", "GB", "US"}).Draw(d, "region")
			probed := guard.Probe(t.Context(), c)
			_, spent := guard.Spend(t.Context(), c)
			if (probed == nil) != (spent == nil) || errors.Is(probed, quota.ErrNeverFits) != errors.Is(spent,
				quota.ErrNeverFits) {
				d.Fatalf("probed %v; spent %v", probed, spent)
			}
			said, first := errors.AsType[*quota.RefusedError](probed)
			real, second := errors.AsType[*quota.RefusedError](spent)
			if first && second && said.Budget == real.Budget && said.Reason == real.Reason &&
				(said.Short() != real.Short() || said.Caller != real.Caller) {
				d.Fatalf("probed %v; spent %v", probed, spent)
			}
			isLater := first && second && said.RetryAt.After(real.RetryAt)
			if isSame := first && second && said.Budget == real.Budget; isLater || isSame &&
				!said.RetryAt.Equal(real.RetryAt) {
				d.Fatalf("probed %v; spent %v: another time", probed, spent)
			}
		}
	})
}

// TestProbeNamesTheLatest: a cooldown of a minute hid a budget that refuses the
// call for an hour.
func TestProbeNamesTheLatest(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	guard := newGuard(t, &memledger.Options{Now: func() time.Time { return now }}, budget("short", 10, time.Minute),
		budget("long", 10, time.Hour))
	if _, err := guard.Spend(t.Context(), call("list", 10)); err != nil {
		t.Fatal(err)
	}
	if err := guard.Cool(t.Context(), quota.Cooldown{Account: account, For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if refused, ok := errors.AsType[*quota.RefusedError](guard.Probe(t.Context(), call("list", 1))); !ok ||
		refused.Budget != "long" || refused.Reason != quota.ReasonSpent {
		t.Errorf("probed %v; want the refusal by long", refused)
	}
	if all, err := guard.ProbeAll(t.Context(), call("list", 1)); err != nil || len(all) != 3 ||
		all[0].Reason != quota.ReasonCooldown || all[1].Budget != "short" || all[2].Budget != "long" {
		t.Errorf("%v, %v; want the cooldown, short and long", all, err)
	}
}

// TestAProbedLimitIsAnnounced: a process that had probed a call did not
// announce its limits any more, and others with a higher one spent beyond it.
func TestAProbedLimitIsAnnounced(t *testing.T) {
	ledger := memledger.Open(nil)
	guardOf := func(limit quota.Units) *quota.Guard {
		b := budget("all", limit, time.Hour)
		b.Config = quota.Config{Name: fmt.Sprint("of ", limit)}
		guard, err := quota.NewGuard(ledger, []quota.Budget{b}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return guard
	}
	strict, loose := guardOf(5), guardOf(50)
	if err := strict.Probe(t.Context(), call("list", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := strict.Spend(t.Context(), call("list", 5)); err != nil {
		t.Fatal(err)
	}
	if _, err := loose.Spend(t.Context(), call("list", 1)); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("%v; want the limit of 5 to hold", err)
	}
}

// TestCooldownsAreListedOnce: the account's first, then those of its budgets
// that outlast it.
func TestCooldownsAreListedOnce(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	guard := newGuard(t, &memledger.Options{Now: func() time.Time { return now }}, budget("short", 10, time.Hour),
		budget("long", 10, time.Hour))
	for name, length := range map[string]time.Duration{"": time.Hour, "short": time.Minute, "long": 2 * time.Hour} {
		if err := guard.Cool(t.Context(), quota.Cooldown{Account: account, Budget: name, For: length}); err != nil {
			t.Fatal(err)
		}
	}
	at, cooldowns, err := guard.Cooldowns(t.Context(), account)
	if err != nil || !at.Equal(now) || len(cooldowns) != 2 || cooldowns[0].Budget != "" ||
		cooldowns[1].Budget != "long" {
		t.Errorf("at %s: %+v, %v; want the account's and long's", at, cooldowns, err)
	}
	if at, ahead, err := guard.Now(t.Context(), account); err != nil || !at.Equal(now) || ahead != 0 {
		t.Errorf("it is %s, %s ahead, %v", at, ahead, err)
	}
}

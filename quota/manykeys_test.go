package quota_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// BenchmarkManyKeys spends for keys in turn, each of which has a limit.
func BenchmarkManyKeys(b *testing.B) {
	for _, keys := range []int{1, 1_000, 100_000} {
		b.Run(strconv.Itoa(keys), func(b *testing.B) {
			minute, day := perKey("minute", 60_000_000, time.Minute), perKey("day", 500_000_000, 24*time.Hour)
			guard := newGuard(b, nil, budget("shared", quota.MaxLimit, time.Hour), minute, day)
			names := make([]string, keys)
			for i := range names {
				names[i] = "tenant " + strconv.Itoa(i)
			}
			c := call("list", 1)
			for n := 0; b.Loop(); n++ {
				c.Key = names[n%keys]
				if _, err := guard.Spend(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestTenThousandTenantsKeepTheirLimits draws calls of 10,000 tenants in two
// guards, as in two processes: no tenant passes its limit, the shared budget is
// used up to the last unit, and each refusal is right when it is given.
func TestTenThousandTenantsKeepTheirLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of calls one after the other")
	}
	const tenants, each, shared = 10_000, 3, 15_000
	for name, open := range map[string]opener{"memory": openMemory, "SQLite": openSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reopen := open(t)
			minute := perKey("tenant", each, time.Hour)
			minute.Keys = map[string]quota.Units{"tenant 0": 50, "tenant 7": 1}
			var guards []*quota.Guard
			for range 2 {
				log, err := reopen()
				if err != nil {
					t.Fatal(err)
				}
				guard, err := quota.NewGuard(log, []quota.Budget{minute, budget("all", shared, time.Hour)}, nil)
				if err != nil {
					t.Fatal(err)
				}
				guards = append(guards, guard)
			}
			draw := rand.New(rand.NewPCG(49, 1))
			spent, total := map[string]quota.Units{}, quota.Units(0)
			for n := 0; total < shared && n < 100_000; n++ {
				c := call("list", 1)
				c.Key = fmt.Sprint("tenant ", min(draw.IntN(tenants), draw.IntN(tenants)))
				_, err := guards[n%2].Spend(t.Context(), c)
				refused, _ := errors.AsType[*quota.RefusedError](err)
				switch limit := minute.LimitOf(c.Key); {
				case err == nil:
					spent[c.Key]++
					total++
					if spent[c.Key] > limit {
						t.Fatalf("%s has %d of %d", c.Key, spent[c.Key], limit)
					}
				case refused == nil || refused.Budget != "tenant" || spent[c.Key] != limit:
					t.Fatalf("%s, which has %d of %d: %v", c.Key, spent[c.Key], limit, err)
				}
			}
			c := call("list", 1)
			c.Key = "a new one"
			_, err := guards[0].Spend(t.Context(), c)
			if refused, ok := errors.AsType[*quota.RefusedError](err); !ok || refused.Budget != "all" ||
				refused.OfKey || total != shared {
				t.Errorf("after %d of %d: %v; want a refusal by the shared budget", total, shared, err)
			}
		})
	}
}

// TestAKeyMayHaveALimitOfItsOwn: decisions, refusals, balances and calls that
// never fit go by it.
func TestAKeyMayHaveALimitOfItsOwn(t *testing.T) {
	tenant := perKey("tenant", 10, time.Hour)
	tenant.Keys = map[string]quota.Units{"acme": 50, "shop 7": 2}
	guard := newGuard(t, nil, tenant)
	spend := func(key string, units quota.Units) error {
		c := call("list", units)
		c.Key = key
		grant, err := guard.Spend(t.Context(), c)
		if b, ok := grant.Tightest(); err == nil && (!ok || b.Limit() != tenant.LimitOf(key)) {
			t.Errorf("%s has %+v of its grant", key, b)
		}
		return err
	}
	for _, step := range []struct {
		key   string
		units quota.Units
		want  string
	}{
		{"acme", 45, ""},
		{"acme", 6, "tenant of key acme has 5 of 50 units left, list needs 6"},
		{"acme", 51, "tenant of key acme allows 50 units, list needs 51 and never fits"},
		{"shop 7", 2, ""},
		{"shop 7", 1, "tenant of key shop 7 has 0 of 2 units left, list needs 1"},
		{"other", 11, "tenant of key other allows 10 units"},
		{"other", 10, ""},
		{"", 11, "tenant allows 10 units"},
	} {
		if err := spend(step.key, step.units); (err == nil) != (step.want == "") || err != nil &&
			!strings.Contains(err.Error(), step.want) {
			t.Errorf("%q, %d: %v; want %q", step.key, step.units, err, step.want)
		}
	}
	found, err := guard.TopKeys(t.Context(), account, 1)
	if err != nil || len(found.Fullest) != 1 ||
		found.Used["tenant"] != 3 || found.Full["tenant"] != 2 {
		t.Errorf("%+v, %v; want 2 of 3 keys full", found, err)
	}
	probed := call("list", 6)
	probed.Key = "acme"
	if err := guard.Probe(t.Context(), probed); err == nil || !strings.Contains(err.Error(), "5 of 50") {
		t.Errorf("probe: %v", err)
	}
}

// TestTheLowestLimitOfAKeyHolds: if two configurations disagree, a key has the
// lower of what both say of it, whichever of them names the key.
func TestTheLowestLimitOfAKeyHolds(t *testing.T) {
	ledger := memledger.Open(nil)
	guardOf := func(config string, limit quota.Units, keys map[string]quota.Units) *quota.Guard {
		t.Helper()
		b := perKey("tenant", limit, time.Hour)
		b.Keys, b.Config = keys, quota.Config{Name: config}
		guard, err := quota.NewGuard(ledger, []quota.Budget{b}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Spend(t.Context(), call("list", 1)); err != nil {
			t.Fatal(err)
		}
		return guard
	}
	a := guardOf("a", 100, map[string]quota.Units{"acme": 500, "shop 7": 20, "same": 300})
	b := guardOf("b", 80, map[string]quota.Units{"beta": 10, "same": 300})
	for _, c := range []struct {
		guard *quota.Guard
		key   string
		limit quota.Units
	}{
		{a, "acme", 80}, {b, "acme", 80}, {a, "shop 7", 20}, {b, "shop 7", 20},
		{a, "beta", 10}, {b, "beta", 10}, {a, "same", 300}, {b, "same", 300}, {a, "other", 80},
	} {
		probed := call("list", 1)
		probed.Key = c.key
		granted, err := c.guard.Spend(t.Context(), probed)
		if err != nil {
			t.Fatal(err)
		}
		if left, ok := granted.Tightest(); !ok || left.Limit() != c.limit {
			t.Errorf("%s has a limit of %d; want %d", c.key, left.Limit(), c.limit)
		}
	}
}

// TestACooldownMayStopOneKey sets a cooldown of one key, lists it, and lifts
// it.
func TestACooldownMayStopOneKey(t *testing.T) {
	guard := newGuard(t, nil, perKey("tenant", 100, time.Hour))
	if err := guard.Cool(t.Context(), quota.Cooldown{Account: account, Budget: "tenant", Key: "acme", For: time.Minute,
		Reason: "429"}); err != nil {
		t.Fatal(err)
	}
	spend := func(key string) error {
		c := call("list", 1)
		c.Key = key
		_, err := guard.Spend(t.Context(), c)
		return err
	}
	if err := spend("acme"); err == nil || !strings.Contains(err.Error(), "tenant of key acme is in cooldown (429)") {
		t.Errorf("acme: %v", err)
	}
	if err := errors.Join(spend("globex"), spend("")); err != nil {
		t.Errorf("the others: %v", err)
	}
	_, held, err := guard.Cooldowns(t.Context(), account)
	if err != nil || len(held) != 1 || held[0].Key != "acme" || held[0].Budget != "tenant" {
		t.Errorf("%+v, %v; want that of acme", held, err)
	}
	if err := errors.Join(guard.ClearCooldown(t.Context(), account, "tenant"), spend("acme")); err == nil {
		t.Error("lifting that of all keys lifted that of one")
	}
	if err := errors.Join(guard.ClearKeyCooldown(t.Context(), account, "tenant", "acme"), spend("acme")); err != nil {
		t.Error(err)
	}
	if err := guard.Cool(t.Context(), quota.Cooldown{Account: account, Key: strings.Repeat("k", 257),
		For: time.Minute}); !errors.Is(err, quota.ErrBadCall) {
		t.Errorf("a key of 257 bytes: %v", err)
	}
}

// TestATransportsContextNamesTheKey: the key of a request's context comes
// before the one that Price finds.
func TestATransportsContextNamesTheKey(t *testing.T) {
	guard := newGuard(t, nil, budget("day", 10, 24*time.Hour))
	for named, want := range map[string]string{"acme": "acme", "": "found"} {
		var got string
		ctx := quota.WithRequestOptions(t.Context(), func(terms *quota.RequestOptions) {
			terms.Key, terms.Granted = named, func(g *quota.Grant) { got = g.Call().Key }
		})
		transport := &quota.Transport{Guard: guard, Base: tripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		}), Price: func(*http.Request) (quota.Call, error) {
			return quota.Call{Account: account, Key: "found", Method: "list", Units: 1}, nil
		}}
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", nil)
		if _, err := transport.RoundTrip(req); err != nil || got != want {
			t.Errorf("key %q in the context: charged to %q, want %q: %v", named, got, want, err)
		}
	}
}

package alert_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/alert"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// site is one host whose alerts are checked.
type site struct {
	*testing.T
	*receiver
	*client.Client
	dir string
}

func newSite(t *testing.T, budgets, on string) *site {
	s := &site{T: t, receiver: newReceiver(t, 0), dir: t.TempDir()}
	s.Client = newClientOf(t, "costs: {search: 100, items: 1}\nbudgets:\n"+budgets,
		"{webhook: "+s.URL+", on: ["+on+"]}", sqlite(s.dir), s.dir)
	return s
}

// call spends units of a method, and returns the grant and whether it is
// refused.
func (s *site) call(method string, units quota.Units, region, key string) (*quota.Grant, bool) {
	s.Helper()
	grant, err := s.Guard().Spend(s.Context(), quota.Call{Account: "p", Method: method, Units: units, Key: key,
		Caller: quota.Caller{Region: region}})
	if err != nil && !errors.Is(err, quota.ErrRefused) {
		s.Fatal(err)
	}
	return grant, err != nil
}

// wants checks what one check sends, in its order.
func (s *site) wants(want ...string) {
	s.Helper()
	alert.New(s.Client, nil).Impatient().Check(s.Context())
	texts := s.texts()
	for i, text := range texts {
		if len(texts) != len(want) || !strings.Contains(text, want[i]) {
			s.Fatalf("%q; want %q", texts, want)
		}
	}
	if len(texts) != len(want) {
		s.Fatalf("%q; want %q", texts, want)
	}
}

// TestNothingIsOverWhileCallsAreRefused: that a budget grants calls again was
// sent once another one, or a cooldown, refused them for longer.
func TestNothingIsOverWhileCallsAreRefused(t *testing.T) {
	s := newSite(t, "  - {name: searches, limit: 200, window: 1h, methods: [search]}\n"+
		"  - {name: total, limit: 1000, window: 24h}\n", "refused, cooldown")
	searches, _ := s.call("search", 200, "", "")
	s.call("search", 100, "", "")
	s.wants("p: all search calls refused")
	items, _ := s.call("items", 800, "", "")
	s.wants("units of total are used")
	if err := s.Guard().Cool(t.Context(), quota.Cooldown{Account: "p", For: 30 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	s.wants("account p is in cooldown until")
	if err := s.Guard().ClearCooldown(t.Context(), "p", ""); err != nil {
		t.Fatal(err)
	}
	if err := searches.Settle(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	if err := items.Settle(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s.wants("the cooldown of account p is over", "searches of p grants calls again", "total of p grants calls again")
	s.wants()
}

// TestAGrantOfAFloorEndsNoRefusal of another region.
func TestAGrantOfAFloorEndsNoRefusal(t *testing.T) {
	s := newSite(t, "  - {name: total, limit: 1000, window: 24h, floor: {IN: 300}}\n", "refused")
	s.call("search", 650, "US", "")
	s.call("search", 100, "US", "")
	s.wants("p: all search calls, except those of region IN, refused")
	s.call("search", 100, "IN", "")
	s.wants()
}

// TestARefusalOfAKeyEnds: its end was never sent, nor was its next refusal.
func TestARefusalOfAKeyEnds(t *testing.T) {
	s := newSite(t, "  - {name: shop, limit: 100, window: 24h, per: key}\n", "refused")
	for range 2 {
		one, _ := s.call("search", 100, "", "one")
		record(s, &quota.RefusedError{Account: "p", Budget: "shop", Method: "search", Key: "one"})
		s.wants("p: all search calls of key one refused")
		if err := one.Settle(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		s.wants("shop of p grants calls of key one again")
		s.wants()
	}
}

func record(s *site, r *quota.RefusedError) {
	s.Helper()
	if err := s.Guard().RecordRefusal(s.Context(), r); err != nil {
		s.Fatal(err)
	}
}

// TestNoForecastOfABudgetThatRefuses: that it would refuse its first call soon
// was sent of one that refused already.
func TestNoForecastOfABudgetThatRefuses(t *testing.T) {
	s := newSite(t, "  - {name: total, limit: 150, window: 24h}\n", "exhaustion")
	s.call("search", 100, "", "")
	s.call("search", 100, "", "")
	o := &alert.Options{Planned: func(context.Context) ([]time.Time, error) {
		return []time.Time{time.Now().Add(time.Hour)}, nil
	}}
	alert.New(s.Client, o).Impatient().Check(t.Context())
	if texts := s.texts(); len(texts) > 0 {
		t.Errorf("%q; want none", texts)
	}
}

// TestWhatIsRefusedForLongIsTold: also if it may be granted in two minutes, as
// it might have been before.
func TestWhatIsRefusedForLongIsTold(t *testing.T) {
	told := []string{"p: all search calls refused"}
	for since, want := range map[time.Duration][]string{6 * time.Minute: told, time.Minute: {}} {
		s := newSite(t, "  - {name: total, limit: 100, window: 24h}\n", "refused")
		at := time.Now().Add(2*time.Minute - 24*time.Hour)
		ledger, err := sqliteledger.Open(filepath.Join(s.dir, "ration.db"),
			&sqliteledger.Options{Now: func() time.Time { return at }})
		if err != nil {
			t.Fatal(err)
		}
		guard, err := quota.NewGuard(ledger, s.Table().Budgets(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "search", Units: 100}); err != nil {
			t.Fatal(err)
		}
		at = time.Now().Add(-since)
		r := &quota.RefusedError{Account: "p", Budget: "total", Method: "search"}
		if err := guard.RecordRefusal(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		ledger.Close()
		s.wants(want...)
	}
}

// TestACooldownIsToldOnce, again if it is set for much longer, when it is over,
// and if it recurs in the same hour.
func TestACooldownIsToldOnce(t *testing.T) {
	s := newSite(t, "  - {name: total, limit: 100, window: 24h}\n", "cooldown")
	cool := func(budget string, time time.Duration) {
		t.Helper()
		if err := s.Guard().Cool(t.Context(), quota.Cooldown{Account: "p", Budget: budget, For: time}); err != nil {
			t.Fatal(err)
		}
	}
	for _, longer := range []time.Duration{20 * time.Hour, 25 * time.Hour} {
		cool("total", 10*time.Minute)
		s.wants("total is in cooldown until")
		s.wants()
		cool("total", longer)
		s.wants("total is in cooldown until")
		s.wants()
		if err := s.Guard().ClearCooldown(t.Context(), "p", "total"); err != nil {
			t.Fatal(err)
		}
		s.wants("the cooldown of total is over")
		s.wants()
	}
}

package report_test

import (
	"errors"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// stand is a guard whose account p resets at midnight UTC, and account q never.
type stand struct {
	now   time.Time
	table *costs.Table
	guard *quota.Guard
}

func newStand(t *testing.T) *stand {
	t.Helper()
	table, err := costs.Parse("costs.yaml", []byte(`version: 1
upstream: u
account: p
resets: {day: UTC}
costs: {m: 1}
budgets: [{name: all, limit: 100, window: 1h}, {name: few, limit: 10, window: 1h}]
---
version: 1
upstream: v
account: q
costs: {n: 1}
budgets: [{name: other, limit: 100, window: 1h}]
`))
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{now: noon, table: table}
	ledger := memledger.Open(&memledger.Options{Now: func() time.Time { return s.now }})
	if s.guard, err = quota.NewGuard(ledger, table.Budgets(), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stand) set(t *testing.T, c quota.Cooldown) (*report.Cooldown, error) {
	t.Helper()
	at, set, err := report.SetCooldown(t.Context(), s.guard, s.table, c)
	if err == nil && !at.Equal(s.now) {
		t.Errorf("set at %s; want the ledger's %s", at, s.now)
	}
	return set, err
}

// notes returns the methods and jobs of an account's log.
func (s *stand) notes(t *testing.T, account string) (notes []string) {
	t.Helper()
	for e, err := range s.guard.Entries(t.Context(), quota.Query{Account: account}) {
		if err != nil {
			t.Fatal(err)
		}
		notes = append(notes, e.Method+" "+e.Caller.Job)
	}
	return notes
}

// TestALiftedCooldownIsNotTooShort: one that another process has lifted since
// it was set was said to be too short.
func TestALiftedCooldownIsNotTooShort(t *testing.T) {
	s := newStand(t)
	happens := func() {} // after each append, also that of a cooldown
	ledger := engine.WatchLedger(s.guard.Ledger(), func(op, _ string, _ time.Duration, err error) error {
		if op == "append" {
			happens()
		}
		return err
	})
	guard, err := quota.NewGuard(ledger, s.table.Budgets(), nil)
	if err != nil {
		t.Fatal(err)
	}
	other := s.guard
	s.guard = guard
	lift := func() {
		if err := other.ClearCooldown(t.Context(), "p", "few"); err != nil {
			t.Error(err)
		}
	}
	expire := func() { s.now = s.now.Add(time.Minute) }
	const lifted = "few: the cooldown was set, and another process has lifted it since: set it again if it must hold"
	const over = "few: the cooldown is over already; give a longer one"
	for _, c := range []struct {
		happens func()
		wanted  quota.Cooldown
		want    string
	}{
		{lift, quota.Cooldown{For: time.Minute}, lifted},
		{lift, quota.Cooldown{Until: noon.Add(time.Minute)}, lifted},
		{lift, quota.Cooldown{}, lifted},
		{expire, quota.Cooldown{Until: noon.Add(time.Minute)}, over},
		{expire, quota.Cooldown{For: time.Minute}, over},
	} {
		happens = c.happens
		c.wanted.Account, c.wanted.Budget = "p", "few"
		set, err := s.set(t, c.wanted)
		if gone, ok := errors.AsType[*report.GoneError](err); !ok || gone.Error() != c.want || set != nil {
			t.Errorf("%+v: %+v, %v; want %s", c.wanted, set, err, c.want)
		}
	}
}

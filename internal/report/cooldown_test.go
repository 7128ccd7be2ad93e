package report_test

import (
	"errors"
	"slices"
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

func TestSetLastsUntilTheNextReset(t *testing.T) {
	s := newStand(t)
	set, err := s.set(t, quota.Cooldown{Account: "p", Budget: "all", Reason: "by hand"})
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	if err != nil || set.Until.Before(midnight) || set.Until.After(midnight.Add(5*time.Minute)) ||
		*set.Budget != "all" || set.Reason != "by hand" {
		t.Fatalf("%+v, %v; want all until the upstream's day ends", set, err)
	}
	if set.In != int64(set.Until.Sub(noon)/time.Second) {
		t.Errorf("in %d seconds; want those until %s", set.In, set.Until)
	}
	if got, want := s.notes(t, "p"), []string{"cooldown.set cooldown:all"}; !slices.Equal(got, want) {
		t.Errorf("the log says %q; want %q", got, want)
	}
}

func TestSetRejectsAnEndThatIsOver(t *testing.T) {
	s := newStand(t)
	for want, c := range map[string]quota.Cooldown{
		"2026-11-20T12:00:00Z is over; " +
			"it is 2026-11-20T12:00:00Z": {Account: "p", Until: noon},
		"reset: costs.yaml does not say when the upstream of account q resets; " +
			"add resets: to it, or give a time": {Account: "q"},
	} {
		set, err := s.set(t, c)
		if until, ok := errors.AsType[*report.UntilError](err); !ok || until.Error() != want || set != nil {
			t.Errorf("%+v, %v; want %s", set, err, want)
		}
	}
	if notes := append(s.notes(t, "p"), s.notes(t, "q")...); len(notes) > 0 {
		t.Errorf("the log says %q; want nothing", notes)
	}
}

// TestSetReportsTheCooldownOfTheAccount: it outlasts the one that was set.
func TestSetReportsTheCooldownOfTheAccount(t *testing.T) {
	s := newStand(t)
	if _, err := s.set(t, quota.Cooldown{Account: "p", For: time.Hour, Reason: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	set, err := s.set(t, quota.Cooldown{Account: "p", Budget: "few", For: time.Minute})
	if err != nil || set.Budget != nil || set.Reason != "maintenance" || set.In != 3600 {
		t.Errorf("%+v, %v; want the account's, for an hour", set, err)
	}
}

// TestALiftedCooldownIsNotTooShort: one that another process has lifted since
// it was set was said to be too short.
func TestALiftedCooldownIsNotTooShort(t *testing.T) {
	s := newStand(t)
	happens := func() {} // as soon as a cooldown is set
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
		{expire, quota.Cooldown{For: time.Minute}, over},
		{expire, quota.Cooldown{Until: noon.Add(2 * time.Minute)}, over},
	} {
		happens = func() { happens = func() {}; c.happens() }
		c.wanted.Account, c.wanted.Budget = "p", "few"
		set, err := s.set(t, c.wanted)
		if gone, ok := errors.AsType[*report.GoneError](err); !ok || gone.Error() != c.want || set != nil {
			t.Errorf("%+v: %+v, %v; want %s", c.wanted, set, err, c.want)
		}
	}
}

func TestClearLeavesTheOtherCooldowns(t *testing.T) {
	s := newStand(t)
	for _, c := range []quota.Cooldown{{Account: "p", For: time.Hour, Reason: "maintenance"},
		{Account: "p", Budget: "few", For: 2 * time.Hour, Reason: "spent"}} {
		if _, err := s.set(t, c); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		budget string
		lifted bool
		still  int
	}{{"all", false, 1}, {"", true, 1}, {"few", true, 0}, {"few", false, 0}} {
		at, out, err := report.ClearCooldown(t.Context(), s.guard, "p", step.budget, "")
		if err != nil || !at.Equal(noon) || out.Lifted != step.lifted || len(out.Still) != step.still ||
			(out.Until == nil) == step.lifted {
			t.Errorf("clear %q: %+v, %v; want lifted %t, and %d still in force", step.budget, out, err, step.lifted,
				step.still)
		}
	}
	if _, list, err := report.ListCooldowns(t.Context(), s.guard, s.table.Accounts()); err != nil || len(list) != 0 ||
		list == nil {
		t.Errorf("%+v, %v; want none in force", list, err)
	}
	want := []string{"cooldown.set cooldown", "cooldown.set cooldown:few", "cooldown.clear cooldown",
		"cooldown.clear cooldown:few"}
	if got := s.notes(t, "p"); !slices.Equal(got, want) {
		t.Errorf("the log says %q; want %q", got, want)
	}
}

package report_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
)

// open returns a client with a new SQLite ledger, and a budget of 10 units.
func open(t *testing.T) *client.Client {
	t.Helper()
	table, err := costs.Parse("costs.yaml",
		[]byte("version: 1\nupstream: u\naccount: p\ncosts: {m: 1, big: 6}\nbudgets: [{name: all, limit: 10, "+
			"window: 1h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c, err := client.New(table, &client.Options{Ledger: "sqlite:" + filepath.Join(dir, "ration.db"), State: dir,
		Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// refuse spends 9 units for IN and returns the refusal of the next call.
func refuse(t *testing.T, c *client.Client) *client.Refusal {
	t.Helper()
	call := func(units quota.Units) error {
		_, err := c.Guard().Spend(t.Context(),
			quota.Call{Account: "p", Method: "big", Units: units, Caller: quota.Caller{Region: "IN"}})
		return err
	}
	if err := call(9); err != nil {
		t.Fatal(err)
	}
	if err := call(6); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("%v; want a refusal", err)
	}
	kept, err := client.LastRefusal(c.State())
	if err != nil || kept == nil {
		t.Fatalf("%v, %v; want the refusal", kept, err)
	}
	return kept
}

func TestExplanationNamesWhatWouldHaveHelped(t *testing.T) {
	c := open(t)
	kept := refuse(t, c)
	e := report.NewWhy(kept, time.Now())
	if *e.Limit != 15 || e.Short != 5 || e.Held != 0 || len(e.Helped) != 2 || e.Now.Granted != nil {
		t.Fatalf("from the refusal alone: %+v; want 5 units short, and a limit of 15", e)
	}
	if err := e.ReadLedger(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if e.Held != 9 || *e.Window != "1h" || e.ByRegion["IN"] != 9 || *e.Now.Granted ||
		!strings.HasPrefix(*e.Now.Reason, "all has 1 of 10 units left, it needs 6; it fits from 20") {
		t.Errorf("%+v; want 9 units by IN, and a refusal now", e)
	}
	want := []string{"a limit of 15 units or more for all", "5 units less spent before; the region IN had 9"}
	if !slices.Equal(e.Helped[:2], want) || !strings.HasPrefix(e.Helped[2], "a call ") || len(e.Helped) != 3 {
		t.Errorf("would have helped: %q", e.Helped)
	}
}

// TestACooldownsExplanationNamesItsCommand names the command that lifts it.
func TestACooldownsExplanationNamesItsCommand(t *testing.T) {
	c := open(t)
	kept := refuse(t, c)
	if err := c.Guard().Cool(t.Context(), quota.Cooldown{Account: "p", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	kept.Reason, kept.Budget = string(quota.ReasonCooldown), nil
	e := report.NewWhy(kept, time.Now())
	if err := e.ReadLedger(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if *e.Now.Granted || !strings.HasPrefix(*e.Now.Reason, "account p is in cooldown until ") || e.Limit != nil {
		t.Errorf("%+v; want a refusal by the cooldown", e)
	}
	if last := e.Helped[len(e.Helped)-1]; !strings.HasSuffix(last, "ration cooldown clear --account p") {
		t.Errorf("would have helped: %q", e.Helped)
	}
}

// TestAMovedAccountsExplanationNamesItsLedger names the new ledger.
func TestAMovedAccountsExplanationNamesItsLedger(t *testing.T) {
	c := open(t)
	e := report.NewWhy(refuse(t, c), time.Now())
	move := quota.Move{Account: "p", Ledger: "redis://there:6379/0"}
	if err := testledger.CloseAccount(t.Context(), c.Guard().Ledger(), move); err != nil {
		t.Fatal(err)
	}
	if err := e.ReadLedger(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(e.Now.Reasons, func(reason string) bool {
		return strings.HasPrefix(reason, `account "p" has moved to the ledger redis://there:6379/0; `)
	}) {
		t.Errorf("%q; want the new ledger", e.Now.Reasons)
	}
}

// TestExplanationNamesAllThatRefuses: a cooldown hid the budget, which refuses
// the call for longer.
func TestExplanationNamesAllThatRefuses(t *testing.T) {
	c := open(t)
	kept := refuse(t, c)
	if err := c.Guard().Cool(t.Context(), quota.Cooldown{Account: "p", For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	e := report.NewWhy(kept, time.Now())
	if err := e.ReadLedger(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if len(e.Now.Reasons) != 2 {
		t.Fatalf("%q; want both reasons, once each", e.Now.Reasons)
	}
	cooldown, budget := e.Now.Reasons[0], e.Now.Reasons[1]
	if !strings.HasPrefix(cooldown, "account p is in cooldown until ") ||
		!strings.HasPrefix(budget, "all has 1 of 10 units left, it needs 6; it fits from ") {
		t.Errorf("%q; want the cooldown, and the budget", e.Now.Reasons)
	}
	if *e.Now.Reason != budget {
		t.Errorf("%s; want the reason that lasts longest", *e.Now.Reason)
	}
}

// TestExplanationAsksNoOtherLedger: another one knows nothing of the window.
func TestExplanationAsksNoOtherLedger(t *testing.T) {
	e := report.NewWhy(refuse(t, open(t)), time.Now())
	if err := e.ReadLedger(t.Context(), open(t)); err != nil {
		t.Fatal(err)
	}
	if e.Now.Granted != nil || !strings.HasPrefix(*e.Now.Reason, "it was another ledger, sqlite:") || e.Window != nil ||
		*e.Limit != 15 {
		t.Errorf("%+v; want what the refusal alone says", e)
	}
}

func TestAnExplanationOfNoRefusalHasNoNulls(t *testing.T) {
	if e := report.NewWhy(nil, time.Now()); e.Refusal != nil || e.ByMethod == nil || e.Helped == nil {
		t.Errorf("%+v; want an empty document without nulls for its lists", e)
	}
}

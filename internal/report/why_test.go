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

// TestAMovedAccountsExplanationNamesItsLedger names the new ledger.
func TestAMovedAccountsExplanationNamesItsLedger(t *testing.T) {
	c := open(t)
	e := report.NewWhy(refuse(t, c), time.Now())
	move := quota.MovedError{Account: "p", Ledger: "redis://there:6379/0"}
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

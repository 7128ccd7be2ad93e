package client_test

import (
	"errors"
	"testing"

	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota"
)

// TestAClosedClientGrantsNothing: a program that still sends after Close,
// such as a goroutine that main does not wait for, is refused. Its ledger is
// not down, so nothing is granted beside it, and no outage is reported.
func TestAClosedClientGrantsNothing(t *testing.T) {
	for name, ledger := range map[string]func(*testing.T) string{
		"SQLite": func(*testing.T) string { return "" },
		"Redis":  func(t *testing.T) string { return "ledger: " + servers.StartRedis(t).URL() + "\n" },
	} {
		t.Run(name, func(t *testing.T) {
			c := newStand(t, ledger(t)).open()
			if err := get(c, "get"); err != nil {
				t.Fatal(err)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := get(c, "get"); !errors.Is(err, quota.ErrLedgerClosed) || errors.Is(err, quota.ErrLedgerDown) {
					t.Errorf("%v; want ErrLedgerClosed", err)
				}
			}
			if _, err := c.Guard().Balances(t.Context()); !errors.Is(err, quota.ErrLedgerClosed) {
				t.Errorf("balances: %v; want ErrLedgerClosed", err)
			}
		})
	}
}

package client_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota"
)

// TestPostgresIsNamedLikeOtherLedgers: by the options, RATION_LEDGER and
// costs.yaml. Each process sees the calls of those before it.
func TestPostgresIsNamedLikeOtherLedgers(t *testing.T) {
	server := servers.StartPostgres(t)
	for used, s := range []*stand{newStand(t, ""), newStand(t, ""), newStand(t, "ledger: "+server.URL()+"\n")} {
		switch used {
		case 0:
			s.options.Ledger = server.URL()
		case 1:
			s.options.Getenv = func(name string) string {
				return map[string]string{"RATION_LEDGER": server.URL()}[name]
			}
		}
		c := s.open()
		if err := get(c, "get"); err != nil {
			t.Fatal(err)
		}
		if name := c.LedgerName(); name != "postgres://postgres@"+server.Addr+"/postgres" {
			t.Errorf("it is named %s", name)
		}
		if balances, err := c.Guard().Balances(t.Context()); err != nil || int(balances[0].Used) != used+1 {
			t.Errorf("%+v, %v; want %d used", balances, err, used+1)
		}
	}
}

// TestPostgresMayBeDownFromTheStart: a process that starts in an outage sends
// what when_ledger_down allows, and the next one records it.
func TestPostgresMayBeDownFromTheStart(t *testing.T) {
	if testing.Short() {
		t.Skip("stops and starts a Postgres server, 4 seconds")
	}
	server := servers.StartPostgres(t)
	s := newStand(t, "ledger: "+server.URL()+"\n")
	s.options.Report = func(quota.Call, error) {}
	server.Stop()
	c := s.open()
	if err := get(c, "get"); err != nil {
		t.Error(err)
	}
	if err := get(c, "export"); !errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("%v; want it refused", err)
	}
	server.Restart(t)
	after := s.open()
	if err := get(after, "get"); err != nil {
		t.Error(err)
	}
	if balances, err := after.Guard().Balances(t.Context()); err != nil || balances[0].Used != 2 {
		t.Errorf("%+v, %v; want both calls", balances, err)
	}
	if units, err := after.Unrecorded(); err != nil || units != 0 {
		t.Errorf("%d units, %v; want all recorded", units, err)
	}
}

// TestPostgresNamesHoldNoSecret: and are the same for two spellings of one
// database.
func TestPostgresNamesHoldNoSecret(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://jobs:s3cret@db/quota?sslmode=disable":      "postgres://jobs@db/quota",
		"postgresql://jobs@DB:5432/quota?schema=ration":        "postgres://jobs@db/quota",
		"postgres://jobs@db/quota?schema=staging&password=s3c": "postgres://jobs@db/quota?schema=staging",
		"postgres://b:6543,A:5432/quota":                       "postgres://a,b:6543/quota",
		"postgres://localhost:5432/quota":                      "postgres://127.0.0.1/quota",
		"postgres:///quota?host=/run/postgresql&sslpassword=x": "postgres:///quota?host=%2Frun%2Fpostgresql",
		"postgres://jobs:s3cret@ho st/quota":                   "postgres:",
	} {
		if name := client.LedgerName(&costs.Table{}, &client.Options{Ledger: address}); name != want {
			t.Errorf("%s is named %s; want %s", address, name, want)
		}
	}
}

// TestPostgresAddressesAreChecked: what is wrong, what to do, and no secret.
func TestPostgresAddressesAreChecked(t *testing.T) {
	const advice = "put it in ~/.pgpass, PGPASSWORD or the file that PGPASSFILE names"
	for address, want := range map[string]string{
		"postgres://jobs:s3cret@db/quota":          advice,
		"postgres://jobs@db/quota?password=s3cret": advice,
		"postgres://db/quota?sslpassword=s3cret":   advice,
		"postgres://jobs:s3cret@ho st/quota":       "write postgres://USER@HOST:PORT/DATABASE",
		"postgres://db/quota?connect_timeout=soon": "a parameter of the address is malformed",
		"postgrs://db/quota":                       "write postgres://",
	} {
		err := client.CheckLedger(&costs.Table{}, &client.Options{Ledger: address})
		if _, ok := errors.AsType[*client.ConfigError](err); !ok || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v; want %s", address, err, want)
		}
	}
	s := newStand(t, "ledger: postgres://127.0.0.1/quota?sslmode=verify-full&sslrootcert=ca.pem\n")
	table, err := costs.Load(filepath.Join(s.dir, "costs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CheckLedger(table, &s.options); err == nil ||
		!strings.Contains(err.Error(), filepath.Join(s.dir, "ca.pem")) {
		t.Errorf("%v; want that there is no ca.pem beside costs.yaml", err)
	}
}

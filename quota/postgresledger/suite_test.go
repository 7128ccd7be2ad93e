package postgresledger_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/postgresledger"
)

func open(t testing.TB, url string, o *postgresledger.Options) *postgresledger.Ledger {
	t.Helper()
	l, err := postgresledger.Open(url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// run runs the contract on a server, each test in a schema of its own.
func run(t *testing.T, server *servers.Postgres, name string) {
	var schemas atomic.Int64
	ledgertest.Run(t, func(t *testing.T, now func() time.Time) func() engine.Ledger {
		schema := fmt.Sprintf("%s_%d", name, schemas.Add(1))
		return func() engine.Ledger {
			return open(t, server.URL(), &postgresledger.Options{Now: now, Schema: schema})
		}
	})
}

func TestContract(t *testing.T) { run(t, servers.StartPostgres(t), "direct") }

// TestContractBehindPgBouncer runs in PgBouncer's transaction mode.
func TestContractBehindPgBouncer(t *testing.T) {
	if testing.Short() {
		t.Skip("starts PgBouncer and runs TestContract again, 3 seconds")
	}
	run(t, servers.StartPgBouncer(t, servers.StartPostgres(t)), "pooled")
}

// TestContractOfSerializableTransactions: the server's default isolation is
// stricter than read committed.
func TestContractOfSerializableTransactions(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server and runs TestContract again, 4 seconds")
	}
	run(t, servers.StartPostgres(t, "default_transaction_isolation=serializable"), "serializable")
}

package sqliteledger_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

func open(t testing.TB, path string, o *sqliteledger.Options) *sqliteledger.Ledger {
	t.Helper()
	l, err := sqliteledger.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func fresh(t testing.TB) string { return filepath.Join(t.TempDir(), "ration.db") }

func TestContract(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T, now func() time.Time) func() engine.Ledger {
		path := fresh(t)
		return func() engine.Ledger {
			return open(t, path, &sqliteledger.Options{Now: now, Sync: sqliteledger.Normal})
		}
	})
}

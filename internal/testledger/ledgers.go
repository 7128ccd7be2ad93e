package testledger

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// Each runs a test on every ledger, with a clock that the test sets.
func Each(t *testing.T, at time.Time, test func(t *testing.T, l quota.Ledger, clock *time.Time)) {
	for name, open := range map[string]func(t *testing.T, now func() time.Time) (quota.Ledger, error){
		"memory": func(_ *testing.T, now func() time.Time) (quota.Ledger, error) {
			return memledger.Open(&memledger.Options{Now: now}), nil
		},
		"SQLite": func(t *testing.T, now func() time.Time) (quota.Ledger, error) {
			return sqliteledger.Open(filepath.Join(t.TempDir(), "ration.db"),
				&sqliteledger.Options{Now: now, Sync: sqliteledger.Normal})
		},
		"Redis": func(t *testing.T, now func() time.Time) (quota.Ledger, error) {
			return redisledger.Open(servers.StartRedis(t).URL(), &redisledger.Options{Now: now})
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := at
			l, err := open(t, func() time.Time { return clock })
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			test(t, l, &clock)
		})
	}
}

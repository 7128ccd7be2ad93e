package client

import (
	"testing"

	"github.com/ration-dev/ration/costs"
)

// TestLedgerName checks that names hold no secret and differ where ledgers may.
func TestLedgerName(t *testing.T) {
	for address, want := range map[string]string{
		"redis://:s3cret@host":         "redis://host:6379/0",
		"redis://host:6379/0":          "redis://host:6379/0",
		"unix:///run/redis.sock?db=2":  "unix:///run/redis.sock?db=2",
		"redis+sentinel://a,b/main/4":  "redis+sentinel://a:26379,b:26379/main/4",
		"rediss://host?ca=/etc/ca.pem": "rediss://host:6379/0",
		"sqlite:/srv/a.db?sync=normal": "sqlite:/srv/a.db",
	} {
		if name := LedgerName(&costs.Table{}, &Options{Ledger: address}); name != want {
			t.Errorf("%s is named %s; want %s", address, name, want)
		}
	}
}

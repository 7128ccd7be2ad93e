package client

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
)

// TestCertificatesAreBesideCostsYAML: a relative ca= in ledger: was looked for
// in the folder of the process, as that of cron, unlike the file of sqlite:.
func TestCertificatesAreBesideCostsYAML(t *testing.T) {
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"my ca.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})),
		"costs.yaml": "version: 1\naccount: p\nledger: rediss://127.0.0.1:1/0?ca=my%20ca.pem&protocol=2\ncosts: " +
			"{list: 1}\nbudgets: [{name: day, limit: 100, window: 24h}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Open(filepath.Join(dir, "costs.yaml"), &Options{State: dir, Replica: filepath.Join(dir, "replica"),
		Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestALedgersNameHoldsNoSecret checks that names hold no secret, differ where
// ledgers may, and are the same for two spellings of one server.
func TestALedgersNameHoldsNoSecret(t *testing.T) {
	for address, want := range map[string]string{
		"redis://:s3cret@host":         "redis://host:6379/0",
		"redis://host:6379/0":          "redis://host:6379/0",
		"unix:///run/redis.sock?db=2":  "unix:///run/redis.sock?db=2",
		"unix:///run/redis.sock?db=0":  "unix:///run/redis.sock", // two replicas of one ledger
		"redis+sentinel://a,b/main/4":  "redis+sentinel://a:26379,b:26379/main/4",
		"rediss://host?ca=/etc/ca.pem": "rediss://host:6379/0",
		"sqlite:/srv/a.db?sync=normal": "sqlite:/srv/a.db",
		"redis://localhost":            "redis://127.0.0.1:6379/0",
		"redis://127.0.0.1:6379":       "redis://127.0.0.1:6379/0",
		"redis://localhost.example/3":  "redis://localhost.example:6379/3",
		"redis://[::1]:7000":           "redis://[::1]:7000/0",
		"redis+sentinel://B,a/Main":    "redis+sentinel://a:26379,b:26379/Main/0",
		"redis+cluster://c,LOCALHOST":  "redis+cluster://127.0.0.1:6379,c:6379",
		"redis://s3cret":               "redis://s3cret:6379/0",
		"redis://:s3cret@ho st":        "(unreadable address)",
	} {
		if name := LedgerName(&costs.Table{}, &Options{Ledger: address}); name != want {
			t.Errorf("%s is named %s; want %s", address, name, want)
		}
	}
}

func TestAPasswordInAnAddressIsRefused(t *testing.T) {
	for address, variable := range map[string]string{
		"redis://:s3cret@host": "RATION_REDIS_PASSWORD",
		"redis+sentinel://a:1,b:2/main?sentinel_password=s3cret": "RATION_REDIS_SENTINEL_PASSWORD",
	} {
		err := checkAddress(address)
		if err == nil || !strings.Contains(err.Error(), "put it in "+variable+",") ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v; want %s", address, err, variable)
		}
	}
}

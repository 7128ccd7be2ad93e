// Package ledgers runs tests on each of the ledgers.
package ledgers

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

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
			return sqliteledger.Open(filepath.Join(t.TempDir(), "ration.db"), &sqliteledger.Options{Now: now, Sync: sqliteledger.Normal})
		},
		"Redis": func(t *testing.T, now func() time.Time) (quota.Ledger, error) {
			return redisledger.Open(StartRedis(t), &redisledger.Options{Now: now})
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

// StartRedis starts a redis-server on a free loopback port, which is killed when the
// test ends, and returns its URL. Without a redis-server on this machine, the test is
// skipped, or fails if RATION_REQUIRE_REDIS is set.
func StartRedis(t *testing.T) string {
	t.Helper()
	switch _, err := exec.LookPath("redis-server"); {
	case err == nil:
	case os.Getenv("RATION_REQUIRE_REDIS") != "":
		t.Fatalf("%v, and RATION_REQUIRE_REDIS is set: make deps installs it", err)
	default:
		t.Skipf("SKIPPED, %v: make deps installs it", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	listener.Close()
	server := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	for end := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return "redis://" + address
		}
		if time.Now().After(end) {
			t.Fatal("redis-server did not start within ten seconds")
		}
	}
}

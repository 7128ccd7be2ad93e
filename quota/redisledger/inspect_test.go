package redisledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestInspectReportsExactlyTheProblems finds exactly the problems of real
// servers.
func TestInspectReportsExactlyTheProblems(t *testing.T) {
	if testing.Short() {
		t.Skip("starts servers of each kind, 2 seconds")
	}
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--repl-diskless-sync-delay", "0")
	replica := redistest.Start(t, "--replicaof", server.Host()+" "+server.Port(), "--appendonly", "yes")
	redistest.Await(t, "the replica to follow", func() bool { return strings.Contains(replica.Info(t), "master_link_status:up") })
	node := redistest.Start(t, "--cluster-enabled", "yes", "--appendonly", "yes")
	node.AddSlots(t, 0, redistest.Slots)
	redistest.Await(t, "the cluster", func() bool {
		return strings.Contains(node.Do(t, "cluster", "info").(string), "cluster_state:ok")
	})
	server.Do(t, "config", "set", "min-replicas-to-write", "1")
	server.Do(t, "acl", "setuser", "few", "on", ">s3cret", "~*", "+@all", "-config", "-info")
	server.Do(t, "acl", "setuser", "some", "on", ">s3cret", "~*", "+@all", "-config")
	server.Do(t, "acl", "setuser", "none", "on", ">s3cret", "~*", "+@all", "-time", "-config", "-info")
	set := func(name, value string) func() { return func() { server.Do(t, "config", "set", name, value) } }
	for _, c := range []struct {
		name, url  string
		set, reset func()
		ahead      time.Duration // of the host's clock
		want       []string      // severity and part of the text of each
	}{
		{name: "all is well", url: server.URL() + "?wait_replicas=1"},
		{name: "an idle policy", set: set("maxmemory-policy", "allkeys-lru"), reset: set("maxmemory-policy", "noeviction"), want: []string{`warning: maxmemory-policy is "allkeys-lru"`}},
		{name: "eviction", set: all(set("maxmemory-policy", "volatile-ttl"), set("maxmemory", "100mb")),
			reset: all(set("maxmemory-policy", "noeviction"), set("maxmemory", "0")), want: []string{`problem: maxmemory-policy is "volatile-ttl"`}},
		{name: "snapshots only", set: all(set("appendonly", "no"), set("save", "60 1")), want: []string{`warning: snapshots only (save "60 1")`}},
		{name: "nothing on disk", set: set("save", ""), reset: set("appendonly", "yes"), want: []string{"warning: nothing on disk"}},
		{name: "fsync when it pleases", set: set("appendfsync", "no"), reset: set("appendfsync", "everysec"), want: []string{"warning: leaves syncing its AOF to the system"}},
		{name: "no lag is too long", set: set("min-replicas-max-lag", "0"), reset: set("min-replicas-max-lag", "10"), want: []string{"problem: min-replicas-to-write"}},
		{name: "no replica need have it", set: set("min-replicas-to-write", "0"), reset: set("min-replicas-to-write", "1"), want: []string{"problem: min-replicas-to-write"}},
		{name: "too few replicas", set: set("min-replicas-to-write", "2"), reset: set("min-replicas-to-write", "1"), want: []string{"problem: takes no spends: 1 of its replicas"}},
		{name: "too few to wait for", url: server.URL() + "?wait_replicas=2", want: []string{"problem: wait_replicas=2"}},
		{name: "a replica", url: replica.URL(), want: []string{"problem: is a replica"}},
		{name: "a cluster", url: "redis+cluster://" + node.Addr, want: []string{"note: cluster-require-full-coverage"}},
		{name: "a clock", ahead: 90 * time.Second, want: []string{"warning: 1m30s off"}},
		{name: "a slow clock", ahead: -48 * time.Hour, want: []string{"warning: 48h"}},
		{name: "a clock that is right enough", ahead: 50 * time.Second},
		{name: "no CONFIG", url: "redis://some:s3cret@" + server.Addr, want: []string{"note: CONFIG GET"}},
		{name: "no INFO", url: "redis://few:s3cret@" + server.Addr, want: []string{"note: INFO"}},
		{name: "no TIME", url: "redis://none:s3cret@" + server.Addr, want: []string{"problem: TIME", "note: INFO"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.set != nil {
				c.set()
			}
			if c.reset != nil {
				defer c.reset()
			}
			if c.url == "" {
				c.url = server.URL()
			}
			l := fresh(t, c.url, nil)
			redisledger.SetHost(l, func() time.Time { return time.Now().Add(c.ahead) })
			expect(t, l, c.want)
		})
	}
}

// TestInspectCannotSave: a server that could not save its data, or has no
// memory left, takes no spends.
func TestInspectCannotSave(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t, "--dir", dir, "--save", "3600 1")
	l := fresh(t, server.URL(), nil)
	mustSpend(t, l, "m", 1, day)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	server.Do(t, "bgsave")
	redistest.Await(t, "the save to fail", func() bool {
		return strings.Contains(server.Do(t, "info", "persistence").(string), "rdb_last_bgsave_status:err")
	})
	if _, err := spend(t, l, "m", 1, day); !errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("%v; want ErrLedgerDown", err)
	}
	expect(t, l, []string{"problem: it cannot save its data", "warning: snapshots only"})
	server.Do(t, "config", "set", "stop-writes-on-bgsave-error", "no")
	expect(t, l, []string{"warning: snapshots only"})
	server.Do(t, "config", "set", "maxmemory", "1")
	expect(t, l, []string{"problem: its memory is full", "warning: snapshots only"})
}

// all runs steps in order.
func all(steps ...func()) func() {
	return func() {
		for _, step := range steps {
			step()
		}
	}
}

// expect checks findings, each given as "severity: part of what or do".
func expect(t *testing.T, l *redisledger.Ledger, want []string) {
	t.Helper()
	found, err := l.Inspect(t.Context())
	if err != nil || len(found) != len(want) {
		t.Fatalf("%v, %v; want %q", found, err, want)
	}
	for i, f := range found {
		severity, part, _ := strings.Cut(want[i], ": ")
		if f.Severity.String() != severity || !strings.Contains(f.What+"\n"+f.Do, part) || f.What == "" || f.Do == "" {
			t.Errorf("%v: %+v; want %q", f.Severity, f, want[i])
		}
	}
}

// TestInspectReportsAnInsecureConnection checks findings about the connection,
// about clients given to New, and about versions that no test can start.
func TestInspectReportsAnInsecureConnection(t *testing.T) {
	for url, want := range map[string]string{
		"redis://127.0.0.1:1":                                        "",
		"redis://localhost:1":                                        "",
		"redis://[::1]:1":                                            "",
		"rediss://192.0.2.1:1":                                       "",
		"unix:///nowhere/redis.sock":                                 "",
		"redis://192.0.2.1:1":                                        "warning: without TLS",
		"redis+cluster://127.0.0.1:1,redis.invalid:1":                "warning: without TLS",
		"redis+sentinel://redis.invalid/main":                        "warning: without TLS",
		"rediss://127.0.0.1:1?insecure_skip_verify=true":             "problem: trusts any server",
		"rediss+cluster://redis.invalid:1?insecure_skip_verify=true": "problem: trusts any server",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		found, err := fresh(t, url, nil).Inspect(ctx)
		cancel()
		got := ""
		for _, f := range found {
			got += fmt.Sprint(f.Severity, ": ", f.What)
		}
		severity, part, _ := strings.Cut(want, ": ")
		if err == nil || errors.Is(err, quota.ErrInDoubt) || (want == "") != (got == "") || !strings.HasPrefix(got, severity) || !strings.Contains(got, part) {
			t.Errorf("%s: %q, %v; want %q and an error", url, got, err, want)
		}
	}
	for version, problems := range map[string]int{"6.2.0": 0, "7.2.4": 0, "8.0.1": 0, "10.0.0": 0, "6.0.16": 1, "5.0.14": 1, "": 1, "x": 1} {
		if found := redisledger.CheckVersion(version); len(found) != problems {
			t.Errorf("version %q: %v", version, found)
		}
	}
	server := redistest.Start(t, "--requirepass", "s3cret")
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": server.Addr}, Password: "s3cret"})
	t.Cleanup(func() { _ = ring.Close() })
	expect(t, redisledger.New(ring, nil), []string{"warning: nothing on disk"})
	if _, err := fresh(t, server.URL(), nil).Inspect(t.Context()); !errors.Is(err, quota.ErrLedgerConfig) {
		t.Errorf("no password: %v; want ErrLedgerConfig", err)
	}
	server.Stop()
	if _, err := fresh(t, server.URL(), nil).Inspect(t.Context()); !errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("no server: %v; want ErrLedgerDown", err)
	}
}

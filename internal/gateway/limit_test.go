package gateway_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/servers"
)

// TestTwoGatewaysShareALimit: a limit holds over all gateways that share
// a state folder, or a Redis. Other clients and limits count by themselves.
func TestTwoGatewaysShareALimit(t *testing.T) {
	t.Parallel()
	for name, ledger := range map[string]func(folder string) string{
		"SQLite": func(folder string) string { return "sqlite:" + folder + "/ledger.db" },
		"Redis":  func(string) string { return servers.StartRedis(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			address := ledger(folder)
			parsed, err := costs.Parse("costs.yaml", []byte(table))
			if err != nil {
				t.Fatal(err)
			}
			var servers []*server
			for n := range 2 {
				state := folder
				if name == "Redis" {
					state = filepath.Join(folder, []string{"one", "two"}[n])
				}
				c, err := client.New(parsed, &client.Options{Ledger: address, State: state})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				servers = append(servers, newServer(t, nil, c))
			}
			var allowed atomic.Int64
			var wg sync.WaitGroup
			for n := range 40 {
				wg.Go(func() {
					switch a := servers[n%2].do("POST", "/v1/limit",
						`{"client": "203.0.113.9", "limit": 15, "window": "1h"}`); a.StatusCode {
					case http.StatusOK:
						allowed.Add(1)
					case http.StatusTooManyRequests:
						if a.json["allowed"] != false || a.Header.Get("Retry-After") == "" ||
							a.Header.Get("Ration-Refused-By") != "" ||
							!strings.Contains(a.text, "reached the limit of 15/1h; try again at") {
							t.Errorf("%s %v", a.text, a.Header)
						}
					default:
						t.Errorf("%s %s", a.Status, a.text)
					}
				})
			}
			wg.Wait()
			if allowed.Load() != 15 {
				t.Errorf("%d requests are allowed; want 15", allowed.Load())
			}
			for _, body := range []string{`{"client": "203.0.113.8", "limit": 15, "window": "1h"}`,
				`{"client": "203.0.113.9", "limit": 15, "window": 60, "estimate": true}`} {
				if a := servers[0].do("POST", "/v1/limit", body); a.StatusCode != http.StatusOK ||
					a.json["remaining"] != 14.0 || a.Header.Get("X-RateLimit-Remaining") != "14" {
					t.Errorf("%s: %s %s %v", body, a.Status, a.text, a.Header)
				}
			}
		})
	}
}

// TestLimitOutOfRangeIsAnswered: a limit that cannot be counted is the
// program's mistake, and nothing to retry.
func TestLimitOutOfRangeIsAnswered(t *testing.T) {
	s := newServer(t, nil, newClient(t, table, t.TempDir(), nil))
	for body, want := range map[string]string{
		`{"client": "a", "limit": 0, "window": "1m"}`:           "limit of 0/1m; give 1 to 1e12 calls",
		`{"client": "a", "limit": 1}`:                           "no window; say over which time",
		`{"limit": 1, "window": "1m"}`:                          "no client; name it",
		`{"client": "a", "limit": 60, "window": "1m", "at": 1}`: "unknown field",
	} {
		if a := s.do("POST", "/v1/limit", body); a.StatusCode/100 != 4 || !strings.Contains(a.text, want) {
			t.Errorf("%s: %s %s; want %q", body, a.Status, a.text, want)
		}
	}
}

// TestLimitIsRefusedWithoutItsStore: while requests cannot be counted, the
// program decides whether it answers them.
func TestLimitIsRefusedWithoutItsStore(t *testing.T) {
	t.Parallel()
	parsed, err := costs.Parse("costs.yaml", []byte(table))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(parsed, &client.Options{Ledger: "redis://127.0.0.1:1", State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	a := newServer(t, nil, c).do("POST", "/v1/limit", `{"client": "a", "limit": 1, "window": "1m"}`)
	if a.StatusCode != http.StatusServiceUnavailable || a.json["type"] != "urn:ration:ledger-down" ||
		a.Header.Get("Retry-After") == "" {
		t.Errorf("%s %s", a.Status, a.text)
	}
}

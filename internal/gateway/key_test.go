package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/quota"
)

// perKeyUpstream is a real server that allows each value of something a number
// of calls in a second, and counts those that it refuses.
type perKeyUpstream struct {
	key    func(*http.Request) string
	most   int
	mu     sync.Mutex
	seen   map[string][]time.Time
	passed map[string]int
}

func (u *perKeyUpstream) answer(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key, now := u.key(r), time.Now()
	recent := u.seen[key]
	for len(recent) > 0 && now.Sub(recent[0]) > time.Second {
		recent = recent[1:]
	}
	if u.seen[key] = recent; len(recent) >= u.most {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	u.seen[key] = append(recent, now)
	u.passed[key]++
}

// TestEachKeyHasItsLimitThroughTheGateway: Airtable allows each base 5 calls a
// second, Xero each tenant 60 a minute, Discord each channel 5 a second and
// Microsoft Graph each mailbox 10,000 in ten minutes. What one has spent, the
// others have.
func TestEachKeyHasItsLimitThroughTheGateway(t *testing.T) {
	for _, c := range []struct {
		name, key, routes, path string
		limit                   int
	}{
		{"airtable", "{path: base}", `"/v0/{base}/{path...}": call`, "/v0/KEY/Table", 5},
		{"xero", "{header: Xero-Tenant-Id}", `"/api.xro/2.0/{path...}": call`, "/api.xro/2.0/Invoices", 60},
		{"discord", "{path: channel}", `"GET /api/v10/channels/{channel}/messages": call`,
			"/api/v10/channels/KEY/messages", 5},
		{"microsoft-graph", "{path: mailbox}", `"GET /v1.0/users/{mailbox}/{path...}": call`,
			"/v1.0/users/KEY/messages", 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			upstream := newUpstream(t, nil)
			text := fmt.Sprintf(`
version: 1
account: %s
hosts: [api.example.com]
key: %s
routes: {%s}
costs: {call: 1}
budgets:
  - {name: each, limit: %d, window: 1h, per: key, keys: {large: %d}}
  - {name: shared, limit: 100000, window: 24h}
`, c.name, c.key, c.routes, c.limit, 2*c.limit)
			s := newServer(t, &gateway.Options{Endpoint: upstream.URL}, newClient(t, text, t.TempDir(), upstream))
			for _, key := range []string{"acme", "large", "shop 7"} {
				limit := c.limit
				if key == "large" {
					limit = 2 * c.limit
				}
				for n := range limit + 2 {
					path := strings.ReplaceAll(c.path, "KEY", strings.ReplaceAll(key, " ", "%20"))
					a := s.do("GET", "/to/api.example.com"+path, "", "Xero-Tenant-Id", key)
					if isRefused := a.StatusCode == http.StatusTooManyRequests; isRefused != (n >= limit) {
						t.Fatalf("call %d of %s: %d %s", n+1, key, a.StatusCode, a.text)
					} else if isRefused && !strings.Contains(a.text, "each of key "+key) {
						t.Errorf("the refusal of %s is %s", key, a.text)
					}
				}
			}
			if hits := int(upstream.hits.Load()); hits != 4*c.limit {
				t.Errorf("the upstream saw %d calls; want %d", hits, 4*c.limit)
			}
		})
	}
}

// TestTheUpstreamRefusesNoKey sends calls of ten keys as fast as the gateway
// lets them: the upstream, which allows each five a second, refuses none.
func TestTheUpstreamRefusesNoKey(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for windows of two seconds, 4 seconds")
	}
	t.Parallel()
	u := &perKeyUpstream{key: func(r *http.Request) string { return strings.Split(r.URL.Path, "/")[2] }, most: 5,
		seen: map[string][]time.Time{}, passed: map[string]int{}}
	text := `
version: 1
account: airtable
hosts: [api.example.com]
key: {path: base}
routes: {"/v0/{base}/{path...}": call}
costs: {call: 1}
budgets: [{name: base, limit: 5, window: {sliding: 1s, margin: 1s}, per: key}]
`
	at := newUpstream(t, u.answer)
	s := newServer(t, &gateway.Options{Endpoint: at.URL}, newClient(t, text, t.TempDir(), at))
	var calls sync.WaitGroup
	for i := range 120 {
		calls.Go(func() {
			a := s.do("GET", fmt.Sprintf("/to/api.example.com/v0/base%d/T", i%10), "", "Ration-Max-Wait", "60s")
			if a.StatusCode != http.StatusOK {
				t.Errorf("%d %s", a.StatusCode, a.text)
			}
		})
	}
	calls.Wait()
	for key, passed := range u.passed {
		if passed != 12 {
			t.Errorf("%s passed %d times; want 12", key, passed)
		}
	}
}

// TestARefusalStopsTheKeyAlone: a 429 about a budget with per: key, or a rule
// with scope key, stops the key that was refused and no other. It can be
// listed and lifted.
func TestARefusalStopsTheKeyAlone(t *testing.T) {
	for name, lines := range map[string]string{
		"budget": "budgets: [{name: tenant, limit: 60, window: 1m, per: key}]",
		"rule": "answers: [{when: {status: 429}, stop: {kind: spent, scope: key}}]\nbudgets: [{name: all, limit: " +
			"60, window: 1m}, {name: day, limit: 600, window: 1d}]",
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Tenant") == "acme" {
					w.Header().Set("Retry-After", "50")
					w.WriteHeader(http.StatusTooManyRequests)
				}
			})
			s := newServer(t, &gateway.Options{Endpoint: u.URL},
				newClient(t, "version: 1\naccount: p\nhosts: [api.example.com]\nkey: {header: X-Tenant}\n"+
					"routes: {\"/{path...}\": call}\ncosts: {call: 1}\n"+lines, t.TempDir(), u))
			get := func(key string) *answer { return s.do("GET", "/to/api.example.com/x", "", "X-Tenant", key) }
			if a := get("acme"); a.StatusCode != http.StatusTooManyRequests || a.Header.Get("Ration-Detail") != "" {
				t.Fatalf("the upstream's answer: %d %s", a.StatusCode, a.text)
			}
			if a := get("acme"); !strings.Contains(a.text, "of key acme is in cooldown") {
				t.Errorf("acme: %d %s", a.StatusCode, a.text)
			}
			if a := get("globex"); a.StatusCode != http.StatusOK {
				t.Errorf("globex: %d %s", a.StatusCode, a.text)
			}
			var list struct {
				Cooldowns []struct{ Account, Budget, Key string }
			}
			if err := json.Unmarshal([]byte(s.do("GET", "/v1/cooldowns", "").text), &list); err != nil ||
				len(list.Cooldowns) != 1 || list.Cooldowns[0].Key != "acme" {
				t.Fatalf("%+v, %v; want that of acme", list, err)
			}
			query := "?account=p&key=acme"
			if budget := list.Cooldowns[0].Budget; budget != "" {
				query += "&budget=" + budget
			}
			if a := s.do("DELETE", "/v1/cooldowns"+query, ""); !strings.Contains(a.text, `"lifted":true`) {
				t.Errorf("lifting it: %s", a.text)
			}
			if a := get("acme"); a.Header.Get("Ration-Detail") != "" {
				t.Errorf("afterwards: %s", a.text)
			}
		})
	}
}

// TestACallerMayNameTheKey: Ration-Key and the field of /v1/spend come before
// the place that costs.yaml gives, and a session's key before both.
func TestACallerMayNameTheKey(t *testing.T) {
	text := strings.Replace(table, "hosts:", "key: {query: site}\nhosts:", 1)
	text = strings.Replace(text, "budgets:", "budgets:\n  - {name: site, limit: 40, window: 1h, per: key}", 1)
	at := newUpstream(t, nil)
	s := newServer(t, &gateway.Options{Endpoint: at.URL}, newClient(t, text, t.TempDir(), at))
	key := func(body string, header ...string) (granted bool, key string) {
		t.Helper()
		var said struct {
			Granted bool
			Key     string
		}
		if err := json.Unmarshal([]byte(s.do("POST", "/v1/spend", body, header...).text), &said); err != nil {
			t.Fatal(err)
		}
		return said.Granted, said.Key
	}
	if _, found := key(`{"url": "https://api.example.com/v1/items?site=a"}`); found != "a" {
		t.Errorf("by its URL: %q", found)
	}
	if _, found := key(`{"url": "https://api.example.com/v1/items?site=a", "key": "b"}`); found != "b" {
		t.Errorf("by the field: %q", found)
	}
	session := s.NewSession(quota.Caller{}, quota.Caller{}, "own")
	if _, found := key(`{"method": "items.list", "key": "b"}`, "Ration-Token", session.Token); found != "own" {
		t.Errorf("in a session: %q", found)
	}
	if a := s.do("GET", "/to/api.example.com/v1/items?site=a", "", "Ration-Key", "c"); a.StatusCode != http.StatusOK {
		t.Errorf("%d %s", a.StatusCode, a.text)
	}
	if granted, _ := key(`{"method": "items.insert", "key": "c"}`); granted {
		t.Error("40 of the 39 that are left of c were granted")
	}
	if a := s.do("GET", "/to/api.example.com/v1/items", "", "Ration-Key",
		strings.Repeat("k", 257)); a.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("a key of 257 bytes: %d %s", a.StatusCode, a.text)
	}
}

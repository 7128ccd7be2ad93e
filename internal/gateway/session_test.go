package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota"
)

// TestSessionsAttributeAndRememberRefusals: a program cannot override the
// caller of its session, and the session remembers the last refusal.
func TestSessionsAttributeAndRememberRefusals(t *testing.T) {
	c := newClient(t, table, t.TempDir(), nil)
	s := newServer(t, &gateway.Options{Token: "other", Caller: func(_ *costs.Table, caller quota.Caller) (quota.Caller,
		error) {
		if caller.Region == "bad" {
			return caller, errors.New("unknown region")
		}
		return caller, nil
	}}, c)
	session := s.NewSession(quota.Caller{Region: "north"}, quota.Caller{Lane: "manual", Job: "fetch.sh"}, "")
	spend := func(body string) *answer {
		return s.do("POST", "/v1/spend", body, "Authorization", "Bearer "+session.Token)
	}
	for body, want := range map[string]quota.Caller{
		`{"method": "items.list"}`: {Lane: "manual", Job: "fetch.sh", Region: "north"},
		`{"method": "items.get", "lane": "cron", "job": "mine", "region": "south"}`: {Lane: "cron", Job: "mine",
			Region: "north"},
	} {
		a := spend(body)
		grant, err := c.Guard().Redeem(fmt.Sprint(a.json["grant"]))
		if err != nil || grant.Call().Caller != want {
			t.Errorf("%s: %s, %v; want %+v", body, a.text, err, want)
		}
	}
	if err := session.Refused(t.Context()); err != nil {
		t.Errorf("refused: %v", err)
	}
	spend(`{"method": "items.insert", "calls": 2}`)
	a := spend(`{"method": "items.insert"}`)
	if refused, ok := errors.AsType[*quota.RefusedError](session.Refused(t.Context())); a.StatusCode != 429 || !ok ||
		refused.Budget != "day" {
		t.Errorf("%s %s, refused: %v", a.Status, a.text, session.Refused(t.Context()))
	}
	session.End()
	if a := spend(`{"method": "items.list"}`); a.StatusCode != 401 {
		t.Errorf("after its end: %s", a.Status)
	}
	if a := s.do("POST", "/v1/spend", `{"method": "items.list", "region": "bad"}`, "Ration-Token",
		"other"); a.StatusCode != 422 {
		t.Errorf("of a bad region: %s %s", a.Status, a.text)
	}
}

// TestSessionRemembersTheLedgersErrors: a call that its ledger could not decide
// was not made. A ledger that refuses the password is not down.
func TestSessionRemembersTheLedgersErrors(t *testing.T) {
	redis := servers.StartRedis(t)
	redis.Do(t, "config", "set", "requirepass", "secret")
	for ledger, want := range map[string]struct {
		kind  string
		after string // when to try again
		err   error
	}{
		redis.URL():             {"urn:ration:ledger-misconfigured", "60", quota.ErrLedgerConfig},
		"redis://127.0.0.1:1/0": {"urn:ration:ledger-down", "1", quota.ErrLedgerDown},
	} {
		parsed, err := costs.Parse("costs.yaml", []byte(table))
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(parsed, &client.Options{Ledger: ledger, State: t.TempDir(), Replica: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		s := newServer(t, &gateway.Options{}, c)
		session := s.NewSession(quota.Caller{}, quota.Caller{Job: "fetch"}, "")
		a := s.do("POST", "/v1/spend", `{"method": "items.list"}`, "Ration-Token", session.Token)
		if a.StatusCode != 503 || a.json["type"] != want.kind || a.Header.Get("Retry-After") != want.after ||
			!errors.Is(session.Refused(t.Context()), want.err) {
			t.Errorf("%s %s, refused: %v; want %s", a.Status, a.text, session.Refused(t.Context()), want.kind)
		}
		s.Use(newClient(t, table, t.TempDir(), nil)) // as after a change of the configuration
		if a := s.do("POST", "/v1/spend", `{"method": "items.list"}`, "Ration-Token",
			session.Token); a.StatusCode != 200 || session.Refused(t.Context()) != nil {
			t.Errorf("%s %s, refused: %v; want that a grant ends it", a.Status, a.text, session.Refused(t.Context()))
		}
	}
}

// TestAHealthCheckTellsAStrangerNothing: a health check without the token
// learns that the ledger does not answer, and nothing of its address or the
// account.
func TestAHealthCheckTellsAStrangerNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a ledger that is down, 4 seconds")
	}
	parsed, err := costs.Parse("costs.yaml", []byte(table))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(parsed, &client.Options{Ledger: "redis://127.0.0.1:1/0", State: t.TempDir(),
		Replica: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	open, closed := newServer(t, nil, c), newServer(t, &gateway.Options{Token: "secret"}, c)
	session := closed.NewSession(quota.Caller{}, quota.Caller{}, "")
	for _, test := range []struct {
		s     *server
		token string
		told  bool
	}{{open, "", true}, {closed, "secret", true}, {closed, session.Token, true}, {closed, "", false},
		{closed, "wrong", false}} {
		a := test.s.do("GET", "/readyz", "", "Ration-Token", test.token)
		if told := strings.Contains(a.text, "127.0.0.1") ||
			strings.Contains(a.text, "my-project"); a.StatusCode != 503 || told != test.told {
			t.Errorf("token %q: %s %s; want the ledger's address: %t", test.token, a.Status, a.text, test.told)
		}
	}
}

// TestASessionRemembersTheUpstreamsRefusal: an answer that sets a cooldown is a
// refusal of the session's call, proxied or reported, until the cooldown ends;
// other errors of the upstream are none.
func TestASessionRemembersTheUpstreamsRefusal(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stop" {
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.WriteHeader(http.StatusForbidden)
	})
	for _, stop := range []string{"proxied", "reported"} {
		c := newMemoryClient(t, benchTable, u.URL)
		s := newServer(t, &gateway.Options{Token: "other", Endpoint: u.URL}, c)
		session := s.NewSession(quota.Caller{}, quota.Caller{Job: "fetch"}, "")
		token := []string{"Ration-Token", session.Token}
		if a := s.do("GET", "/to/api.example.com/forbidden", "", token...); a.StatusCode != 403 ||
			session.Refused(t.Context()) != nil {
			t.Fatalf("%s, refused: %v", a.Status, session.Refused(t.Context()))
		}
		grant := fmt.Sprint(s.do("POST", "/v1/spend", `{"method": "read"}`, token...).json["grant"])
		if stop == "proxied" {
			s.do("GET", "/to/api.example.com/stop", "", token...)
		} else if a := s.do("POST", "/v1/grants/"+grant+"/report",
			`{"status": 429, "headers": {"Retry-After": "3600"}}`, token...); a.StatusCode != 200 {
			t.Fatal(a.Status, a.text)
		}
		if err := c.Guard().Cool(t.Context(),
			quota.Cooldown{Account: "my-project", For: 2 * time.Hour, Reason: "a longer one"}); err != nil {
			t.Fatal(err)
		}
		refused, ok := errors.AsType[*quota.RefusedError](session.Refused(t.Context()))
		if !ok || refused.Reason != quota.ReasonCooldown || refused.Method != "read" ||
			refused.RetryAfter < 110*time.Minute {
			t.Errorf("%s: refused: %v; want the cooldown in force", stop, refused)
		}
	}
}

// TestReleaseWaitsForRequests: a client that a request still uses is
// not closed.
func TestReleaseWaitsForRequests(t *testing.T) {
	begun, end := make(chan bool), make(chan bool)
	g := gateway.New(&gateway.Options{Documents: map[string]gateway.Document{
		"slow": func(ctx context.Context, c *client.Client, _ url.Values) (any, error) {
			begun <- true
			<-end
			_, _, err := c.Guard().Now(ctx, "my-project")
			return "done", err
		},
	}})
	before, after := newClient(t, table, t.TempDir(), nil), newClient(t, table, t.TempDir(), nil)
	g.Use(before)
	listener, base, err := gateway.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- gateway.Serve(ctx, listener, g, 0) }()
	answered := make(chan string)
	go func() {
		resp, err := http.Get(base + "/v1/slow")
		if err != nil {
			answered <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		answered <- string(text)
	}()
	<-begun
	g.Use(after)
	released := make(chan bool)
	go func() { g.Release(before); before.Close(); close(released) }()
	select {
	case <-released:
		t.Error("released while a request uses it")
	default:
	}
	end <- true
	if text := <-answered; text != "\"done\"\n" {
		t.Errorf("the request that had begun got %s", text)
	}
	<-released
	g.Release(after)
	if resp, err := http.Get(base + "/readyz"); err != nil || resp.StatusCode != 503 {
		t.Errorf("without a client: %v %v", resp, err)
	}
	stop()
	<-served
}

// TestDocumentsHaveTheirTypeAndStatus: lines, what is known in spite of an
// error, and malformed queries.
func TestDocumentsHaveTheirTypeAndStatus(t *testing.T) {
	document := func(found any, err error) gateway.Document {
		return func(context.Context, *client.Client, url.Values) (any, error) { return found, err }
	}
	lines := func(values ...any) gateway.Lines {
		return func(yield func(any, error) bool) {
			for _, value := range values {
				if err, failed := value.(error); failed {
					yield(nil, err)
					return
				}
				if !yield(value, nil) {
					return
				}
			}
		}
	}
	for _, test := range []struct {
		name       string
		read       gateway.Document
		kind, text string
		status     int
	}{
		{"log", document(lines(1, "two"), nil), "application/x-ndjson", "1\n\"two\"\n", 200},
		{"log", document(lines(), nil), "application/x-ndjson", "", 200},
		{"log", document(lines("stored"), quota.ErrLedgerDown), "application/x-ndjson", "\"stored\"\n", 503},
		{"log", document(lines(quota.ErrLedgerDown), nil), "application/problem+json", "", 503},
		{"status", document(map[string]bool{"down": true}, quota.ErrLedgerDown), "application/json",
			"{\"down\":true}\n", 503},
		{"plan", document(nil, &gateway.QueryError{Err: errors.New("unknown parameter")}), "application/problem+json",
			"", 400},
	} {
		s := newServer(t, &gateway.Options{Documents: map[string]gateway.Document{test.name: test.read}},
			newClient(t, table, t.TempDir(), nil))
		a := s.do("GET", "/v1/"+test.name, "")
		if a.StatusCode != test.status || a.Header.Get("Content-Type") != test.kind || test.text != "" &&
			a.text != test.text {
			t.Errorf("%s: %s %s %q", test.name, a.Status, a.Header.Get("Content-Type"), a.text)
		}
	}
}

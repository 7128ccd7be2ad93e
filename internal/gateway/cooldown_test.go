package gateway_test

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestOneScriptAtATimeTriesAnUpstream: of five programs that wait on a cooldown
// at two gateways on one ledger, and report to the other one, one at a time
// finds out whether the upstream accepts calls again.
func TestOneScriptAtATimeTriesAnUpstream(t *testing.T) {
	if testing.Short() {
		t.Skip("waits three seconds for a cooldown")
	}
	folder := t.TempDir()
	first := newClient(t, anyTable, folder, nil)
	servers := []*server{newServer(t, &gateway.Options{}, first),
		newServer(t, &gateway.Options{}, newClient(t, anyTable, folder, nil))}
	if err := first.Guard().Cool(t.Context(), quota.Cooldown{Account: "my-project", For: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	recovers := time.Now().Add(2500 * time.Millisecond)
	var stops atomic.Int32
	var programs sync.WaitGroup
	for i := range 5 {
		asks, reports := servers[i%2], servers[(i+1)%2]
		programs.Go(func() {
			for {
				granted := asks.do("POST", "/v1/spend", `{"method": "read", "max_wait": "1m"}`)
				grant, ok := granted.json["grant"].(string)
				if !ok {
					t.Errorf("%s %s", granted.Status, granted.text)
					return
				}
				answer := `{"status": 200}`
				if time.Now().Before(recovers) {
					stops.Add(1)
					answer = `{"status": 429, "headers": {"Retry-After": "1"}}`
				}
				if a := reports.do("POST", fmt.Sprintf("/v1/grants/%s/report", grant),
					answer); a.StatusCode != http.StatusOK {
					t.Errorf("%s %s", a.Status, a.text)
				}
				if answer == `{"status": 200}` {
					return
				}
			}
		})
	}
	programs.Wait()
	if stops.Load() > 1 || used(t, first) != int(stops.Load())+5 {
		t.Errorf("%d calls were refused, %d used; want at most 1, and 5 more", stops.Load(), used(t, first))
	}
}

// TestACooldownSaysWhereItCameFrom: its refusals did not say where it came
// from.
func TestACooldownSaysWhereItCameFrom(t *testing.T) {
	s := newServer(t, &gateway.Options{}, newClient(t, anyTable, t.TempDir(), nil))
	for reason, body := range map[string]string{"set through the gateway": `{"budget": "day", "for": "1h"}`,
		"maintenance": `{"budget": "day", "for": "2h", "reason": "maintenance"}`} {
		set, _ := s.do("POST", "/v1/cooldowns", body).json["cooldown"].(map[string]any)
		if set["reason"] != reason {
			t.Errorf("%s: %v; want the reason %q", body, set, reason)
		}
		s.do("DELETE", "/v1/cooldowns?budget=day", "")
	}
}

// newLifting returns a ledger of which another process lifts each cooldown at
// once.
func newLifting(t *testing.T, budget string) quota.Ledger {
	other := memledger.Open(nil)
	guard, err := quota.NewGuard(other, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return engine.WatchLedger(other, func(op, account string, _ time.Duration, err error) error {
		if op != "append" {
			return err
		}
		return cmp.Or(err, guard.ClearCooldown(t.Context(), account, budget))
	})
}

// TestLiftedCooldownIsNull: the answer is what holds, not what was asked.
func TestLiftedCooldownIsNull(t *testing.T) {
	parsed, err := costs.Parse("costs.yaml", []byte(anyTable))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	c, err := client.New(parsed, &client.Options{Opened: newLifting(t, "day"), State: folder,
		Replica: folder + "/replica"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s := newServer(t, &gateway.Options{}, c)
	a := s.do("POST", "/v1/cooldowns", `{"budget": "day", "for": "1h"}`)
	if set, ok := a.json["cooldown"]; a.StatusCode != http.StatusOK || !ok || set != nil {
		t.Errorf("%s %s; want null", a.Status, a.text)
	}
}

// TestAReportAfterAMoveHasTheUpstreamsTime: where an account has moved from, a
// report says how long the upstream stops calls, and a new cooldown is refused.
func TestAReportAfterAMoveHasTheUpstreamsTime(t *testing.T) {
	c := newMemoryClient(t, anyTable, "")
	s := newServer(t, &gateway.Options{}, c)
	granted := s.do("POST", "/v1/spend", `{"method": "read"}`)
	move := quota.MovedError{Account: "my-project", Ledger: "redis://there:6379/0"}
	if err := testledger.CloseAccount(t.Context(), c.Guard().Ledger(), move); err != nil {
		t.Fatal(err)
	}
	a := s.do("POST", fmt.Sprintf("/v1/grants/%s/report", granted.json["grant"]),
		`{"status": 429, "headers": {"Retry-After": "30"}}`)
	if set, _ := a.json["cooldown"].(map[string]any); set["for_s"] != 30.0 {
		t.Errorf("%s %s; want 30 seconds", a.Status, a.text)
	}
	if a := s.do("POST", "/v1/cooldowns", `{"budget": "day", "for": "1m"}`); a.StatusCode != http.StatusConflict ||
		a.json["type"] != "urn:ration:moved" {
		t.Errorf("%s %s; want 409", a.Status, a.text)
	}
}

// TestAnUnknownBudgetIsAnsweredWithTheKnown: the answer names the budgets and
// accounts that there are.
func TestAnUnknownBudgetIsAnsweredWithTheKnown(t *testing.T) {
	other := strings.NewReplacer("items", "reports", "my-project", "other", "api.example.com", "reports.example.com",
		`, "127.0.0.1:9"`, "", "name: day", "name: hour").Replace(anyTable)
	s := newServer(t, &gateway.Options{}, newClient(t, anyTable+"---"+other, t.TempDir(), nil))
	for body, want := range map[string]string{
		`{"budget": "nope"}`:                          `no budget "nope" in costs.yaml; write one of day, hour`,
		`{"budget": "houre"}`:                         `no budget "houre" in costs.yaml; write hour`,
		`{"budget": "hour", "account": "my-project"}`: `no budget "hour" in costs.yaml; write day`,
		`{"account": "my-projcet"}`:                   `no account "my-projcet" in costs.yaml; write my-project`,
		`{"budget": "", "for": "1m"}`: `name a budget, or for a whole account the account: ` +
			`{"budget": "NAME"} or {"account": "NAME"}`,
	} {
		if a := s.do("POST", "/v1/cooldowns", body); a.StatusCode != http.StatusUnprocessableEntity ||
			a.json["detail"] != want {
			t.Errorf("%s: %s %s; want %s", body, a.Status, a.text, want)
		}
	}
}

// TestMisspelledScopeLiftsNothing: a request whose query has a typo, or that
// names neither a budget nor an account, does not reach the whole account.
func TestMisspelledScopeLiftsNothing(t *testing.T) {
	c := newClient(t, anyTable, t.TempDir(), nil)
	s := newServer(t, &gateway.Options{}, c)
	if err := c.Guard().Cool(t.Context(), quota.Cooldown{Account: "my-project", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	const neither = "name a budget, or for a whole account the account"
	for _, request := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"DELETE", "/v1/cooldowns?bugdet=day", "", http.StatusBadRequest, `unknown parameter "bugdet": write budget`},
		{"DELETE", "/v1/cooldowns?account=my-project&budget=%zz", "", http.StatusBadRequest, "the query is malformed"},
		{"DELETE", "/v1/cooldowns?account=my-project&account=other", "", http.StatusBadRequest,
			"account is given 2 times; give it once"},
		{"DELETE", "/v1/cooldowns", "", http.StatusUnprocessableEntity, neither},
		{"DELETE", "/v1/cooldowns?budget=", "", http.StatusUnprocessableEntity, neither},
		{"POST", "/v1/cooldowns", `{"for": "1m"}`, http.StatusUnprocessableEntity, neither},
		{"POST", "/v1/cooldowns?budget=day", `{"account": "my-project", "for": "1m"}`, http.StatusBadRequest,
			`unknown parameter "budget"; this request has none, write its values into the body`},
		{"GET", "/v1/cooldowns?x=1", "", http.StatusBadRequest, `unknown parameter "x"; this request has none`},
		{"POST", "/v1/spend?x=1", `{"method": "read"}`, http.StatusBadRequest, `unknown parameter "x"`},
		{"POST", "/v1/grants/x/refund?x=1", "", http.StatusBadRequest, `unknown parameter "x"`},
		{"GET", "/v1/openapi.json?x=1", "", http.StatusBadRequest, `unknown parameter "x"`},
	} {
		a := s.do(request.method, request.path, request.body)
		if detail, _ := a.json["detail"].(string); a.StatusCode != request.status ||
			!strings.HasPrefix(detail, request.want) {
			t.Errorf("%s %s %s: %s %s; want %d, %s", request.method, request.path, request.body, a.Status, a.text,
				request.status, request.want)
		}
	}
	if a := s.do("DELETE", "/v1/cooldowns?budget=day", `{"account": "my-project"}`); a.json["lifted"] != false ||
		a.json["budget"] != "day" {
		t.Errorf("%s; want that the account's cooldown stays", a.text)
	}
	if a := s.do("DELETE", "/v1/cooldowns?account=my-project", `{"budget": "day"}`); a.json["lifted"] != false ||
		a.json["budget"] != "day" {
		t.Errorf("%s; want that the account's cooldown stays", a.text)
	}
	if a := s.do("DELETE", "/v1/cooldowns?account=my-project", ""); a.json["lifted"] != true {
		t.Errorf("%s; want it lifted", a.text)
	}
}

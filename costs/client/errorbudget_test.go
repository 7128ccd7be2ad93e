package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

// openErrors opens a client with a budget of errors for a server.
func openErrors(t *testing.T, endpoint string) *client.Client {
	t.Helper()
	table, err := costs.Parse("costs.yaml", []byte(`version: 1
account: eve
hosts: [esi.example.com]
routes: {"/{path...}": call}
costs: {call: 1}
not_modified_units: 0
answers:
  - {when: {status: 410}, cost: {errors: 0}}
  - {when: {status: 204}, cost: {errors: 2}}
  - {when: {status: 418}, counts: false}
budgets:
  - {name: errors, limit: 5, window: 1m, count: errors}
  - {name: calls, limit: 100, window: 1m, count: calls}
`))
	if err == nil {
		table, err = table.WithEndpoint("", endpoint)
	}
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	c, err := client.New(table, &client.Options{Ledger: "sqlite:" + folder + "/ledger.db", State: folder,
		Replica: folder + "/replica"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestBudgetOfErrorsIsChargedByAnswers: calls that succeed or find nothing new
// cost it nothing, one that fails costs an error, and no call is sent when
// none is left.
func TestBudgetOfErrorsIsChargedByAnswers(t *testing.T) {
	status, sent := http.StatusOK, 0
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent++
		w.WriteHeader(status)
	}))
	defer upstream.Close()
	c := openErrors(t, upstream.URL)
	get := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, upstream.URL+"/x", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.RoundTrip(req)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	}
	for _, step := range []struct {
		status        int
		errors, calls quota.Units // that are counted afterwards
	}{
		{200, 0, 1}, {200, 0, 2}, {304, 0, 2}, {404, 1, 3}, {410, 1, 4}, {418, 2, 4}, {204, 4, 5}, {200, 4, 6},
		{500, 5, 7},
	} {
		status = step.status
		if err := get(); err != nil {
			t.Fatalf("%d: %v", step.status, err)
		}
		balances, err := c.Guard().Balances(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]quota.Units{balances[0].Used, balances[1].Used}; got != [2]quota.Units{step.errors, step.calls} {
			t.Errorf("after a %d: %v; want %d errors, %d calls", step.status, got, step.errors, step.calls)
		}
	}
	before := sent
	err := get()
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if !ok || refused.Budget != "errors" || refused.RetryAfter <= 0 || sent > before {
		t.Errorf("%v; want a refusal before the wire", err)
	}
	if !strings.Contains(err.Error(), "error") {
		t.Errorf("%v; want it to say what the budget counts", err)
	}
	all, err := c.Guard().ProbeAll(t.Context(), quota.Call{Account: "eve", Method: "call", Units: 1})
	if err != nil || len(all) != 1 || all[0].Budget != "errors" {
		t.Errorf("%v, %v; want the refusal that a call would get", all, err)
	}
}

package costs_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
)

// keyed is a costs.yaml with a place for keys.
func keyed(place string) string {
	return `version: 1
account: p
hosts: [api.example.com]
key: ` + place + `
routes: {"/v0/{base}/{path...}": call}
costs: {call: 1}
budgets: [{name: each, limit: 5, window: 1s, per: key, keys: {acme: 5000, "shop 7": 100}}]
`
}

// TestPriceFindsTheKey finds a call's key where costs.yaml says it is, and
// refuses a request whose key is not certain.
func TestPriceFindsTheKey(t *testing.T) {
	long := `{"messages": "` + strings.Repeat("x", 70<<10) + `", "model": "late"}`
	for _, c := range []struct{ place, url, header, body, key, refused string }{
		{place: "{header: X-Tenant}", header: "acme", key: "acme"},
		{place: "{header: X-Tenant}"},
		{place: "{header: x-tenant}", header: "a\x00b", key: "a\x00b"},
		{place: "{header: X-Tenant}", header: strings.Repeat("x", 257), refused: "is not a text of at most 256 bytes"},
		{place: "{header: X-Tenant}", header: "\xff", refused: "is not a text of at most 256 bytes"},
		{place: "{path: base}", url: "/v0/app%20One/table", key: "app One"},
		{place: "{query: site}", url: "/v0/x/y?a=1&site=s%2F7", key: "s/7"},
		{place: "{query: site}", url: "/v0/x/y?site=a&site=b", refused: "has several values"},
		{place: "{query: site}", url: "/v0/x/y?site=a&site=a", key: "a"},
		{place: "{body: model}", body: `{"n": {"model": "no"}, "model": "gpt"}`, key: "gpt"},
		{place: "{json: tenant.id}", body: `{"tenant": {"name": "x", "id": 7}}`, key: "7"},
		{place: "{json: tenant.id}", body: `{"tenant": {"id": "first", "blob": "` + strings.Repeat("x", 70<<10) + `"}}`,
			key: "first"},
		{place: "{body: model}", body: `{"model": "a", "model": "b"}`, refused: "has several values"},
		{place: "{body: model}", body: long, key: "late"},
		{place: "{body: model}", body: `{"model": "a", "blob": "` + strings.Repeat("x", 1<<20) + `"}`},
		{place: "{body: model}", body: "not JSON"},
		{place: "{body: model}", body: `{"model": ["gpt"]}`},
	} {
		for _, replayable := range []bool{true, false} {
			table, err := costs.Parse("costs.yaml", []byte(keyed(c.place)))
			if err != nil {
				t.Fatal(err)
			}
			path := c.url
			if path == "" {
				path = "/v0/x/y"
			}
			req, err := http.NewRequest(http.MethodPost, "https://api.example.com"+path, bytes.NewBufferString(c.body))
			if err != nil {
				t.Fatal(err)
			}
			if !replayable {
				req.Body, req.GetBody = io.NopCloser(strings.NewReader(c.body)), nil
			}
			if c.header != "" {
				req.Header["X-Tenant"] = []string{c.header}
			}
			call, err := table.Price(req)
			switch {
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("%s %s %.40q: %v; want a refusal: %s", c.place, c.url, c.header+c.body, err, c.refused)
			case c.refused == "" && (err != nil || call.Key != c.key):
				t.Errorf("%s %s %.40q: key %q, %v; want %q", c.place, c.url, c.header+c.body, call.Key, err, c.key)
			}
			if body, err := io.ReadAll(req.Body); err != nil || string(body) != c.body {
				t.Errorf("%s: the body reads %.40q, %v afterwards; want %.40q", c.place, body, err, c.body)
			}
		}
	}
}

// TestKeysAreChecked reports a key or limits of keys that cannot be meant.
func TestKeysAreChecked(t *testing.T) {
	good := keyed("{path: base}")
	for _, c := range []struct{ old, new, want string }{
		{"{path: base}", "{path: tenant}", "costs.yaml:4:6: no route has a part {tenant}"},
		{"{path: base}", "{header: Authorization}", "Authorization is a credential, and keys are shown in logs"},
		{"{path: base}", "{query: api_key}", "api_key is a credential"},
		{"{path: base}", "{header: A, query: b}", "write one of them"},
		{"{path: base}", "{}", "a key has one place"},
		{"per: key, ", "", "keys without per"},
		{"per: key", "per: tenant", "per"},
		{"per: key", "floor: {IN: 2}, per: key", "keys beside floor"},
		{"acme: 5000", "acme: 0", "0"},
	} {
		_, err := costs.Parse("costs.yaml", []byte(strings.Replace(good, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.new, err, c.want)
		}
	}
	table, err := costs.Parse("costs.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if b := table.Budgets()[0]; !b.PerKey || b.LimitOf("acme") != 5000 || b.LimitOf("shop 7") != 100 ||
		b.LimitOf("other") != 5 {
		t.Errorf("%+v", b)
	}
}

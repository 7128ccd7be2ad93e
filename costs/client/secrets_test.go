package client

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

const secretTable = `version: 1
account: one
hosts: [a.example]
routes: {"GET /{path...}": read}
costs: {read: 1}
budgets: [{name: all, limit: 10, window: 1h}]
credential: {file: up.key, header: X-Custom, prefix: "Bearer "}
`

// newSecretClient returns a Client of secretTable, whose credential is
// filed-secret.
func newSecretClient(t *testing.T, o *Options) *Client {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "up.key"), []byte("filed-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := costs.Parse(filepath.Join(folder, "costs.yaml"), []byte(secretTable))
	if err != nil {
		t.Fatal(err)
	}
	o.Ledger = "sqlite:" + filepath.Join(folder, "ledger.db")
	o.State, o.Getenv = filepath.Join(folder, "state"), func(string) string { return "" }
	c, err := New(table, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestNoSecretIsInAVerdict: no secret of a request is in the reason of
// a verdict, wherever the request has it and whatever costs.yaml says.
func TestNoSecretIsInAVerdict(t *testing.T) {
	c := newSecretClient(t, &Options{Redact: func(text string) string {
		return strings.ReplaceAll(text, "known-one",
			hidden)
	}})
	for name, test := range map[string]struct {
		header, value, query, message string
		want                          string
	}{
		"a token":   {"Authorization", "Bearer shortsecret", "", "quota for shortsecret", "quota for [hidden]"},
		"no scheme": {"Authorization", "shortsecret", "", "quota for shortsecret", "quota for [hidden]"},
		"a password": {"Authorization", "Basic bWU6c2hvcnRzZWNyZXQ=", "", "quota for shortsecret",
			"quota for [hidden]"},
		"of a proxy": {"Proxy-Authorization", "Bearer shortsecret", "", "quota for shortsecret",
			"quota for [hidden]"},
		"X-Api-Key":      {"X-Api-Key", "shortsecret", "", "quota for shortsecret", "quota for [hidden]"},
		"Api-Key":        {"Api-Key", "shortsecret", "", "quota for shortsecret", "quota for [hidden]"},
		"X-Goog-Api-Key": {"X-Goog-Api-Key", "shortsecret", "", "quota for shortsecret", "quota for [hidden]"},
		"a cookie":       {"Cookie", "a=b; session=shortsecret", "", "quota for shortsecret", "quota for [hidden]"},
		"of costs.yaml":  {"X-Custom", "Bearer replaced", "", "quota for replaced", "quota for [hidden]"},
		"of the file":    {"", "", "", "quota for filed-secret", "quota for [hidden]"},
		"of Redact":      {"", "", "", "quota for known-one", "quota for [hidden]"},
		"key": {"", "", "a=1&key=short%2Bsecret", "quota for short+secret, short%2Bsecret",
			"quota for [hidden], [hidden]"},
		"api_key":           {"", "", "api_key=shortsecret", "quota for shortsecret", "quota for [hidden]"},
		"apikey":            {"", "", "apikey=shortsecret", "quota for shortsecret", "quota for [hidden]"},
		"access_token":      {"", "", "access_token=shortsecret", "quota for shortsecret", "quota for [hidden]"},
		"token":             {"", "", "token=shortsecret", "quota for shortsecret", "quota for [hidden]"},
		"client_secret":     {"", "", "client_secret=shortsecret", "quota for shortsecret", "quota for [hidden]"},
		"signature":         {"", "", "a;Signature=shortsecret", "quota for shortsecret", "quota for [hidden]"},
		"another parameter": {"", "", "page=shortsecret", "quota for shortsecret", "quota for shortsecret"},
		"short":             {"X-Api-Key", "quota", "", "quota is spent", "quota is spent"},
		"cut off": {"X-Api-Key", "shortsecret", "", strings.Repeat("x ", 95) + "shortsecret",
			strings.Repeat("x ", 95) + "[hidden]"},
		"cleaned in part": {"X-Api-Key", "sk-abcdefgh.shortsecret", "", "quota for sk-abcdefgh.shortsecret",
			"quota for REDACTED[hidden]"},
	} {
		r := httptest.NewRequest("GET", "https://a.example/items?"+test.query, nil)
		if test.header != "" {
			r.Header.Set(test.header, test.value)
		}
		v := c.feedback(quota.Call{Account: "one", Method: "read", Units: 1}, &http.Response{
			StatusCode: 429, Request: r, Body: io.NopCloser(strings.NewReader(`{"message":"` + test.message + `"}`)),
		})
		if v.Reason != "429 "+test.want {
			t.Errorf("%s: %q; want %q after 429", name, v.Reason, test.want)
		}
		if kept := c.Unexplained(); len(kept) != 1 || kept[0].Reason != v.Reason {
			t.Errorf("%s: %+v; want the same reason kept", name, kept)
		}
	}
	v := c.feedback(quota.Call{Account: "one", Method: "read"}, &http.Response{
		StatusCode: 429, Body: io.NopCloser(strings.NewReader(`{"message":"filed-secret"}`)),
	})
	if v.Reason != "429 "+hidden {
		t.Errorf("without a request: %q", v.Reason)
	}
}

// TestUnexplainedRefusalMakesTheFolder: the first refusal is kept, though
// nothing has made the state folder yet.
func TestUnexplainedRefusalMakesTheFolder(t *testing.T) {
	c := &Client{state: filepath.Join(t.TempDir(), "new", "state")}
	keep := c.keepingUnexplained(func(quota.Call, *http.Response) quota.Verdict {
		return quota.Verdict{Unexplained: true, Reason: "slow"}
	})
	keep(quota.Call{Account: "one", Method: "read"}, &http.Response{StatusCode: 429})
	if kept := c.Unexplained(); len(kept) != 1 || kept[0].Reason != "slow" {
		t.Errorf("%+v; want one refusal", kept)
	}
}

package gateway_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs/gateway"
)

// TestClientsNeedNoCredential: the gateway adds it, in place of what the client
// sent there, and reads the file for each request.
func TestClientsNeedNoCredential(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("moved") {
			w.Header().Set("Location", "/v1/items?"+r.URL.RawQuery)
			w.WriteHeader(http.StatusFound)
		}
		fmt.Fprintf(w, "%s %s", r.Header.Get("Authorization"), r.URL.RequestURI())
	})
	folder := t.TempDir()
	secret := filepath.Join(folder, "secret")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		os.Remove(secret)
		if err := os.WriteFile(secret, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	serve := func(credential string) *server {
		return newServer(t, &gateway.Options{Endpoint: u.URL}, newClient(t, table+"credential: "+credential+"\n", t.TempDir(), u))
	}
	header, query := serve("{file: "+secret+`, header: Authorization, prefix: "Bearer "}`), serve("{file: "+secret+", query: key}")
	write("s3cret+1\n", 0o600)
	if a := header.do("GET", "/to/api.example.com/v1/items?a=1", "", "Authorization", "Bearer theirs"); a.text != "Bearer s3cret+1 /v1/items?a=1" {
		t.Errorf("the upstream got %s", a.text)
	}
	for path, want := range map[string]string{"/v1/items": "?key=s3cret%2B1", "/v1/items?b=%2f&key=theirs&a=&k%65y=again": "?b=%2f&a=&key=s3cret%2B1"} {
		if a := query.do("GET", "/to/api.example.com"+path, ""); a.text != " /v1/items"+want {
			t.Errorf("%s: the upstream got %s; want %s", path, a.text, want)
		}
	}
	write("another", 0o600)
	if a := query.do("GET", "/to/api.example.com/v1/items", ""); a.text != " /v1/items?key=another" {
		t.Errorf("after a change the upstream got %s", a.text)
	}
	if a := query.do("GET", "/to/api.example.com/v1/items?moved=1", ""); !strings.HasSuffix(a.Header.Get("Location"), "/v1/items?moved=1") {
		t.Errorf("a redirect tells the client %q", a.Header.Get("Location"))
	}
	hits := u.hits.Load()
	for text, mode := range map[string]os.FileMode{"": 0o600, "two\nlines": 0o600} {
		write(text, mode)
		if a := query.do("GET", "/to/api.example.com/v1/items", ""); a.StatusCode != 500 || strings.Contains(a.text, "lines\\n") || u.hits.Load() != hits {
			t.Errorf("%q: %s %s, %d requests sent", text, a.Status, a.text, u.hits.Load()-hits)
		}
	}
}

package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/gateway"
)

// behind returns a client that knows the gateway as its proxy alone, and trusts
// an authority and a server.
func behind(t *testing.T, proxy string, ca *gateway.CA, trusted *x509.Certificate) *http.Client {
	t.Helper()
	to, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca.PEM) {
		t.Fatal("the authority is no certificate")
	}
	if trusted != nil {
		roots.AddCert(trusted)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(to), TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func get(t *testing.T, c *http.Client, address string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// TestAProgramBehindItsProxyIsGuarded, and what it sends elsewhere passes
// unread.
func TestAProgramBehindItsProxyIsGuarded(t *testing.T) {
	state := t.TempDir()
	ca, err := gateway.OpenCA(state)
	if err != nil {
		t.Fatal(err)
	}
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "https://api.example.com/next")
		w.Header().Set("Set-Cookie", "a=b; Path=/v1")
		_, _ = io.WriteString(w, r.Host+r.URL.Path)
	})
	table := strings.Replace(anyTable, "limit: 100000", "limit: 2", 1)
	s := newServer(t, &gateway.Options{Endpoint: u.URL, CA: ca}, newClient(t, table, t.TempDir(), u))
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, "elsewhere")
	}))
	defer other.Close()
	c := behind(t, s.url, ca, other.Certificate())
	for range 2 {
		resp, body := get(t, c, "https://api.example.com/v1/a%2Fb?x=1")
		isPlain := resp.Header.Get("Location") == "https://api.example.com/next" &&
			resp.Header.Get("Set-Cookie") == "a=b; Path=/v1"
		if resp.StatusCode != http.StatusOK || !strings.HasSuffix(body, "/v1/a/b") || !isPlain {
			t.Fatalf("%s %q, %v; want the upstream's answer as it is", resp.Status, body, resp.Header)
		}
	}
	if resp, body := get(t, c, "https://api.example.com/v1/items"); resp.StatusCode != http.StatusTooManyRequests ||
		resp.Header.Get("Retry-After") == "" {
		t.Errorf("%s %q; want a refusal", resp.Status, body)
	}
	resp, body := get(t, c, other.URL)
	if isOwn := resp.TLS.PeerCertificates[0].Equal(other.Certificate()); body != "elsewhere" || !isOwn {
		t.Errorf("%q, its own certificate %v; want it unread", body, isOwn)
	}
	if hits := u.hits.Load(); hits != 2 {
		t.Errorf("the upstream saw %d requests; want 2", hits)
	}
}

// TestTheKeyOfTheAuthorityIsSecret: it is made so, and not used otherwise.
func TestTheKeyOfTheAuthorityIsSecret(t *testing.T) {
	state := t.TempDir()
	ca, err := gateway.OpenCA(state)
	if err != nil {
		t.Fatal(err)
	}
	again, err := gateway.OpenCA(state)
	if err != nil || string(again.PEM) != string(ca.PEM) {
		t.Errorf("%v; want the same authority", err)
	}
	path := filepath.Join(state, "intercept-ca.pem")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := gateway.OpenCA(state); runtime.GOOS != "windows" && !errors.Is(err, files.ErrUnsafe) {
		t.Errorf("a key that others can read: %v; want an error", err)
	}
}

// TestAnAddressIsGuardedBehindItsProxy: an upstream without a name has a
// certificate with its address, and one that speaks plain http is guarded
// without.
func TestAnAddressIsGuardedBehindItsProxy(t *testing.T) {
	ca, err := gateway.OpenCA(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var leaked atomic.Bool
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		leaked.Store(leaked.Load() || len(r.Header.Values("Ration-Token"))+
			len(r.Header.Values("Proxy-Authorization")) > 0)
		_, _ = io.WriteString(w, r.Host)
	})
	table := strings.Replace(anyTable, `[api.example.com, "127.0.0.1:9"]`, "[10.1.2.3, vm]\ninsecure: [10.1.2.3, vm]",
		1)
	table = strings.Replace(table, "limit: 100000", "limit: 2", 1)
	everywhere := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(u.URL, "http://"))
	}}
	s := newServer(t, &gateway.Options{Base: everywhere, CA: ca, Token: "secret"},
		newClient(t, table, t.TempDir(), nil))
	c := behind(t, strings.Replace(s.url, "http://", "http://ration:secret@", 1), ca, nil)
	for _, to := range []string{"https://10.1.2.3/a", "http://vm/a", "http://elsewhere/a"} {
		if resp, body := get(t, c, to); resp.StatusCode != http.StatusOK || !strings.Contains(to, "/"+body+"/") {
			t.Errorf("%s: %s %q", to, resp.Status, body)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://elsewhere/a", http.NoBody)
	req.Header.Set("Ration-Token", "secret")
	if resp, err := c.Do(req); err != nil || leaked.Load() {
		t.Errorf("%v, the token reached another host: %v", err, leaked.Load())
	} else {
		resp.Body.Close()
	}
	if resp, body := get(t, c, "http://10.1.2.3/b"); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("the third call: %s %q; want a refusal", resp.Status, body)
	}
	if resp, body := get(t, c, s.url+"/healthz"); !strings.Contains(body, "ok") {
		t.Errorf("the gateway itself: %s %q", resp.Status, body)
	}
}

// TestAProxyWithATokenWantsIt, as the password of the proxy's address.
func TestAProxyWithATokenWantsIt(t *testing.T) {
	ca, err := gateway.OpenCA(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	u := newUpstream(t, nil)
	s := newServer(t, &gateway.Options{Endpoint: u.URL, CA: ca, Token: "secret"},
		newClient(t, anyTable, t.TempDir(), u))
	if _, err := behind(t, s.url, ca, nil).Get("https://api.example.com/v1/items"); err == nil ||
		!strings.Contains(err.Error(), "Proxy Authentication Required") {
		t.Errorf("without it: %v", err)
	}
	proxy := strings.Replace(s.url, "http://", "http://ration:secret@", 1)
	if resp, body := get(t, behind(t, proxy, ca, nil),
		"https://api.example.com/v1/items"); resp.StatusCode != http.StatusOK {
		t.Errorf("with it: %s %q", resp.Status, body)
	}
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl")
	}
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(trusted, ca.PEM, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(curl, "-sS", "--cacert", trusted, "https://api.example.com/v1/items", "-o",
		filepath.Join(t.TempDir(), "out"), "-w", "%{http_code}")
	cmd.Env = []string{"HTTPS_PROXY=" + proxy}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "200" {
		t.Errorf("curl: %v %s", err, out)
	}
}

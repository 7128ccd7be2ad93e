package gateway_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
)

const clientToken = "the token of the tests"

const clientTable = `
version: 1
upstream: items
account: my-project
hosts: [%q, %q]
routes:
  GET /v1/spent: items.spent
  HEAD /v1/spent: items.spent
  GET /{rest...}: items.get
  POST /v1/{rest...}: items.insert
  PUT /v1/{rest...}: items.update
costs: {items.spent: 3, items.get: 1, items.insert: 1, items.update: 1}
budgets:
  - {name: day, limit: 1000, window: {sliding: 24h}}
  - {name: spent, limit: 5, window: {sliding: 24h}, methods: [items.spent]}
`

// clientStand is what the tests of the clients in docs/clients meet, each in
// its language: a gateway, an upstream of two guarded hosts and one beside it.
//
//	GET  /v1/302, 307 and so on   redirects to /v1/there
//	     /v1/other, /v1/away      redirects to the second host, and to one that is not guarded
//	     /v1/page                 links to /v1/next and /v1/last, in two headers
//	     /v1/login                sets cookies
//	     /v1/failed               503, the upstream's own
//	     anything else            its method, path, body, Authorization and Cookie, in JSON
//	     /seen                    what all hosts have seen since it was asked last, a line each
//
// The budget spent has 2 of 5 units left, and a request of it needs 3.
type clientStand struct {
	host, other, away string // addresses without a scheme
	env               []string

	mu   sync.Mutex
	seen []string
}

func (s *clientStand) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/seen" {
		io.WriteString(w, strings.Join(s.saw(), "\n"))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	line := strings.TrimSpace(fmt.Sprint(r.Method, " ", r.URL.RequestURI(), " ", r.Header.Get("Authorization"),
		string(body)))
	for name := range r.Header {
		if strings.HasPrefix(name, "Ration-") {
			line += " " + name
		}
	}
	s.seen = append(s.seen, line)
	var status int
	if fmt.Sscanf(r.URL.Path, "/v1/%d", &status); status > 0 {
		w.Header().Set("Location", "/v1/there")
		w.WriteHeader(status)
		return
	}
	switch r.URL.Path {
	case "/v1/other":
		http.Redirect(w, r, "http://"+s.other+"/v1/there", http.StatusFound)
	case "/v1/away":
		http.Redirect(w, r, "http://"+s.away+"/v1/there", http.StatusFound)
	case "/v1/page":
		w.Header()["Link"] = []string{`</v1/next>; rel="next"`, `</v1/last>; rel="last"`}
	case "/v1/login":
		w.Header()["Set-Cookie"] = []string{"root=1; Path=/", "folder=2; HttpOnly", "other=3; Path=/elsewhere"}
	case "/v1/failed":
		http.Error(w, "the upstream's own", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"method": r.Method, "path": r.URL.RequestURI(),
			"body":          string(body),
			"authorization": r.Header.Get("Authorization"), "cookie": r.Header.Get("Cookie")})
	}
}

func newClientStand(t *testing.T) *clientStand {
	s := &clientStand{}
	for _, address := range []*string{&s.host, &s.other, &s.away} {
		*address = strings.TrimPrefix(newUpstream(t, s.ServeHTTP).URL, "http://")
	}
	text := fmt.Sprintf(clientTable, s.host, s.other)
	guarded := newServer(t, &gateway.Options{Token: clientToken, Hosts: []string{"gateway.internal"}},
		newClient(t, text, t.TempDir(), nil))
	guarded.do("POST", "/v1/spend", `{"method": "items.spent"}`, "Ration-Token", clientToken)
	table, err := costs.Parse("costs.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	lost, err := client.New(table, &client.Options{Ledger: "redis://127.0.0.1:1", State: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lost.Close() })
	at, err := url.Parse(guarded.url)
	if err != nil {
		t.Fatal(err)
	}
	relay := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(at); p.Out.Host = at.Host }}
	secure, files := newTLS(t, relay)
	forward := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Host != "gateway.internal" {
			http.Error(w, "the proxy of "+r.URL.Host, http.StatusBadGateway)
			return
		}
		relay.ServeHTTP(w, r)
	}))
	t.Cleanup(forward.Close)
	s.env = clientEnv("RATION_URL="+guarded.url, "RATION_TOKEN="+clientToken, "HOST="+s.host, "OTHER="+s.other,
		"AWAY="+s.away,
		"DOWN_URL="+newServer(t, &gateway.Options{Token: clientToken}, lost).url, "TLS_URL="+secure, "TLS_FILES="+files,
		"PROXY="+forward.URL,
		"http_proxy=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1", "no_proxy=127.0.0.1")
	return s
}

// newTLS serves h by TLS, to clients with a certificate. The files ca.pem,
// cert.pem and key.pem are in the folder that it returns.
func newTLS(t *testing.T, h http.Handler) (url, folder string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour),
		NotAfter:  time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	cert, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	folder = t.TempDir()
	for name, text := range map[string][]byte{"ca.pem": public, "cert.pem": public,
		"key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(folder+"/"+name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.LoadX509KeyPair(folder+"/cert.pem", folder+"/key.pem")
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(public)
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients without a certificate
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs: known}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, folder
}

// run runs a program in a folder of docs/clients.
func (s *clientStand) run(t *testing.T, folder, program string, args ...string) (out string, code int) {
	t.Helper()
	cmd := command(t, folder, s.env, program, args...)
	text, _ := cmd.CombinedOutput()
	return string(bytes.TrimSpace(text)), cmd.ProcessState.ExitCode()
}

// saw returns what the hosts have seen since they were asked last.
func (s *clientStand) saw() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

// TestClientsKeepTheirPromises runs the tests of each client, which are in its
// own language beside it, against a gateway. Each test prints its claim when it
// fails.
func TestClientsKeepTheirPromises(t *testing.T) {
	if testing.Short() {
		t.Skip("starts other languages, 5 seconds")
	}
	for _, c := range []struct{ folder, pkg, program, file, flag, has string }{
		{"python", "python3-requests python3-httpx python3-aiohttp", "python3", "test.py", "-c",
			"import requests, httpx, aiohttp"},
		{"node", "nodejs node-undici node-axios", "node", "test.mjs", "-e", "require('undici'); require('axios')"},
		{"php", "php-cli php-curl php-guzzlehttp-guzzle", "php", "test.php", "-r",
			"curl_init(); require 'GuzzleHttp/autoload.php';"},
	} {
		t.Run(c.folder, func(t *testing.T) {
			t.Parallel()
			if !installed(t, c.pkg, c.program, c.flag, c.has) {
				t.Skip()
			}
			if out, code := newClientStand(t).run(t, c.folder, c.program, c.file); code != 0 {
				t.Errorf("%s\nexit code %d", out, code)
			}
		})
	}
}

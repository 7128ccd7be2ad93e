package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ration-dev/ration/costs/gateway"
)

const twoHosts = `
version: 1
upstream: items
account: my-project
hosts: [%q, %q]
routes:
  GET /v1/{rest...}: items.get
  HEAD /v1/{rest...}: items.head
  POST /v1/{rest...}: items.insert
  PUT /v1/{rest...}: items.update
costs: {items.get: 1, items.head: 1, items.insert: 1, items.update: 1}
budgets:
  - {name: day, limit: 100, window: {sliding: 24h}}
  - {name: heads, limit: 1, window: {sliding: 24h}, methods: [items.head]}
`

// clientServer is a gateway for the clients, and an upstream of two hosts. Each
// request is noted with what the clients sent.
type clientServer struct {
	*server
	host, other string

	mu   sync.Mutex
	seen []string
}

func newClientServer(t *testing.T) *clientServer {
	if testing.Short() {
		t.Skip("starts other languages, 2 seconds")
	}
	s := &clientServer{}
	answer := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.seen = append(s.seen, strings.TrimSpace(fmt.Sprint(r.Method, " ", r.URL.RequestURI(), " ", r.Header.Get("Authorization"), string(body))))
		s.mu.Unlock()
		var status int
		if fmt.Sscanf(r.URL.Path, "/v1/%d", &status); status > 0 {
			w.Header().Set("Location", "/v1/there")
			w.WriteHeader(status)
		}
		switch r.URL.Path {
		case "/v1/other":
			http.Redirect(w, r, "http://"+s.other+"/v1/there", http.StatusFound)
		case "/v1/page":
			w.Header()["Link"] = []string{`</v1/next>; rel="next"`, `</v1/last>; rel="last"`}
		}
	}
	s.host = strings.TrimPrefix(newUpstream(t, answer).URL, "http://")
	s.other = strings.TrimPrefix(newUpstream(t, answer).URL, "http://")
	s.server = newServer(t, &gateway.Options{}, newClient(t, fmt.Sprintf(twoHosts, s.host, s.other), t.TempDir(), nil))
	return s
}

// run runs a program in docs/clients, and returns what it prints and what the
// upstream saw of it.
func (s *clientServer) run(t *testing.T, p clientProgram) (out string, seen []string) {
	t.Helper()
	cmd := exec.Command(find(t, p.name, p.pkg), p.flag, p.program)
	cmd.Dir = "../../docs/clients"
	cmd.Env = append(os.Environ(), "RATION_URL="+s.url, "PYTHONDONTWRITEBYTECODE=1")
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", p.name, err, text)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, s.seen = s.seen, nil
	return strings.TrimSpace(string(text)), seen
}

// TestRedirectRepeatsAPost: what the upstream answers to a POST with "see the
// other page" was sent there as a second POST, and a PUT without its body.
func TestRedirectRepeatsAPost(t *testing.T) {
	s := newClientServer(t)
	var want []string
	for _, verb := range []string{"POST", "PUT"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			there := verb + " /v1/there text"
			if status == 303 || verb == "POST" && status < 303 {
				there = "GET /v1/there"
			}
			want = append(want, fmt.Sprintf("%s /v1/%d text", verb, status), there)
		}
	}
	for _, p := range []clientProgram{
		{"php", "php-cli and php-curl", "-r", `require "php/ration.php";
foreach (["POST", "PUT"] as $verb) foreach ([301, 302, 303, 307, 308] as $status) Ration::request($verb, "http://` + s.host + `/v1/$status", body: "text");`},
	} {
		if _, seen := s.run(t, p); !slices.Equal(seen, want) {
			t.Errorf("%s sent\n%s\nwant\n%s", p.name, strings.Join(seen, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestRedirectTakesAuthorization: both hosts are behind the gateway, and a
// client that follows a redirect took them for one.
func TestRedirectTakesAuthorization(t *testing.T) {
	s := newClientServer(t)
	for _, p := range []clientProgram{
		{"php", "php-cli and php-curl", "-r", `require "php/ration.php";
foreach (["302", "other"] as $page) Ration::request("GET", "http://` + s.host + `/v1/$page", headers: ["Authorization: secret"]);`},
		{"sh", "curl", "-c", `. shell/ration.sh; for page in 302 other; do ration_curl http://` + s.host + `/v1/$page -H 'Authorization: secret' || true; done; ration_curl http://` + s.host + `/v1/302 -u a:b -d text || true`},
	} {
		want := []string{"GET /v1/302 secret", "GET /v1/there secret", "GET /v1/other secret", "GET /v1/there"}
		if p.name == "sh" {
			want = append(want[:3], "POST /v1/302 Basic YTpitext")
		}
		if _, seen := s.run(t, p); !slices.Equal(seen, want) {
			t.Errorf("%s sent %q; want %q", p.name, seen, want)
		}
	}
}

// TestHeadIsRefusedWithoutABody: the answer to a HEAD request has no body, and
// the clients failed to read it.
func TestHeadIsRefusedWithoutABody(t *testing.T) {
	s := newClientServer(t)
	s.do("POST", "/v1/spend", `{"method": "items.head"}`)
	url := "http://" + s.host + "/v1/items"
	for _, p := range []clientProgram{
		{"php", "php-cli and php-curl", "-r", `require "php/ration.php";
try { Ration::request("HEAD", "` + url + `"); } catch (RationRefused $refused) { echo $refused->getMessage(); }`},
	} {
		if out, _ := s.run(t, p); !strings.Contains(out, "heads") {
			t.Errorf("%s printed %q; want what refused it", p.name, out)
		}
	}
}

// TestShellTakesAParameterForTheAddress: of an address without a scheme, such
// as that of a Link header, the shell sent what follows a :// in its query.
func TestShellTakesAParameterForTheAddress(t *testing.T) {
	s := newClientServer(t)
	const page = "/v1/items?next=https://example.com/v1/other"
	for _, address := range []string{"/to/", "", "http://", "HTTPS://"} {
		_, seen := s.run(t, clientProgram{"sh", "curl", "-c", `. shell/ration.sh; ration_curl '` + address + s.host + page + "'"})
		if want := []string{"GET " + page}; !slices.Equal(seen, want) {
			t.Errorf("%s sent %q; want %q", address, seen, want)
		}
	}
}

// TestShellLosesARefusal: a caller that wants the headers in a file, such as
// for the link to the next page, got curl's 22 for a refusal.
func TestShellLosesARefusal(t *testing.T) {
	s := newClientServer(t)
	s.do("POST", "/v1/spend", `{"method": "items.head"}`)
	for _, flag := range []string{"-D", "--dump-header"} {
		file := t.TempDir() + "/headers"
		out, _ := s.run(t, clientProgram{"sh", "curl", "-c", ". shell/ration.sh; ration_curl http://" + s.host + "/v1/items --head " + flag + " " + file + " -o /dev/null; echo $?"})
		headers, err := os.ReadFile(file)
		if !strings.Contains(out, "refused by heads") || !strings.HasSuffix(out, "75") || !strings.Contains(string(headers), "Ration-Refused-By") {
			t.Errorf("%s printed %q, with headers %q, %v; want 75", flag, out, headers, err)
		}
	}
}

// TestPHPKeepsOneOfTwoLinks: of several headers of one name, such as Link, it
// kept the last, and a program that pages took the first page for all.
func TestPHPKeepsOneOfTwoLinks(t *testing.T) {
	s := newClientServer(t)
	out, _ := s.run(t, clientProgram{"php", "php-cli and php-curl", "-r", `require "php/ration.php"; echo Ration::request("GET", "http://` + s.host + `/v1/page")["headers"]["link"];`})
	if want := "</to/" + s.host + `/v1/next>; rel="next", </to/` + s.host + `/v1/last>; rel="last"`; out != want {
		t.Errorf("it has %q; want %q", out, want)
	}
}

// TestShellShowsTheToken: every user of a host can read the arguments of a
// program, and so could use the gateway.
func TestShellShowsTheToken(t *testing.T) {
	s := newClientServer(t)
	t.Setenv("RATION_TOKEN", "the-token")
	const show = `. shell/ration.sh; curl() { echo "$@"; command curl "$@" ; }; `
	out, seen := s.run(t, clientProgram{"sh", "curl", "-c", show + "ration_curl http://" + s.host + "/v1/items"})
	if strings.Contains(out, "the-token") || !strings.Contains(out, "--fail") || len(seen) != 1 {
		t.Errorf("curl has the arguments %s; want no token among them", out)
	}
}

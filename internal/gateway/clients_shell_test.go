package gateway_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// shell runs a script that has sourced ration.sh.
func (s *clientStand) shell(t *testing.T, script string) (out string, code int) {
	t.Helper()
	if !installed(t, "curl", "curl", "-V") {
		t.Skip()
	}
	return s.run(t, "shell", "sh", "-c", ". ./ration.sh; "+script)
}

// TestAShellShowsTheReason: curl --fail drops the body of an error, which says
// what to do. An error of the upstream has no reason of the gateway.
func TestAShellShowsTheReason(t *testing.T) {
	s := newClientStand(t)
	for url, want := range map[string]string{
		"https://elsewhere.example/x":     "403\nration: elsewhere.example is not a host of costs.yaml; ",
		"http://" + s.host + "/v1/failed": "503",
	} {
		out, code := s.shell(t, "ration_curl "+url+" -o /dev/null")
		if code != 22 || !strings.Contains(out, want) || strings.Contains(out, "ration: ") != strings.Contains(want,
			"ration: ") {
			t.Errorf("%s: exit code %d, %s; want 22, %q", url, code, out, want)
		}
	}
}

// TestAShellTakesNoTokenElsewhere: redirects that lead back to the gateway are
// followed, and links too. Neither the token nor credentials go to another
// host.
func TestAShellTakesNoTokenElsewhere(t *testing.T) {
	s := newClientStand(t)
	host := "http://" + s.host + "/v1/"
	for script, want := range map[string][]string{
		"ration_curl " + host + "302": {"GET /v1/302", "GET /v1/there"},
		`ration_curl "$(ration_curl ` + host +
			`page --dump-header - | sed -n 's/^Link: <\([^>]*\)>; rel="next".*/\1/p')"`: {"GET /v1/page",
			"GET /v1/next"},
		"ration_curl " + host + "away":                                {"GET /v1/away"},
		"ration_curl " + host + "302 -H 'Authorization: secret'":      {"GET /v1/302 secret", "GET /v1/there secret"},
		"ration_curl " + host + "other -H 'Authorization: secret'":    {"GET /v1/other secret"},
		"ration_curl " + host + "302 -u a:b -d text":                  {"POST /v1/302 Basic YTpitext"},
		"ration_curl /to/" + s.host + "/v1/items?a=http://b.example/": {"GET /v1/items?a=http://b.example/"},
		"ration_curl " + s.host + "/v1/items?a=http://b.example/":     {"GET /v1/items?a=http://b.example/"},
		"ration_curl HTTP://" + s.host + "/v1/items":                  {"GET /v1/items"},
	} {
		if out, _ := s.shell(t, script); !slices.Equal(s.saw(), want) {
			t.Errorf("%s: the hosts did not see %q\n%s", script, want, out)
		}
	}
}

// TestAShellKeepsARefusal: a caller that wants the headers in a file, such as
// for the link to the next page, got curl's 22 for a refusal.
func TestAShellKeepsARefusal(t *testing.T) {
	s := newClientStand(t)
	for _, flag := range []string{"-D", "--dump-header"} {
		file := t.TempDir() + "/headers"
		out, code := s.shell(t, "ration_curl http://"+s.host+"/v1/spent --head "+flag+" "+file+" -o /dev/null")
		headers, err := os.ReadFile(file)
		if !strings.Contains(out, "refused by spent") || code != 75 ||
			!strings.Contains(string(headers), "Ration-Refused-By") {
			t.Errorf("%s printed %q and exited %d, with headers %q, %v; want 75", flag, out, code, headers, err)
		}
	}
}

// TestAShellHidesTheToken: every user of a host can read the arguments of a
// program, and so could use the gateway.
func TestAShellHidesTheToken(t *testing.T) {
	s := newClientStand(t)
	out, _ := s.shell(t, `curl() { echo "$@"; command curl "$@" ; }; ration_curl http://`+s.host+"/v1/items")
	if strings.Contains(out, clientToken) || !strings.Contains(out, "--fail") || len(s.saw()) != 1 {
		t.Errorf("curl has the arguments %s; want no token among them", out)
	}
}

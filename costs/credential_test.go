package costs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
)

const withCredential = `version: 1
upstream: items
account: a
hosts: [api.example.com]
routes: {GET /: get}
costs: {get: 1}
budgets: [{name: all, limit: 1, window: 24h}]
credential: `

func TestCredentialPathIsRelativeToCostsYAML(t *testing.T) {
	for text, want := range map[string]costs.Credential{
		`{file: keys/a, header: authorization, prefix: "Bearer "}`: {File: "conf/keys/a", Header: "Authorization",
			Prefix: "Bearer "},
		"{file: /srv/a, header: X-Api-Key}": {File: "/srv/a", Header: "X-Api-Key"},
		"{file: a, query: key}":             {File: "conf/a", Query: "key"},
	} {
		table, err := costs.Parse("conf/costs.yaml", []byte(withCredential+text+"\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := table.Upstreams()[0].Credential; *got != want {
			t.Errorf("%s: %+v; want %+v", text, *got, want)
		}
	}
}

func TestCredentialsThatCannotBeMeantAreMistakes(t *testing.T) {
	mistaken(t, withCredential, map[string]string{
		"{header: Authorization}": `8:13: missing key "file": write file: upstream.key, which holds the secret and ` +
			`nothing else`,
		"{file: a}": "8:13: nothing gets the credential: write header: Authorization, or query: key",
		"{file: a, header: Authorization, query: key}": "8:13: a credential goes into a header or into the " +
			"query: write one of them",
		"{file: a, query: key, prefix: x}": "8:13: a prefix belongs to a header: remove it, or " +
			"write header in place of query",
		"{file: ~/a, query: key}": "8:20: file begins with ~, which only a shell " +
			"expands: write the whole path",
		"{file: AIzaSyExample, query: key}": "8:20: file looks like the secret itself: write the " +
			"path of a file that holds it",
		`{file: a, header: "X Key"}`: "8:31: not the name of a header: write letters, " +
			"digits and hyphens, such as Authorization",
		"{file: a, header: host}": "8:31: Host is not for credentials: write the header " +
			"that the upstream reads, such as Authorization",
		"{file: a, header: ration-token}": "8:31: Ration-Token is not for credentials: write the " +
			"header that the upstream reads, such as Authorization",
		`{file: a, header: Authorization, prefix: "Bär "}`: `8:54: a header has other characters: write letters, ` +
			`digits and spaces, such as "Bearer "`,
		"{file: a, query: a&b}": "8:30: not the name of a query parameter: write " +
			"letters, digits, hyphens and underscores, such as key",
		"{file: a, header: Authorization, secret: hunter22}": `8:46: unknown key "secret": write one of file, ` +
			`header, prefix, query`,
		"keys/a": `8:13: credential is "keys/a": write a map, {file: …}`,
	}, "")
	mistaken(t, beforeAlert, map[string]string{
		"credential: {file: a, query: key}": "5:13: a credential without hosts is sent nowhere",
	}, "")
}

// TestAStrangersConfigSendsNoFile: a costs.yaml that happened to be in the
// working folder could name any file of the user, and the host that gets it.
func TestAStrangersConfigSendsNoFile(t *testing.T) {
	home := t.TempDir()
	cloned := filepath.Join(home, "cloned")
	if err := errors.Join(os.MkdirAll(filepath.Join(cloned, "keys"), 0o700),
		os.MkdirAll(filepath.Join(home, ".ssh"), 0o700),
		os.WriteFile(filepath.Join(home, ".ssh", "id"), []byte("secret"), 0o600),
		os.Symlink(filepath.Join(home, ".ssh"), filepath.Join(cloned, "linked")),
		os.Symlink(filepath.Join(home, ".ssh", "id"), filepath.Join(cloned, "link"))); err != nil {
		t.Fatal(err)
	}
	for file, stray := range map[string]bool{
		"key": false, "keys/key": false, "./keys/../key": false, filepath.Join(cloned, "key"): false,
		"../.ssh/id": true, filepath.Join(home, ".ssh", "id"): true, "linked/id": true, "link": true,
		"keys/../../.ssh/id": true, "../cloned-too/key": true,
	} {
		table, err := costs.Parse(filepath.Join(cloned, "costs.yaml"),
			[]byte(withCredential+"{file: "+file+", query: key}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if err := table.CheckCredentials(cloned); err != nil != stray || stray &&
			!strings.Contains(err.Error(), "is not below "+cloned) {
			t.Errorf("%s: %v; want it to be stray %v", file, err, stray)
		}
	}
}

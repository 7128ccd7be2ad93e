package gateway_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
)

const videosTable = `
version: 1
upstream: youtube
account: my-project
api: youtube/v3
hosts: [www.googleapis.com]
credential: {file: FOLDER/key, query: key}
costs: {videos.list: 1}
budgets:
  - {name: day, limit: 60, window: {sliding: 24h}}
`

// clientExample is the example of a client in docs/clients.
type clientExample struct {
	name    string
	pkg     string // Debian's, which it needs
	program string
	has     []string // arguments that succeed if the program has all that it needs
	args    []string
}

var clientExamples = []clientExample{
	{"Python, requests", "python3-requests", "python3", []string{"-c", "import requests"},
		[]string{"python/example.py", "requests"}},
	{"Python, httpx", "python3-httpx", "python3", []string{"-c", "import httpx"},
		[]string{"python/example.py", "httpx"}},
	{"Python, aiohttp", "python3-aiohttp", "python3", []string{"-c", "import aiohttp"},
		[]string{"python/example.py", "aiohttp"}},
	{"Python, urllib", "python3", "python3", []string{"-V"}, []string{"python/example.py", "urllib"}},
	{"Node, fetch", "nodejs", "node", []string{"-v"}, []string{"node/example.mjs", "fetch"}},
	{"Node, undici", "node-undici", "node", []string{"-e", "require('undici')"},
		[]string{"node/example.mjs", "undici"}},
	{"Node, axios", "node-axios", "node", []string{"-e", "require('axios')"}, []string{"node/example.mjs", "axios"}},
	{"PHP, curl", "php-cli php-curl", "php", []string{"-r", "curl_init();"}, []string{"php/example.php", "curl"}},
	{"PHP, Guzzle", "php-guzzlehttp-guzzle", "php", []string{"-r", "require 'GuzzleHttp/autoload.php';"},
		[]string{"php/example.php", "guzzle"}},
	{"shell", "curl", "sh", []string{"-c", "curl -V"}, []string{"shell/example.sh"}},
	{"Ruby", "ruby", "ruby", []string{"-v"}, []string{"ruby/example.rb"}},
	{"Java", "default-jdk-headless", "java", []string{"--list-modules"}, []string{"java/Example.java"}},
	{"Rust", "rustc", "sh", []string{"-c", "rustc -V"},
		[]string{"-c", `rustc -o "$FOLDER/rust" rust/example.rs && exec "$FOLDER/rust"`}},
}

// clientEnv is the environment of a client's program: the programs and packages
// of Debian come first, whatever else this machine has.
func clientEnv(more ...string) []string {
	return append(append(os.Environ(), "PATH=/usr/bin:"+os.Getenv("PATH"), "NODE_PATH=/usr/share/nodejs",
		"PYTHONDONTWRITEBYTECODE=1"), more...)
}

// command returns a command of a program in a folder of docs/clients.
func command(t *testing.T, folder string, env []string, program string, args ...string) *exec.Cmd {
	// which looks in the PATH of env
	cmd := exec.CommandContext(t.Context(), "env", append([]string{program}, args...)...)
	cmd.Dir, cmd.Env = "../../docs/clients/"+folder, env
	return cmd
}

// installed reports whether a program has what it needs. If not, it fails the
// test if RATION_REQUIRE_CLIENTS=1.
func installed(t *testing.T, pkg, program string, has ...string) bool {
	err := command(t, ".", clientEnv(), program, has...).Run()
	if err != nil && os.Getenv("RATION_REQUIRE_CLIENTS") == "1" {
		t.Fatalf("%s %q: %v, and RATION_REQUIRE_CLIENTS=1; install %s", program, has, err, pkg)
	}
	if err != nil {
		t.Logf("LEFT OUT: %s; install %s", program, pkg)
	}
	return err == nil
}

// barrier holds the first request of each program until all have made one.
type barrier struct {
	mu    sync.Mutex
	left  int
	known map[string]bool
	open  chan struct{}
}

func newBarrier(n int) *barrier {
	return &barrier{left: n, known: map[string]bool{}, open: make(chan struct{})}
}

func (b *barrier) wait(t *testing.T, who string) {
	b.mu.Lock()
	if !b.known[who] {
		b.known[who] = true
		if b.left--; b.left == 0 {
			close(b.open)
		}
	}
	b.mu.Unlock()
	select {
	case <-b.open:
	case <-t.Context().Done():
	case <-time.After(time.Minute):
		t.Errorf("after a minute only %v have come", b.known)
	}
}

// keyFolder returns a folder with the file key of videosTable.
func keyFolder(t *testing.T) string {
	folder := t.TempDir()
	if err := os.WriteFile(folder+"/key", []byte("the-key"), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestLanguagesShareABudget: a process in each language and one in Go ask at
// once, until they are refused. What they print adds up to the limit, and so
// does what the upstream counted.
func TestLanguagesShareABudget(t *testing.T) {
	if testing.Short() {
		t.Skip("starts programs in seven languages, one of which it compiles")
	}
	t.Parallel()
	examples := slices.DeleteFunc(slices.Clone(clientExamples),
		func(e clientExample) bool { return !installed(t, e.pkg, e.program, e.has...) })
	fake := youtubetest.New(nil)
	all := newBarrier(len(examples) + 1)
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		all.wait(t, r.UserAgent())
		fake.ServeHTTP(w, r)
	})
	folder := keyFolder(t)
	c := newClient(t, strings.Replace(videosTable, "FOLDER", folder, 1), folder, u)
	s := newServer(t, &gateway.Options{Endpoint: u.URL}, c)
	var mu sync.Mutex
	answers := map[string]int{}
	var wg sync.WaitGroup
	for _, e := range examples {
		session := s.NewSession(quota.Caller{}, quota.Caller{}, "")
		defer session.End()
		wg.Go(func() {
			cmd := command(t, ".", clientEnv("RATION_URL="+s.url, "RATION_TOKEN="+session.Token, "FOLDER="+t.TempDir(),
				"HTTP_PROXY=http://127.0.0.1:1", "http_proxy=http://127.0.0.1:1"), e.program, e.args...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, _ := cmd.Output()
			n, err := strconv.Atoi(strings.TrimSpace(string(out)))
			if err != nil || cmd.ProcessState.ExitCode() != 75 {
				t.Errorf("%s: exit code %d, %q\n%s", e.name, cmd.ProcessState.ExitCode(), out, &stderr)
			}
			mu.Lock()
			answers[e.name] = n
			mu.Unlock()
		})
	}
	n := 0
	wg.Go(func() {
		client := http.Client{Transport: c}
		for ; ; n++ {
			resp, err := client.Get(u.URL + "/youtube/v3/videos?part=id&chart=mostPopular&regionCode=IN&key=the-key")
			if err != nil {
				return
			}
			resp.Body.Close()
		}
	})
	wg.Wait()
	answers["Go"] = n
	sum := 0
	for name, n := range answers {
		if sum += n; n == 0 {
			t.Errorf("%s had no answer", name)
		}
	}
	if hits, units := u.hits.Load(), used(t, c); sum != 60 || hits != 60 || units != 60 {
		t.Errorf("%v answers, %d requests reached the upstream, %d units; want 60 of each", answers, hits, units)
	}
}

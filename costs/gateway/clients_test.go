package gateway_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs/gateway"
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

// interpreters run the example of each client in docs/clients.
var interpreters = []struct {
	name    string
	command []string
	pkg     string // Debian's package of it
}{
	{"Python, requests", []string{"python3", "python/example.py", "requests"}, "python3-requests"},
	{"Python, httpx", []string{"python3", "python/example.py", "httpx"}, "python3-httpx"},
	{"Python, aiohttp", []string{"python3", "python/example.py", "aiohttp"}, "python3-aiohttp"},
	{"Python, urllib", []string{"python3", "python/example.py", "urllib"}, "python3"},
	{"Node, fetch", []string{"node", "node/example.mjs", "fetch"}, "nodejs"},
	{"Node, undici", []string{"node", "node/example.mjs", "undici"}, "node-undici"},
	{"Node, axios", []string{"node", "node/example.mjs", "axios"}, "node-axios"},
	{"PHP, curl", []string{"php", "php/example.php", "curl"}, "php-cli and php-curl"},
	{"PHP, Guzzle", []string{"php", "php/example.php", "guzzle"}, "php-guzzlehttp-guzzle"},
	{"shell", []string{"sh", "shell/example.sh"}, "curl"},
}

// find returns the interpreter of the system's packages, else the one in PATH.
// It skips the test without one, or fails it if RATION_REQUIRE_CLIENTS=1.
func find(t *testing.T, name, pkg string) string {
	if path, err := exec.LookPath("/usr/bin/" + name); err == nil {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("RATION_REQUIRE_CLIENTS") == "1" {
		t.Fatalf("no %s on this machine, and RATION_REQUIRE_CLIENTS=1; install %s", name, pkg)
	}
	if err != nil {
		t.Skipf("SKIPPED, no %s on this machine; install %s to run this test", name, pkg)
	}
	return path
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

// findInterpreters returns the programs of all interpreters, or skips the test.
func findInterpreters(t *testing.T) (paths []string) {
	t.Helper()
	for _, i := range interpreters {
		paths = append(paths, find(t, i.command[0], i.pkg))
	}
	return paths
}

// TestLanguagesShareABudget: a process in each language and one in Go ask at
// once, until they are refused. What they print adds up to the limit, and so
// does what the upstream counted.
func TestLanguagesShareABudget(t *testing.T) {
	paths := findInterpreters(t) // before any of them starts
	fake := youtubetest.New(nil)
	all := newBarrier(len(interpreters) + 1)
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		all.wait(t, r.UserAgent())
		fake.ServeHTTP(w, r)
	})
	folder := t.TempDir()
	if err := os.WriteFile(folder+"/key", []byte("the-key"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, strings.Replace(videosTable, "FOLDER", folder, 1), folder, u)
	s := newServer(t, &gateway.Options{Endpoint: u.URL}, c)
	var mu sync.Mutex
	answers := map[string]int{}
	var wg sync.WaitGroup
	for n, i := range interpreters {
		session := s.NewSession(quota.Caller{}, quota.Caller{}, "")
		defer session.End()
		wg.Go(func() {
			cmd := exec.Command(paths[n], i.command[1:]...)
			cmd.Dir = "../../docs/clients"
			cmd.Env = append(os.Environ(), "RATION_URL="+s.url, "RATION_TOKEN="+session.Token, nodePath, "PYTHONDONTWRITEBYTECODE=1", "HTTP_PROXY=http://127.0.0.1:1", "http_proxy=http://127.0.0.1:1")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, _ := cmd.Output()
			n, err := strconv.Atoi(strings.TrimSpace(string(out)))
			if err != nil || cmd.ProcessState.ExitCode() != 75 {
				t.Errorf("%s: exit code %d, %q\n%s", i.name, cmd.ProcessState.ExitCode(), out, &stderr)
			}
			mu.Lock()
			answers[i.name] = n
			mu.Unlock()
		})
	}
	wg.Go(func() {
		client := http.Client{Transport: c}
		for {
			resp, err := client.Get(u.URL + "/youtube/v3/videos?part=id&chart=mostPopular&regionCode=IN&key=the-key")
			if err != nil {
				return
			}
			resp.Body.Close()
			mu.Lock()
			answers["Go"]++
			mu.Unlock()
		}
	})
	wg.Wait()
	sum := 0
	for name, n := range answers {
		if sum += n; n == 0 {
			t.Errorf("%s had no answer", name)
		}
	}
	if sum != 60 || u.hits.Load() != 60 || used(t, c) != 60 {
		t.Errorf("%v answers, %d requests reached the upstream, %d units are used; want 60 of each", answers, u.hits.Load(), used(t, c))
	}
}

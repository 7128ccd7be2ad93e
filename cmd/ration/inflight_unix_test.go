//go:build unix

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/servers"
)

// inFlight is an upstream that counts the requests that it has at one time.
type inFlight struct {
	mu          sync.Mutex
	now, most   int
	held        chan struct{} // requests for /held are answered when it is closed
	arrivedHeld chan struct{} // gets one for each of them
}

func (u *inFlight) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.add(1)
	defer u.add(-1)
	if r.URL.Path == "/held" {
		u.arrivedHeld <- struct{}{}
		select {
		case <-u.held:
		case <-r.Context().Done():
		}
		return
	}
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	time.Sleep(5 * time.Millisecond) // the answer's body
	io.WriteString(w, "done")
}

func (u *inFlight) add(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now += n
	u.most = max(u.most, u.now)
}

// TestNoMoreAreInFlightOverProcesses than 10, of 64 callers of 4 gateways. The
// calls of a gateway that is killed end with their leases, and those of a
// client that hangs up at once.
func TestNoMoreAreInFlightOverProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lease to end, 2 seconds")
	}
	t.Parallel()
	for name, ledger := range map[string]func() string{
		"sqlite": func() string { return "sqlite:" + filepath.Join(t.TempDir(), "shared.db") },
		"redis":  func() string { return servers.StartRedis(t).URL() },
	} {
		t.Run(name, func(t *testing.T) { tenInFlight(t, ledger()) })
	}
}

func tenInFlight(t *testing.T, ledger string) {
	upstream := &inFlight{held: make(chan struct{}), arrivedHeld: make(chan struct{}, 64)}
	web := httptest.NewServer(upstream)
	defer web.Close()
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	os.Remove(filepath.Join(s.dir, "regions.yaml"))
	s.url = web.URL
	s.write(t, "costs.yaml", "version: 1\naccount: a\nledger: "+ledger+
		"\nhosts: [api.example.com]\nroutes: {\"/{path...}\": read}\n"+
		"costs: {read: 1}\nbudgets: [{name: ten, limit: 10, in_flight: true, lease: 2s}]\n")
	var gateways []*served
	for range 4 {
		gateways = append(gateways, s.start(t, nil, "proxy", "--listen", "127.0.0.1:0"))
	}
	var urls []string
	for _, gateway := range gateways {
		urls = append(urls, gateway.url())
	}
	call := func(gateway int, path, wait string) (status int, body string) {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, urls[gateway]+"/to/api.example.com"+path,
			nil)
		request.Header.Set("Ration-Max-Wait", wait)
		resp, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	var callers sync.WaitGroup
	for i := range 64 {
		callers.Go(func() {
			for range 3 {
				if status, body := call(i%4, "/", "60s"); status != http.StatusOK {
					t.Errorf("%d %s", status, body)
				}
			}
		})
	}
	callers.Wait()
	if upstream.most > 10 || upstream.most < 5 {
		t.Errorf("%d were in flight at once; want 10 at most, and nearly that many", upstream.most)
	}
	for range 10 {
		callers.Go(func() { call(0, "/held", "60s") })
	}
	for range 10 {
		<-upstream.arrivedHeld
	}
	status, body := call(1, "/", "0s")
	if status != http.StatusTooManyRequests || !strings.Contains(body, "ten has 0 of 10 calls left (10 in flight)") {
		t.Errorf("the eleventh: %d %s", status, body)
	}
	gateways[0].Process.Kill()
	callers.Wait()
	if status, body := call(1, "/", "60s"); status != http.StatusOK {
		t.Errorf("after the leases of the gateway that was killed: %d %s", status, body)
	}
}

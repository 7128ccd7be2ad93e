//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// alertReceiver is a webhook that keeps what it gets.
type alertReceiver struct {
	*httptest.Server
	got chan alertSent
}

type alertSent struct {
	Text, Kind, Budget string
	Level              int
}

func newAlertReceiver(t *testing.T) *alertReceiver {
	r := &alertReceiver{got: make(chan alertSent, 100)}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var one alertSent
		if err := json.Unmarshal(body, &one); err != nil {
			t.Errorf("%v in %s", err, body)
		}
		r.got <- one
	}))
	t.Cleanup(r.Close)
	return r
}

// alertTo adds a webhook to a stand's costs.yaml.
func (s *stand) alertTo(t *testing.T, url string) {
	t.Helper()
	path := filepath.Join(s.dir, "costs.yaml")
	s.write(t, "costs.yaml", mustRead(t, path)+"alert: {webhook: \""+url+
		"/services/hook\", on: [level, exhaustion, cooldown, ledger, drift], levels: [95]}\n")
}

// TestOneOfEightProcessesSendsTheAlert: of eight runs that all find the budget
// spent, one sends the alert.
func TestOneOfEightProcessesSendsTheAlert(t *testing.T) {
	if testing.Short() {
		t.Skip("starts eight processes, 2 seconds")
	}
	t.Parallel()
	s, r := newStand(t, nil, "{name: all, limit: 20, window: 24h, methods: [videos.list]}", "[{trending: {pages: 4}}]",
		eight...), newAlertReceiver(t)
	s.alertTo(t, r.URL)
	var wg sync.WaitGroup
	for _, region := range eight {
		wg.Go(func() {
			if out, err := s.command("run", region).CombinedOutput(); err != nil && exitCode(err) != exitStopped {
				t.Errorf("%s: %v %s", region, err, out)
			}
		})
	}
	wg.Wait()
	if len(r.got) != 1 {
		t.Fatalf("%d alerts; want 1", len(r.got))
	}
	if one := <-r.got; one.Kind != "level" || one.Budget != "all" || one.Level != 95 ||
		!strings.HasPrefix(one.Text, "ration: 95 %: all of p has used ") {
		t.Errorf("%+v", one)
	}
}

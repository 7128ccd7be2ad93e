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
	"syscall"
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
	s.write(t, "costs.yaml", mustRead(t, path)+"alert: {webhook: \""+url+"/services/hook\", levels: [95]}\n")
}

// TestEightProcessesAlertEightTimes: of eight runs that all find the budget spent,
// one sends the alert.
func TestEightProcessesAlertEightTimes(t *testing.T) {
	t.Parallel()
	s, r := newStand(t, nil, "{name: all, limit: 20, window: 24h, methods: [videos.list]}", "[{trending: {pages: 4}}]", eight...), newAlertReceiver(t)
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
	if one := <-r.got; one.Kind != "level" || one.Budget != "all" || one.Level != 95 || !strings.HasPrefix(one.Text, "ration: 95 %: all of p has used ") {
		t.Errorf("%+v", one)
	}
}

// TestServeDoesNotAlert: serve sends what is due when it starts, and another one
// does not.
func TestServeDoesNotAlert(t *testing.T) {
	t.Parallel()
	s, r := newStand(t, nil, "{name: all, limit: 100, window: 24h}", "[trending]", "US"), newAlertReceiver(t)
	s.alertTo(t, r.URL)
	if code, _, text := s.run(t, nil, "spend", "search.list"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	first := s.serve(t, nil)
	if one := <-r.got; one.Level != 95 {
		t.Errorf("%+v", one)
	}
	second := s.serve(t, nil)
	second.url()
	for _, d := range []*served{first, second} {
		d.ends(syscall.SIGTERM)
	}
	if len(r.got) > 0 {
		t.Errorf("and again: %+v", <-r.got)
	}
}

// TestServeForeseesNothing: serve sends an alert because the coming ticks need more
// than a budget has left, although little has been spent so far.
func TestServeForeseesNothing(t *testing.T) {
	s, r := newStand(t, nil, "{name: all, limit: 500, window: 24h}", "[{search: {queries: [q]}}]", "US"), newAlertReceiver(t)
	s.alertTo(t, r.URL)
	regions := filepath.Join(s.dir, "regions.yaml")
	s.write(t, "regions.yaml", strings.Replace(mustRead(t, regions), leapDay, "'0 */3 * * *'", 1))
	if code, _, text := s.run(t, nil, "spend", "search.list"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	d := s.serve(t, nil)
	if one := <-r.got; one.Kind != "exhaustion" || !strings.HasPrefix(one.Text, "ration: by the schedule, all of p refuses its first call at ") {
		t.Errorf("%+v", one)
	}
	d.ends(syscall.SIGTERM)
}

package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/daemon"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
)

// stand is a folder with configuration, and a local YouTube.
type stand struct {
	*testing.T
	dir      string
	upstream *youtubetest.Server
	env      map[string]string
}

const plentyOfUnits = "{name: all, limit: 9500, window: 24h}"

func newStand(t *testing.T, budget, fetch string, regions ...string) *stand {
	t.Helper()
	s := &stand{T: t, dir: t.TempDir(), upstream: youtubetest.New(nil)}
	server := httptest.NewServer(s.upstream)
	t.Cleanup(server.Close)
	s.env = map[string]string{"RATION_CONFIG": s.dir, "RATION_STATE": s.dir,
		"RATION_JOURNAL": filepath.Join(s.dir, "replica"), "RATION_ENDPOINT": server.URL, "YOUTUBE_API_KEY": "k"}
	s.write("costs.yaml",
		"version: 1\nupstream: youtube\naccount: p\nledger: sqlite:ration.db\napi: youtube/v3\nhosts: "+
			"[youtube.googleapis.com]\n"+
			"costs: {search.list: 100, videos.list: 1, channels.list: 1, videoCategories.list: 1}\nbudgets: ["+budget+
			"]\n")
	// The 29th of February does not come while a test runs.
	s.write("regions.yaml", "version: 1\nschedule: 0 0 29 2 *\nfetch: "+fetch+"\nregions: {"+strings.Join(regions,
		": {}, ")+": {}}\n")
	return s
}

func (s *stand) write(name, text string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

func (s *stand) read(name string) string {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.Fatal(err)
	}
	return string(data)
}

// setup returns what a process of its own would have.
func (s *stand) setup() *setup.Setup {
	env := map[string]string{}
	for name, value := range s.env {
		env[name] = value
	}
	return &setup.Setup{Getenv: func(name string) string { return env[name] }, Now: time.Now, Conceal: func(string) {},
		ConcealProxies: func() {},
		Redact:         func(text string) string { return text }, Clean: func(text string) string { return text },
		Report: func(_ quota.Call, err error) { s.Errorf("reported: %v", err) }}
}

// spend spends a call as another process would.
func (s *stand) spend(method string, units quota.Units) {
	s.Helper()
	place := s.setup()
	table, err := place.Prices()
	if err != nil {
		s.Fatal(err)
	}
	c, err := place.Open(table, true)
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Guard().Spend(s.Context(), quota.Call{Account: "p", Method: method, Units: units}); err != nil &&
		!errors.Is(err, quota.ErrRefused) {
		s.Fatal(err)
	}
}

// running is a daemon that runs, and its log.
type running struct {
	*stand
	hangup  chan os.Signal
	url     string // of its gateway, once listening
	stop    context.CancelFunc
	stopped chan struct{}
	err     error // once stopped

	mu   sync.Mutex
	log  strings.Builder
	more chan struct{} // a line came
}

// Write implements io.Writer for the log.
func (d *running) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case d.more <- struct{}{}:
	default:
	}
	return d.log.Write(line)
}

func (d *running) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

// start runs a daemon until the test ends it or is over.
func (s *stand) start(run func(context.Context, *daemon.Options) error) *running {
	s.Helper()
	ctx, stop := context.WithCancel(s.Context())
	d := &running{stand: s, hangup: make(chan os.Signal, 1), stop: stop, stopped: make(chan struct{}),
		more: make(chan struct{}, 1)}
	logger := slog.New(slog.NewTextHandler(d, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := &daemon.Options{Setup: s.setup(), Hangup: d.hangup, Grace: 5 * time.Second,
		Logger:  func() *slog.Logger { return logger },
		Message: error.Error, IsDown: client.IsDown,
		Listening: func(log *slog.Logger, url string) {
			d.mu.Lock()
			d.url = url
			d.mu.Unlock()
			log.Info("listening")
		}}
	go func() {
		defer close(d.stopped)
		d.err = run(ctx, o)
	}()
	s.Cleanup(func() { stop(); <-d.stopped })
	return d
}

// serve runs Serve, with a gateway on a free port.
func (s *stand) serve(change ...func(*daemon.Schedule)) *running {
	s.Helper()
	schedule := &daemon.Schedule{Parallel: 4, Gateway: &setup.GatewayOptions{Address: "127.0.0.1:0"},
		WhyStopped: func(context.Context) string { return "told to stop" }}
	for _, change := range change {
		change(schedule)
	}
	return s.start(func(ctx context.Context, o *daemon.Options) error { return daemon.Serve(ctx, o, schedule) })
}

// proxy runs Proxy on a free port.
func (s *stand) proxy() *running {
	s.Helper()
	return s.start(func(ctx context.Context, o *daemon.Options) error {
		return daemon.Proxy(ctx, o, &setup.GatewayOptions{Address: "127.0.0.1:0"})
	})
}

// says waits until the log matches.
func (d *running) says(pattern string) {
	d.Helper()
	matches := regexp.MustCompile(pattern)
	late := time.After(30 * time.Second)
	for !matches.MatchString(d.text()) {
		select {
		case <-d.more:
		case <-d.stopped:
			if !matches.MatchString(d.text()) {
				d.Fatalf("it ended, %v, without saying %q:\n%s", d.err, pattern, d.text())
			}
		case <-late:
			d.Fatalf("%q is not said within half a minute:\n%s", pattern, d.text())
		}
	}
}

// ends tells the daemon to stop and waits until it has.
func (d *running) ends() {
	d.Helper()
	d.stop()
	if <-d.stopped; d.err != nil {
		d.Fatalf("it ended with %v:\n%s", d.err, d.text())
	}
}

// reload makes the daemon read its files again.
func (d *running) reload() { d.hangup <- os.Interrupt }

// get asks the gateway, with the headers that are given in pairs.
func (d *running) get(path string, headers ...string) (status int, body string) {
	d.Helper()
	d.says("msg=listening")
	req, err := http.NewRequestWithContext(d.Context(), http.MethodGet, d.url+path, nil)
	if err != nil {
		d.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// hasSamples fails unless every sample is in a text of metrics.
func hasSamples(t testing.TB, text string, samples ...string) {
	t.Helper()
	for _, sample := range samples {
		if !strings.Contains("\n"+text, "\n"+sample+"\n") {
			t.Errorf("no sample %s in:\n%s", sample, text)
		}
	}
}

// passOf returns a pattern of the line of a pass.
func passOf(region, outcome string) string {
	return fmt.Sprintf("msg=pass region=%s .* outcome=%s", region, outcome)
}

//go:build unix

package alert_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs/alert"
)

// redis is a redis-server on a socket.
type redis struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
}

func startRedis(t *testing.T) *redis {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("RATION_REQUIRE_REDIS") == "1" {
			t.Fatal("no redis-server")
		}
		t.Skip("SKIPPED, no redis-server on this machine")
	}
	dir, err := os.MkdirTemp("", "redis") // sockets have short names
	if err != nil {
		t.Fatal(err)
	}
	r := &redis{t: t, dir: dir}
	r.start()
	t.Cleanup(func() { r.stop(); os.RemoveAll(dir) })
	return r
}

func (r *redis) socket() string { return filepath.Join(r.dir, "s") }

func (r *redis) url() string { return "unix://" + r.socket() }

func (r *redis) start() {
	r.t.Helper()
	r.cmd = exec.Command("redis-server", "--port", "0", "--unixsocket", r.socket(), "--save", "", "--dir", r.dir)
	out, err := r.cmd.StdoutPipe()
	if err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	var log bytes.Buffer
	for chunk := make([]byte, 1<<10); !strings.Contains(log.String(), "ready to accept"); {
		n, err := out.Read(chunk)
		log.Write(chunk[:n])
		if err != nil {
			r.t.Fatalf("redis-server: %v\n%s", err, &log)
		}
	}
	go io.Copy(io.Discard, out)
}

func (r *redis) stop() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

// TestHostTellsOfAnOutageTwice: while Redis is down one process of a host sends the alert,
// and again in the next outage.
func TestHostTellsOfAnOutageTwice(t *testing.T) {
	server, r, state := startRedis(t), newReceiver(t, 0), t.TempDir()
	var watches []*alert.Watch
	for range 4 {
		watches = append(watches, alert.New(newClient(t, "{webhook: "+r.URL+"}", server.url(), state), nil))
	}
	check := func(want int) {
		t.Helper()
		var wg sync.WaitGroup
		for _, w := range watches {
			wg.Go(func() { w.Check(t.Context()) })
		}
		wg.Wait()
		if texts := r.texts(); len(texts) != want {
			t.Errorf("%q; want %d", texts, want)
		}
	}
	check(0)
	for range 2 {
		server.stop()
		check(1)
		check(0)
		server.start()
		for _, err := watches[0].Client().Guard().AccountBalances(t.Context(), "p"); err != nil; {
			_, err = watches[0].Client().Guard().AccountBalances(t.Context(), "p")
		}
		check(0)
		ageEnded(t, state)
	}
}

// ageEnded makes the end of an outage an hour old.
func ageEnded(t *testing.T, state string) {
	ended, err := filepath.Glob(filepath.Join(state, "alerts", "*.ended"))
	if err != nil || len(ended) != 1 {
		t.Fatal(ended, err)
	}
	if err := os.Chtimes(ended[0], time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
}

// TestHostBelievesAnOldError: a process whose connections still report the outage
// after another has reached the ledger sends no alert.
func TestHostBelievesAnOldError(t *testing.T) {
	server, r, state := startRedis(t), newReceiver(t, 0), t.TempDir()
	up := alert.New(newClient(t, "{webhook: "+r.URL+"}", server.url(), state), nil)
	server.stop()
	up.Check(t.Context())
	if texts := r.texts(); len(texts) != 1 {
		t.Errorf("%q; want the alert of the outage", texts)
	}
	server.start()
	for _, err := up.Client().Guard().AccountBalances(t.Context(), "p"); err != nil; {
		_, err = up.Client().Guard().AccountBalances(t.Context(), "p")
	}
	up.Check(t.Context())
	up.TellDown(t.Context(), "p")
	if texts := r.texts(); len(texts) != 0 {
		t.Errorf("%q; want no alert of what is over", texts)
	}
	ageEnded(t, state)
	up.TellDown(t.Context(), "p")
	if texts := r.texts(); len(texts) != 1 {
		t.Errorf("%q; want an alert of the next outage", texts)
	}
}

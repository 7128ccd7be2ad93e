package main

import (
	"bufio"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// served is a ration serve of its own, and what it says.
type served struct {
	*exec.Cmd
	t    *testing.T
	mu   sync.Mutex
	said strings.Builder
	more chan struct{} // a line came
	done chan struct{} // stderr is closed
}

// serve starts ration serve on a stand.
func (s *stand) serve(t *testing.T, env []string, args ...string) *served {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals to send")
	}
	return s.start(t, env, append([]string{"serve", "--jitter", "0s", "--listen", "127.0.0.1:0"}, args...)...)
}

// start starts a ration process whose stderr is read line by line.
func (s *stand) start(t *testing.T, env []string, args ...string) *served {
	t.Helper()
	cmd := s.command(args...)
	cmd.Env = append(cmd.Env, env...)
	return startCommand(t, cmd)
}

// startCommand starts a process whose stderr is read line by line. It is killed
// when the test ends.
func startCommand(t *testing.T, cmd *exec.Cmd) *served {
	t.Helper()
	d := &served{Cmd: cmd, t: t, more: make(chan struct{}, 1), done: make(chan struct{})}
	stderr, err := d.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Process.Kill(); d.Wait() })
	go func() {
		defer close(d.done)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			d.mu.Lock()
			d.said.WriteString(lines.Text() + "\n")
			d.mu.Unlock()
			select {
			case d.more <- struct{}{}:
			default:
			}
		}
	}()
	return d
}

func (d *served) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.String()
}

// says waits until a line matches.
func (d *served) says(pattern string) {
	d.t.Helper()
	matches := regexp.MustCompile(pattern)
	late := time.After(30 * time.Second)
	for !matches.MatchString(d.text()) {
		select {
		case <-d.more:
		case <-d.done:
			if !matches.MatchString(d.text()) {
				d.t.Fatalf("it ended without saying %q:\n%s", pattern, d.text())
			}
		case <-late:
			d.t.Fatalf("%q is not said within half a minute:\n%s", pattern, d.text())
		}
	}
}

// ends sends a signal and waits for exit code 0.
func (d *served) ends(signal syscall.Signal) {
	d.t.Helper()
	d.Process.Signal(signal)
	<-d.done
	if code := exitCode(d.Wait()); code != 0 {
		d.t.Fatalf("exit code %d after %s:\n%s", code, signal, d.text())
	}
}

const plentyOfUnits = "{name: all, limit: 9500, window: 24h}"

// TestServeEndsWithItsPages stops serve while a page is in flight. The page
// is paid for, so it is kept; the next serve fetches what is missing, no
// page twice.
func TestServeEndsWithItsPages(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and stops them, 3 seconds")
	}
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			s := newStand(t, &youtubetest.Options{Latency: 300 * time.Millisecond}, plentyOfUnits,
				"[{trending: {pages: 4}}]", "US")
			d := s.serve(t, nil)
			for end := time.Now().Add(30 * time.Second); s.upstream.Total() < 2; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("no second page within half a minute:\n%s", d.text())
				}
			}
			d.ends(signal)
			if got := s.upstream.Total(); got != 2 || s.used(t) != 2 {
				t.Fatalf("the upstream counted %d units, the ledger %d; want the two pages begun:\n%s", got, s.used(t),
					d.text())
			}
			d.says(`level=INFO msg=pass region=US .* outcome=stopped calls=2 units=2 videos=100`)
			d.says(`msg="stopping: .*" reason="told to stop \((SIGTERM|SIGINT)\)"`)
			again := s.serve(t, nil)
			again.says(`level=INFO msg=pass region=US .* outcome=complete calls=2 units=2 videos=100`)
			again.ends(syscall.SIGTERM)
			if got := s.upstream.Total(); got != 4 || s.used(t) != 4 {
				t.Errorf("the upstream counted %d units, the ledger %d; want the chart's four pages", got, s.used(t))
			}
		})
	}
}

// TestServeGivesUpOnAPageThatHangs: the grace is a deadline.
func TestServeGivesUpOnAPageThatHangs(t *testing.T) {
	t.Parallel()
	s := newStand(t, &youtubetest.Options{Latency: time.Minute}, plentyOfUnits, "[{trending: {pages: 4}}]", "US")
	d := s.serve(t, nil, "--grace", "100ms")
	for end := time.Now().Add(30 * time.Second); s.upstream.Total() < 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no page within half a minute:\n%s", d.text())
		}
	}
	began := time.Now()
	d.ends(syscall.SIGTERM)
	if took := time.Since(began); took > 30*time.Second || s.used(t) != 1 {
		t.Errorf("it took %s to end, and the ledger holds %d units; want the one call charged, and no wait for its "+
			"answer", took, s.used(t))
	}
}

// TestTwoServesFetchEachRegionOnce on one state folder: each region is fetched
// by one of them.
func TestTwoServesFetchEachRegionOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and stops them, 2 seconds")
	}
	t.Parallel()
	s := newStand(t, &youtubetest.Options{Latency: 300 * time.Millisecond}, plentyOfUnits, "[{trending: {pages: 4}}]",
		"US")
	first := s.serve(t, nil)
	for end := time.Now().Add(30 * time.Second); s.upstream.Total() < 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no page within half a minute:\n%s", first.text())
		}
	}
	second := s.serve(t, nil)
	second.says(`level=INFO msg=pass region=US .* outcome=skipped calls=0 .* reason="region US is already running: ` +
		`pid [0-9]+ .*" retry_at=20`)
	first.says(`outcome=complete calls=4`)
	first.ends(syscall.SIGTERM)
	second.ends(syscall.SIGTERM)
	if got := s.upstream.Total(); got != 4 || s.used(t) != 4 {
		t.Errorf("the upstream counted %d units, the ledger %d; want one chart", got, s.used(t))
	}
}

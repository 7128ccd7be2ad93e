package main

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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

// listenFor is systemd's side of sd_notify.
func listenFor(t *testing.T, name string) chan string {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	messages := make(chan string, 1000)
	go func() {
		defer close(messages)
		for buffer := make([]byte, 4096); ; {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			messages <- string(buffer[:n])
		}
	}()
	return messages
}

// tells waits for a message that matches, and returns it.
func tells(t *testing.T, messages chan string, pattern string) string {
	t.Helper()
	matches := regexp.MustCompile(pattern)
	for late := time.After(30 * time.Second); ; {
		select {
		case message := <-messages:
			if matches.MatchString(message) {
				return message
			}
		case <-late:
			t.Fatalf("systemd is not told %q within half a minute", pattern)
		}
	}
}

const plentyOfUnits = "{name: all, limit: 9500, window: 24h}"

// TestServeEndsWithItsPages stops serve while a page is in flight. The page is
// paid for, so it is kept; the next serve fetches what is missing, no page twice.
func TestServeEndsWithItsPages(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			s := newStand(t, &youtubetest.Options{Latency: 300 * time.Millisecond}, plentyOfUnits, "[{trending: {pages: 4}}]", "US")
			d := s.serve(t, nil)
			for end := time.Now().Add(30 * time.Second); s.upstream.Total() < 2; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("no second page within half a minute:\n%s", d.text())
				}
			}
			d.ends(signal)
			if got := s.upstream.Total(); got != 2 || s.used(t) != 2 {
				t.Fatalf("the upstream counted %d units, the ledger %d; want the two pages begun:\n%s", got, s.used(t), d.text())
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
		t.Errorf("it took %s to end, and the ledger holds %d units; want the one call charged, and no wait for its answer", took, s.used(t))
	}
}

// TestServeReloads: SIGHUP brings a new region in; a broken file is told with
// its lines and changes nothing; systemd hears of both.
func TestServeReloads(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil, plentyOfUnits, "[{trending: {pages: 1}}]", "US")
	regions := filepath.Join(s.dir, "regions.yaml")
	good := mustRead(t, regions)
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@ration-test-" + filepath.Base(s.dir) + filepath.Base(filepath.Dir(s.dir))} {
		if name[0] == '@' && runtime.GOOS != "linux" {
			continue // abstract sockets are Linux's
		}
		s.write(t, "regions.yaml", good)
		systemd := listenFor(t, name)
		d := s.serve(t, []string{"NOTIFY_SOCKET=" + name, "WATCHDOG_USEC=200000"}, "-v")
		tells(t, systemd, `^READY=1\nSTATUS=serving 1 region$`)
		tells(t, systemd, `^WATCHDOG=1$`)
		tells(t, systemd, `^WATCHDOG=1$`)

		s.write(t, "regions.yaml", strings.Replace(good, "version: 1\n", "version: 1\ncolour: red\nmax_wait: 7 s\n", 1))
		d.Process.Signal(syscall.SIGHUP)
		reloading := tells(t, systemd, `^RELOADING=1`)
		if runtime.GOOS == "linux" && !regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=[0-9]{6,}$`).MatchString(reloading) {
			t.Errorf("systemd received %q; want the time by the monotonic clock", reloading)
		}
		tells(t, systemd, `^READY=1\nSTATUS=the configuration could not be loaded again, the old one stays in force`)
		d.says(`level=ERROR msg="configuration not loaded" reason="` + regexp.QuoteMeta(regions) + `:2:1: unknown key \\"colour\\"`)
		d.says(regexp.QuoteMeta(regions) + `:3:11: max_wait`)
		d.says(`level=WARN msg="the old configuration stays in force"`)

		s.write(t, "regions.yaml", strings.Replace(good, "{US: {}}", "{US: {}, IN: {}}", 1))
		d.Process.Signal(syscall.SIGHUP)
		tells(t, systemd, `^RELOADING=1`)
		tells(t, systemd, `^READY=1\nSTATUS=serving 2 regions$`)
		d.says(`msg=serving regions=2`)
		d.says(`msg=pass region=IN .* outcome=(complete|skipped)`)
		d.ends(syscall.SIGTERM)
		tells(t, systemd, `^STOPPING=1`)
	}
	if got := s.upstream.Total(); got != 2 {
		t.Errorf("the upstream counted %d units; want one page a region", got)
	}
}

// TestServeWaitsForTheBudget: a budget pays two pages at a time. Serve says when it goes on,
// and does, within the same tick.
func TestServeWaitsForTheBudget(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil, "{name: all, limit: 2, window: 2s, methods: [videos.list]}", "[{trending: {pages: 4}}]", "US")
	s.write(t, "regions.yaml", "max_wait: 0s\n"+mustRead(t, filepath.Join(s.dir, "regions.yaml")))
	d := s.serve(t, nil, "-v")
	d.says(`msg=pass region=US .* outcome=stopped calls=2 .* reason="all has 0 of 2 units left, .*" retry_at=20`)
	d.says(`msg=pass region=US .* outcome=complete calls=[12] .* next=20`)
	d.ends(syscall.SIGTERM)
	if calls := len(s.upstream.Arrivals()); calls != 4 || s.upstream.Total() != 4 {
		t.Errorf("%d calls reached the upstream, which counted %d units; want the chart's four pages", calls, s.upstream.Total())
	}
	if code, out, text := s.run(t, nil, "why"); code != exitDone || !strings.Contains(out, "all has 0 of 2 units left") {
		t.Errorf("ration why after it: exit code %d: %s%s", code, out, text)
	}
}

// TestServeTellsLevels: a level that a budget crosses is told once, whoever has spent.
func TestServeTellsLevels(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil, "{name: all, limit: 5, window: 24h, methods: [videos.list]}", "[{trending: {pages: 4}}]", "US")
	for _, want := range []string{"80 % of 5 units (4)", "95 % of 5 units (5)", ""} {
		d := s.serve(t, nil, "--json", "-v")
		d.says(`"msg":"pass","region":"US",.*"outcome":"(complete|skipped)"`)
		d.ends(syscall.SIGTERM)
		told := regexp.MustCompile(`(?m)^\{"time":"20[^"]*Z","level":"WARN","msg":"budget crosses a level","reason":"all has used (.*); more frees at 20.*\}$`).FindAllStringSubmatch(d.text(), -1)
		if want == "" && told != nil || want != "" && (len(told) != 1 || told[0][1] != want) {
			t.Errorf("told %q; want %q once:\n%s", told, want, d.text())
		}
		s.run(t, nil, "spend", "videos.list")
	}
}

// TestServeInACooldown: what the upstream said to another process holds here:
// no call is made, and the log says until when.
func TestServeInACooldown(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil, plentyOfUnits, "[{trending: {pages: 1}}]", "US")
	s.upstream.Fail(youtubetest.Fault{Method: "videos.list", Status: http.StatusForbidden, Reason: "quotaExceeded", Times: 1})
	if code, out, text := s.run(t, nil, "run"); code != exitStopped {
		t.Fatalf("exit code %d: %s%s", code, out, text)
	}
	before := len(s.upstream.Arrivals())
	d := s.serve(t, nil)
	d.says(`msg="pass does not start" region=US .* outcome=stopped calls=0 .*is in cooldown.*quotaExceeded.* retry_at=20`)
	d.ends(syscall.SIGTERM)
	if after := len(s.upstream.Arrivals()); after != before {
		t.Errorf("%d calls went to an upstream that had said stop", after-before)
	}
}

// TestServeOutlivesItsLedger: with no ledger at all it says so, does not end, and
// calls nobody.
func TestServeOutlivesItsLedger(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil, plentyOfUnits, "[{trending: {pages: 1}}]", "US")
	d := s.serve(t, []string{"RATION_LEDGER=redis://127.0.0.1:1/0"})
	d.says(`level=ERROR msg=pass region=US .* outcome=failed calls=0 .* retry_at=20`)
	d.ends(syscall.SIGTERM)
	if got := len(s.upstream.Arrivals()); got != 0 {
		t.Errorf("%d calls went out without a ledger", got)
	}
}

// TestTwoServes on one state folder: each region is fetched by one of them.
func TestTwoServes(t *testing.T) {
	t.Parallel()
	s := newStand(t, &youtubetest.Options{Latency: 300 * time.Millisecond}, plentyOfUnits, "[{trending: {pages: 4}}]", "US")
	first := s.serve(t, nil)
	for end := time.Now().Add(30 * time.Second); s.upstream.Total() < 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no page within half a minute:\n%s", first.text())
		}
	}
	second := s.serve(t, nil)
	second.says(`level=INFO msg=pass region=US .* outcome=skipped calls=0 .* reason="region US is already running: pid [0-9]+ .*" retry_at=20`)
	first.says(`outcome=complete calls=4`)
	first.ends(syscall.SIGTERM)
	second.ends(syscall.SIGTERM)
	if got := s.upstream.Total(); got != 4 || s.used(t) != 4 {
		t.Errorf("the upstream counted %d units, the ledger %d; want one chart", got, s.used(t))
	}
}

// TestServeWithoutSystemd: a NOTIFY_SOCKET that nobody listens to is no
// reason to fail.
func TestServeWithoutSystemd(t *testing.T) {
	s := newStand(t, nil, plentyOfUnits, "[{trending: {pages: 1}}]", "US")
	for _, socket := range []string{filepath.Join(t.TempDir(), "gone"), "vsock:2:1"} {
		d := s.serve(t, []string{"NOTIFY_SOCKET=" + socket})
		d.says(`level=WARN msg="systemd is not told" reason=.*unset`)
		d.ends(syscall.SIGTERM)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "ration.db")); err != nil {
		t.Error(err)
	}
}

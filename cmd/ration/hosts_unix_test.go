//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/inspect"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// cluster is one configuration, one Redis and one local YouTube for
// several hosts.
type cluster struct {
	*stand
	redis *servers.Redis
}

// host is one of them, with a state folder and a replica of its own.
type host struct {
	*cluster
	env []string
}

func newCluster(t *testing.T, o *youtubetest.Options, fetch string, regions ...string) *cluster {
	t.Helper()
	return &cluster{newStand(t, o, "{name: all, limit: 9500, window: 24h}", fetch, regions...), servers.StartRedis(t)}
}

// newHost returns a host that reaches Redis at an address, "" for its own.
func (c *cluster) newHost(t *testing.T, redis string) *host {
	if redis == "" {
		redis = c.redis.URL()
	}
	return &host{c, []string{"RATION_STATE=" + t.TempDir(), "RATION_JOURNAL=" + filepath.Join(t.TempDir(), "replica"),
		"RATION_LEDGER=" + redis}}
}

// process is a ration process on the host.
func (h *host) process(args ...string) *exec.Cmd {
	cmd := h.command(args...)
	cmd.Env = append(cmd.Env, h.env...)
	return cmd
}

// must runs a command line that must end with exit code 0, and returns
// its output.
func (h *host) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.process(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ration %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// waitFor waits until the upstream has had a number of requests.
func (c *cluster) waitFor(t *testing.T, requests int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); len(c.upstream.Arrivals()) < requests; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the upstream has had %d requests after half a minute; want %d", len(c.upstream.Arrivals()),
				requests)
		}
	}
}

// paidTwice counts the requests that repeat an earlier one.
func (c *cluster) paidTwice() (repeated int) {
	seen := map[string]bool{}
	for _, a := range c.upstream.Arrivals() {
		request := fmt.Sprint(a.Method, a.Region, a.Query.Encode())
		if seen[request] {
			repeated++
		}
		seen[request] = true
	}
	return repeated
}

// The pass of hostFetch costs hostUnits in five requests.
const (
	hostFetch = "[{trending: {pages: 4}}, {search: {queries: [music]}}]"
	hostUnits = 104
	allUnits  = 8*hostUnits - 3 // three charts are a page shorter
)

// freeze makes the third request hang until its client is gone.
func (c *cluster) freeze() {
	c.upstream.Fail(youtubetest.Fault{Skip: 2, Delay: -1})
}

// TestTwoHostsPayForEachPassOnce: two hosts that share a ledger and a
// regions.yaml run at the same time, and again. Each pass is paid once.
func TestTwoHostsPayForEachPassOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts eight processes, 2 seconds")
	}
	t.Parallel()
	c := newCluster(t, nil, hostFetch, eight...)
	hosts := []*host{c.newHost(t, ""), c.newHost(t, "")}
	for range 2 {
		var wg sync.WaitGroup
		for _, h := range hosts {
			for range 2 {
				wg.Go(func() {
					if out, err := h.process("run").CombinedOutput(); err != nil || len(out) > 0 {
						t.Errorf("%v: %s", err, out)
					}
				})
			}
		}
		wg.Wait()
		if total := c.upstream.Total(); total != allUnits {
			t.Errorf("the upstream counted %d units; want %d", total, allUnits)
		}
	}
	hosts[1].must(t, "run", "US", "--again")
	if total := c.upstream.Total(); total != allUnits+hostUnits {
		t.Errorf("with --again: the upstream counted %d units; want %d", total, allUnits+hostUnits)
	}
}

// TestAKilledHostsPassIsFinishedByAnother: a host is killed in the middle of a
// page. Another one goes on with the pass when the claim has lapsed, and pays
// for that page again.
func TestAKilledHostsPassIsFinishedByAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("waits six seconds for a claim to lapse")
	}
	t.Parallel()
	c := newCluster(t, nil, hostFetch, "US")
	c.freeze()
	first, second := c.newHost(t, ""), c.newHost(t, "")
	cmd := first.process("run")
	cmd.Env = append(cmd.Env, claimTimeEnv+"=5s") // the second sees claims of as long only
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.waitFor(t, 3)
	if p := c.pass(t, second); p.PID != cmd.Process.Pid || p.Until == nil || p.DoneAt != nil {
		t.Errorf("status says %+v; want that process %d has the pass", p, cmd.Process.Pid)
	}
	d := second.start(t, append(second.env, claimTimeEnv+"=5s"), "serve", "--jitter", "0s", "--listen", "none")
	d.says(fmt.Sprintf(`passes of other hosts.*claimed by .* \(pid %d\)`, cmd.Process.Pid))
	cmd.Process.Kill()
	cmd.Wait()
	d.says("outcome=complete")
	d.ends(syscall.SIGTERM)
	if total, repeated := c.upstream.Total(), c.paidTwice(); total != hostUnits+1 || repeated != 1 {
		t.Errorf("the upstream counted %d units, and %d requests twice; want %d and 1", total, repeated, hostUnits+1)
	}
	first.must(t, "run")
	if p := c.pass(t, first); p.PID != d.Process.Pid || p.Until != nil || p.DoneAt == nil ||
		c.upstream.Total() != hostUnits+1 {
		t.Errorf("status says %+v after %d units; want that process %d has done the pass", p, c.upstream.Total(),
			d.Process.Pid)
	}
}

// pass returns what status says of the only pass.
func (c *cluster) pass(t *testing.T, h *host) inspect.Pass {
	t.Helper()
	var report struct{ Passes []inspect.Pass }
	if err := json.Unmarshal([]byte(h.must(t, "status", "--json")), &report); err != nil || len(report.Passes) != 1 {
		t.Fatalf("%v, %+v; want one pass", err, report.Passes)
	}
	return report.Passes[0]
}

// TestAStoppedHostsPassGoesOnAtOnce: a host is told to stop. It saves the page
// in flight, and another one goes on at once. Nothing is paid for twice.
func TestAStoppedHostsPassGoesOnAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes and stops them, a second")
	}
	t.Parallel()
	c := newCluster(t, &youtubetest.Options{Latency: 100 * time.Millisecond}, hostFetch, "US")
	first, second := c.newHost(t, ""), c.newHost(t, "")
	d := first.start(t, first.env, "serve", "--jitter", "0s", "--listen", "none")
	c.waitFor(t, 2)
	d.ends(syscall.SIGTERM)
	second.must(t, "run")
	if total, repeated := c.upstream.Total(), c.paidTwice(); total != hostUnits || repeated != 0 {
		t.Errorf("the upstream counted %d units, and %d requests twice; want %d and none", total, repeated, hostUnits)
	}
}

// cable is a TCP proxy that can be cut.
type cable struct {
	net.Listener
	to    string
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &cable{Listener: listener, to: to}
	t.Cleanup(func() { listener.Close(); p.setCut(true) })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			p.connect(in)
		}
	}()
	return p
}

func (p *cable) connect(in net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, err := net.Dial("tcp", p.to)
	if err != nil || p.cut {
		in.Close()
		return
	}
	p.conns = append(p.conns, in, out)
	go io.Copy(in, out)
	go io.Copy(out, in)
}

func (p *cable) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

// TestAHostThatIsCutOffStopsBeforeItsClaimLapses: a host loses the ledger in
// the middle of a page. It stops before its claim lapses, another one goes on,
// and when the first one is back it finds the pass done.
func TestAHostThatIsCutOffStopsBeforeItsClaimLapses(t *testing.T) {
	if testing.Short() {
		t.Skip("waits six seconds for a claim to lapse")
	}
	t.Parallel()
	c := newCluster(t, nil, hostFetch, "US")
	c.freeze()
	line := newCable(t, c.redis.Addr)
	first, second := c.newHost(t, "redis://"+line.Addr().String()), c.newHost(t, "")
	cut := first.start(t, append(first.env, claimTimeEnv+"=4s"), "run")
	c.waitFor(t, 3)
	line.setCut(true)
	d := second.start(t, append(second.env, claimTimeEnv+"=4s"), "serve", "--jitter", "0s", "--listen", "none")
	<-cut.done
	if code := exitCode(cut.Wait()); code != exitLedger ||
		!strings.Contains(cut.text(), "claim on the pass cannot be renewed") {
		t.Errorf("exit code %d: %s", code, cut.text())
	}
	d.says("outcome=complete")
	d.ends(syscall.SIGTERM)
	line.setCut(false)
	first.must(t, "run")
	if total, repeated := c.upstream.Total(), c.paidTwice(); total != hostUnits+1 || repeated != 1 {
		t.Errorf("the upstream counted %d units, and %d requests twice; want %d and 1", total, repeated, hostUnits+1)
	}
}

// TestASuspendedHostsPassIsFinishedByAnother: a host is suspended in the middle
// of a pass, and another one finishes that. When the first one wakes up, it
// stops, or saves the page in flight.
func TestASuspendedHostsPassIsFinishedByAnother(t *testing.T) {
	if testing.Short() {
		t.Skip("waits three seconds for a claim to lapse")
	}
	t.Parallel()
	c := newCluster(t, &youtubetest.Options{Latency: 100 * time.Millisecond}, hostFetch, "US")
	first, second := c.newHost(t, ""), c.newHost(t, "")
	suspended := first.start(t, append(first.env, claimTimeEnv+"=2s"), "run")
	c.waitFor(t, 2)
	suspended.Process.Signal(syscall.SIGSTOP)
	d := second.start(t, append(second.env, claimTimeEnv+"=2s"), "serve", "--jitter", "0s", "--listen", "none")
	d.says("outcome=complete")
	d.ends(syscall.SIGTERM)
	suspended.Process.Signal(syscall.SIGCONT)
	<-suspended.done
	if code := exitCode(suspended.Wait()); code != exitDone && code != exitStopped {
		t.Errorf("exit code %d: %s", code, suspended.text())
	}
	if total, repeated := c.upstream.Total(), c.paidTwice(); total > hostUnits+1 || repeated > 1 {
		t.Errorf("the upstream counted %d units, and %d requests twice; want at most %d and 1", total, repeated,
			hostUnits+1)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// stand is a folder with configuration, and a local YouTube.
type stand struct {
	dir      string
	upstream *youtubetest.Server
	url      string
}

func newStand(t *testing.T, o *youtubetest.Options, budget, fetch string, regions ...string) *stand {
	t.Helper()
	s := &stand{dir: t.TempDir(), upstream: youtubetest.New(o)}
	web := httptest.NewServer(s.upstream)
	t.Cleanup(web.Close)
	s.url = web.URL
	s.write(t, "costs.yaml",
		"version: 1\nupstream: youtube\naccount: p\nledger: sqlite:ration.db\napi: youtube/v3\nhosts: "+
			"[youtube.googleapis.com]\n"+
			"resets: {day: "+middayZone()+"}\n"+
			"costs: {search.list: 100, videos.list: 1, channels.list: 1, videoCategories.list: 1}\nbudgets: ["+budget+
			"]\n")
	s.write(t, "regions.yaml", "version: 1\nschedule: "+leapDay+"\nfetch: "+fetch+"\nregions: {"+strings.Join(regions,
		": {}, ")+": {}}\n")
	return s
}

// leapDay is a schedule whose tick does not come while a test runs.
const leapDay = "0 0 29 2 *"

// middayZone returns a zone in which it is midday by the system's clock, give
// or take half an hour: a test that runs there meets no end of a day.
func middayZone() string {
	switch ahead := 12 - time.Now().UTC().Add(30*time.Minute).Hour(); {
	case ahead > 0:
		return fmt.Sprintf("Etc/GMT-%d", ahead) // POSIX: east of Greenwich
	default:
		return fmt.Sprintf("Etc/GMT+%d", -ahead)
	}
}

func (s *stand) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// command is a ration process of its own: this test binary, told to be one.
func (s *stand) command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Args = append([]string{"ration"}, args...)
	cmd.Env = append(s.environ(), asRation+"=1")
	return cmd
}

// environ is the environment of the stand's command lines.
func (s *stand) environ() []string {
	return append(os.Environ(), "RATION_CONFIG="+s.dir, "RATION_STATE="+s.dir,
		"RATION_JOURNAL="+filepath.Join(s.dir, "replica"), "RATION_ENDPOINT="+s.url, "YOUTUBE_API_KEY=k",
		"RATION_LEDGER=")
}

// used asks ration status what the first budget holds.
func (s *stand) used(t *testing.T) int64 {
	t.Helper()
	code, out, text := s.run(t, nil, "status", "--json")
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	var report struct{ Budgets []struct{ Used int64 } }
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return report.Budgets[0].Used
}

func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return 0
}

var eight = []string{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"}

// TestEightProcessesShareOneBudget starts a process a region, as cron does:
// together they spend the budget to the unit, and the next ones go on.
func TestEightProcessesShareOneBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("starts eight processes, 3 seconds")
	}
	t.Parallel()
	s := newStand(t, nil, "{name: all, limit: 20, window: 24h, methods: [videos.list]}", "[{trending: {pages: 4}}]",
		eight...)
	runAll := func() (stopped int) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, region := range eight {
			wg.Go(func() {
				out, err := s.command("run", region).CombinedOutput()
				mu.Lock()
				defer mu.Unlock()
				switch code := exitCode(err); code {
				case 0:
				case 75:
					stopped++
				default:
					t.Errorf("%s: exit code %d: %s", region, code, out)
				}
			})
		}
		wg.Wait()
		return stopped
	}
	if stopped := runAll(); stopped == 0 || s.upstream.Total() != 20 || s.used(t) != 20 {
		t.Fatalf("%d processes were stopped; the upstream counted %d units, the ledger %d; want both 20", stopped,
			s.upstream.Total(), s.used(t))
	}
	s.write(t, "costs.yaml", strings.Replace(mustRead(t, filepath.Join(s.dir, "costs.yaml")), "limit: 20", "limit: 50",
		1))
	if stopped := runAll(); stopped != 0 || s.upstream.Total() != 29 || s.used(t) != 29 {
		t.Fatalf("%d processes were stopped; the upstream counted %d units, the ledger %d; want the 29 pages there are",
			stopped, s.upstream.Total(), s.used(t))
	}
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestASignalLosesNoCharge stops a run while a page is in flight. SIGTERM and
// SIGINT keep it; after SIGKILL nothing that reached the upstream is missing
// from the ledger.
func TestASignalLosesNoCharge(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no signals to send")
	}
	t.Parallel()
	for _, c := range []struct {
		signal syscall.Signal
		code   int
		says   string
	}{
		{syscall.SIGTERM, 143, "stopped by SIGTERM; 0 of 1 region done (left: US); the next run resumes there"},
		{syscall.SIGINT, 130, "interrupted; 0 of 1 region done (left: US); the next run resumes there"},
		{syscall.SIGKILL, -1, ""},
	} {
		t.Run(c.signal.String(), func(t *testing.T) {
			s := newStand(t, &youtubetest.Options{Latency: 200 * time.Millisecond},
				"{name: all, limit: 9500, window: 24h}", "[{trending: {pages: 4}}]", "US")
			cmd := s.command("run")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(30 * time.Second); s.upstream.Total() < 2; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("no second page within half a minute")
				}
			}
			cmd.Process.Signal(c.signal)
			if code := exitCode(cmd.Wait()); code != c.code || !strings.Contains(stderr.String(), c.says) {
				t.Fatalf("exit code %d and %q; want %d and %q", code, stderr.String(), c.code, c.says)
			}
			if used := s.used(t); used != s.upstream.Total() {
				t.Fatalf("the ledger holds %d units, the upstream counted %d", used, s.upstream.Total())
			}
			before := s.upstream.Total()
			if code, out, text := s.run(t, nil, "run"); code != exitDone {
				t.Fatalf("the next run: exit code %d: %s%s", code, out, text)
			}
			again := s.upstream.Total() - (4 - before) - before // pages that were fetched twice
			if lost := c.signal == syscall.SIGKILL; again > 1 || again == 1 && !lost {
				t.Errorf("%d pages were fetched twice", again)
			}
		})
	}
}

// TestStatusEqualsTheUpstream is the main job on real charts of 2020, where
// they are: what ration status says is what the upstream counted.
func TestStatusEqualsTheUpstream(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes one after the other, a second")
	}
	t.Parallel()
	options := &youtubetest.Options{}
	data, err := youtubetest.LoadFile(filepath.Join("..", "..", "..", "shared", "data", "trending_sample.ndjson.gz"))
	if err != nil {
		t.Logf("no real charts here (%v): on made ones", err)
	} else {
		options.Data = data
	}
	names := eight
	if data != nil {
		names = data.Regions()
	}
	s := newStand(t, options, "{name: all, limit: 9500, window: 24h}",
		"[trending, {search: {queries: [music]}}, channels, categories]", names...)
	if code, out, text := s.run(t, nil, "run"); code != exitDone || out+text != "" {
		t.Fatalf("exit code %d: %s%s", code, out, text)
	}
	used := s.used(t)
	t.Logf("%d regions: ration status %d units, the upstream counted %d", len(names), used, s.upstream.Total())
	if used != s.upstream.Total() || used < 700 {
		t.Errorf("the ledger holds %d units, the upstream counted %d; want the same", used, s.upstream.Total())
	}
}

// TestHelp holds every command to what its help must say. pflag aligns flags by
// bytes, so the name of a flag's value is ASCII.
func TestHelp(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Name() == "help" || sub.Name() == "completion" {
				continue
			}
			if !strings.Contains(sub.Long, "Exit codes:") || strings.Count(sub.Example, "ration ") < 2 {
				t.Errorf("%s: its help needs its exit codes and two examples", sub.CommandPath())
			}
			sub.Flags().VisitAll(func(f *pflag.Flag) {
				if name, _ := pflag.UnquoteUsage(f); len(name) != utf8.RuneCountInString(name) {
					t.Errorf("%s --%s: %q is not ASCII, which misaligns the help", sub.CommandPath(), f.Name, name)
				}
			})
			check(sub)
		}
	}
	check(newApp().root())
}

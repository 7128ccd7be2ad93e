package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// TestDeadLedgerInTheMiddleOfARun kills the Redis of a run, and of a serve,
// whose regions are fetched one after the other, and starts it again when calls
// have gone out without it: both say it once each, off a terminal and with -q.
func TestDeadLedgerInTheMiddleOfARun(t *testing.T) {
	if testing.Short() {
		t.Skip("waits ten seconds for a ledger that is down")
	}
	t.Parallel()
	for _, command := range []string{"run", "serve"} {
		t.Run(command, func(t *testing.T) {
			s := newStand(t, &youtubetest.Options{Latency: 200 * time.Millisecond}, plentyOfUnits, "[{trending: {pages: 4}}]", eight...)
			s.write(t, "costs.yaml", mustRead(t, filepath.Join(s.dir, "costs.yaml"))+"when_ledger_down: {default: {allow: 100}}\n")
			redis := redistest.Start(t, "--appendonly", "yes")
			args := []string{command, "-q", "--parallel", "1", "--ledger", redis.URL()}
			if command == "serve" {
				args = append(args, "--jitter", "0s")
			}
			d := s.start(t, nil, args...)
			await := func(pages int64) {
				t.Helper()
				for end := time.Now().Add(time.Minute); s.upstream.Total() < pages; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("%d pages within a minute:\n%s", s.upstream.Total(), d.text())
					}
				}
			}
			await(2)
			redis.Stop()
			d.says("the ledger redis://127.0.0.1:[0-9]+/0 has been down since 20.*; calls go out within the allowance of when_ledger_down")
			await(s.upstream.Total() + 1)
			redis.Restart(t)
			d.says("the ledger redis://127.0.0.1:[0-9]+/0 is back after .*; [0-9]+ units? went out from here without it, now recorded")
			if command == "serve" {
				d.ends(syscall.SIGTERM)
			} else {
				<-d.done
				d.Wait()
			}
			if text := d.text(); strings.Count(text, "has been down since") != 1 || strings.Count(text, "is back after") != 1 {
				t.Errorf("it says\n%s", text)
			}
		})
	}
}

// TestOutageIsHiddenFromReaders: what only reads a ledger that is down says so,
// and what was sent without it. The commands run at once, because each waits
// for the ledger.
func TestOutageIsHiddenFromReaders(t *testing.T) {
	if testing.Short() {
		t.Skip("waits four seconds for a ledger that is down")
	}
	t.Parallel()
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	s.write(t, "costs.yaml", mustRead(t, filepath.Join(s.dir, "costs.yaml"))+"when_ledger_down: {search.list: refuse, default: {allow: 50}}\n")
	down := "RATION_LEDGER=redis://127.0.0.1:1/0"
	if code, _, text := s.run(t, []string{down}, "spend", "videos.list", "--units", "26"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	const sent = "26 units were sent within the allowance while the ledger was down, not yet in the ledger"
	var readers sync.WaitGroup
	for _, c := range []struct {
		command string
		stdout  []string
		stderr  string
	}{
		{"status", []string{"^outage  down since 20[^ ]*Z$", "^" + sent + "$"}, "ledger down: redis at 127.0.0.1:1: dial.*; meanwhile 26 units were sent within the allowance$"},
		{"status --json", []string{`"unrecorded_units":26,"budgets":\[\],"keyed":\[\],"more_keys":\[\],"waiting":\[\],"passes":\[\],"repairs":\[\],"unexplained":\[\],"forgotten":\[\],"ledger_state":\{"down":true,`}, `^\{"error":\{"kind":"ledger",`},
		{"ledger info", []string{"^outage  down since 20[^ ]*Z$"}, "ledger down: redis at 127.0.0.1:1: dial"},
		{"ledger info --json", []string{`"ledger_state":\{"down":true,`}, ""},
		{"log", nil, "; meanwhile 26 units were sent within the allowance$"},
		{"cooldown list", nil, "; meanwhile 26 units"},
		{"plan", nil, "; meanwhile 26 units"},
		{"doctor", []string{"^problem +.*ledger down", "^warning +" + sent + "$", "^ +-> nothing, the next call records this once the ledger is up$"}, ""},
		{"doctor --json", []string{`"ledger_state":\{"down":true,`}, ""},
	} {
		readers.Go(func() {
			cmd := s.command(strings.Fields(c.command)...)
			var stdout, stderr bytes.Buffer
			cmd.Env, cmd.Stdout, cmd.Stderr = append(cmd.Env, down), &stdout, &stderr
			if code := exitCode(cmd.Run()); code != exitLedger {
				t.Errorf("ration %s: exit code %d", c.command, code)
			}
			for _, pattern := range c.stdout {
				if !regexp.MustCompile("(?m)" + pattern).Match(stdout.Bytes()) {
					t.Errorf("ration %s prints\n%s\nwant %q", c.command, &stdout, pattern)
				}
			}
			if !regexp.MustCompile("(?m)" + c.stderr).Match(stderr.Bytes()) {
				t.Errorf("ration %s says %s; want %q", c.command, &stderr, c.stderr)
			}
		})
	}
	readers.Wait()
}

// TestCountersLookLikeALoss: an account whose windows are all estimates has no
// log, in which a grant of this host could be missing.
func TestCountersLookLikeALoss(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil, "{name: all, limit: 9500, window: {counter: 24h}}", "[trending]", "US")
	if code, _, text := s.run(t, nil, "spend", "videos.list"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	for _, command := range []string{"status", "ledger info", "doctor"} {
		if _, stdout, stderr := s.run(t, nil, strings.Fields(command)...); strings.Contains(stdout+stderr, "has forgotten") {
			t.Errorf("ration %s: %s%s", command, stdout, stderr)
		}
	}
}

// TestLossIsHiddenFromReaders: a ledger that had forgotten everything was shown
// as one from which nothing was spent, until the next call restored it.
func TestLossIsHiddenFromReaders(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for ledger, lose := range map[string]func(t *testing.T, s *stand){
		"redis": func(t *testing.T, _ *stand) { redis.Do(t, "flushall") },
		"sqlite": func(t *testing.T, s *stand) {
			files, err := filepath.Glob(filepath.Join(s.dir, "ration.db*"))
			for _, file := range files {
				err = errors.Join(err, os.Remove(file))
			}
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
		},
	} {
		t.Run(ledger, func(t *testing.T) {
			s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
			var env []string
			if ledger == "redis" {
				env = []string{"RATION_LEDGER=" + redis.URL()}
			}
			tells := func(want bool) {
				t.Helper()
				for _, command := range []string{"status", "status --json", "ledger info", "doctor"} {
					_, stdout, stderr := s.run(t, env, strings.Fields(command)...)
					if told := strings.Contains(stdout+stderr, "the ledger has forgotten what this host was granted or heard of, last at 20"); told != want {
						t.Errorf("ration %s tells of the loss: %v, want %v\n%s%s", command, told, want, stdout, stderr)
					}
				}
			}
			spend := func() {
				t.Helper()
				if code, _, text := s.run(t, env, "spend", "videos.list", "--units", "26"); code != exitDone {
					t.Fatalf("exit code %d: %s", code, text)
				}
			}
			tells(false)
			spend()
			tells(false)
			lose(t, s)
			tells(true)
			spend()
			tells(false)
			if _, stdout, _ := s.run(t, env, "status", "--json"); !strings.Contains(stdout, `"used":52,`) {
				t.Errorf("status %s; want both calls", stdout)
			}
		})
	}
}

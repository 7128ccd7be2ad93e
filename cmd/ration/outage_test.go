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

	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// TestAnOutageDuringARunIsSaidOnce kills the Redis of a run, and of a serve,
// whose regions are fetched one after the other, and starts it again when calls
// have gone out without it: both say it once each, off a terminal and with -q.
func TestAnOutageDuringARunIsSaidOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("waits ten seconds for a ledger that is down")
	}
	t.Parallel()
	for _, command := range []string{"run", "serve"} {
		t.Run(command, func(t *testing.T) {
			s := newStand(t, &youtubetest.Options{Latency: 200 * time.Millisecond}, plentyOfUnits,
				"[{trending: {pages: 4}}]", eight...)
			s.write(t, "costs.yaml", mustRead(t, filepath.Join(s.dir, "costs.yaml"))+
				"when_ledger_down: {default: {allow: 100}}\n")
			redis := servers.StartRedis(t, "--appendonly", "yes")
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
			d.says("the ledger redis://127.0.0.1:[0-9]+/0 has been down since 20.*; calls go out within the " +
				"allowance of when_ledger_down")
			await(s.upstream.Total() + 1)
			redis.Restart(t)
			d.says("the ledger redis://127.0.0.1:[0-9]+/0 is back after .*; [0-9]+ units? went out from here " +
				"without it, now recorded")
			if command == "serve" {
				d.ends(syscall.SIGTERM)
			} else {
				<-d.done
				d.Wait()
			}
			if text := d.text(); strings.Count(text, "has been down since") != 1 ||
				strings.Count(text, "is back after") != 1 {
				t.Errorf("it says\n%s", text)
			}
		})
	}
}

// TestReadersSayThatTheLedgerIsDown: what only reads a ledger that is down says
// so, and what was sent without it. The commands run at once, because each
// waits for the ledger.
func TestReadersSayThatTheLedgerIsDown(t *testing.T) {
	if testing.Short() {
		t.Skip("waits four seconds for a ledger that is down")
	}
	t.Parallel()
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	s.write(t, "costs.yaml", mustRead(t, filepath.Join(s.dir, "costs.yaml"))+
		"when_ledger_down: {search.list: refuse, default: {allow: 50}}\n")
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
		{"status", []string{"^outage  down since 20[^ ]*Z$", "^" + sent + "$"},
			"ledger down: redis at 127.0.0.1:1: dial.*; meanwhile 26 units were sent within the allowance$"},
		{"status --json",
			[]string{`"unrecorded_units":26,"budgets":\[\],"keyed":\[\],"more_keys":\[\],"waiting":\[\],` +
				`"passes":\[\],"repairs":\[\],"unexplained":\[\],"forgotten":\[\],"version":"[^"]+",` +
				`"ledger_state":\{"down":true,`}, `^\{"error":\{"kind":"ledger",`},
		{"ledger info", []string{"^outage  down since 20[^ ]*Z$"}, "ledger down: redis at 127.0.0.1:1: dial"},
		{"ledger info --json", []string{`"ledger_state":\{"down":true,`}, ""},
		{"log", nil, "; meanwhile 26 units were sent within the allowance$"},
		{"cooldown list", nil, "; meanwhile 26 units"},
		{"plan", nil, "; meanwhile 26 units"},
		{"doctor", []string{"^problem +.*ledger down", "^warning +" + sent + "$",
			"^ +-> nothing, the next call records this once the ledger is up$"}, ""},
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

// TestAReaderRestoresALossAndSaysSo: the first command that reads a ledger that
// has forgotten gives back what this host knows, so it shows what was spent.
func TestAReaderRestoresALossAndSaysSo(t *testing.T) {
	t.Parallel()
	redis := servers.StartRedis(t)
	for _, command := range []string{"status", "status --json", "ledger info", "doctor", "log"} {
		t.Run(command, func(t *testing.T) {
			s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
			redis.Do(t, "flushall")
			env := []string{"RATION_LEDGER=" + redis.URL()}
			if code, _, text := s.run(t, env, "spend", "videos.list", "--units", "26"); code != exitDone {
				t.Fatalf("exit code %d: %s", code, text)
			}
			redis.Do(t, "flushall")
			const restored = "the ledger of account p had lost records: this host restored "
			if code, stdout, stderr := s.run(t, env, strings.Fields(command)...); code != exitDone ||
				strings.Count(stderr, restored) != 1 {
				t.Errorf("exit code %d\n%s%s\nwant one %q", code, stdout, stderr, restored)
			}
			code, stdout, stderr := s.run(t, env, "status")
			for _, pattern := range []string{`(?m)^all +26 `,
				` the ledger of p had lost records: this host restored [0-9]+ records? of 26 units`} {
				if code != exitDone || stderr != "" || !regexp.MustCompile(pattern).MatchString(stdout) {
					t.Errorf("status afterwards: exit code %d\n%s%s\nwant %q", code, stdout, stderr, pattern)
				}
			}
		})
	}
}

// TestReadersTellOfALedgerThatIsGone: a reader creates no file, so the next
// call restores what this host knows of a ledger whose files were removed.
func TestReadersTellOfALedgerThatIsGone(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	tells := func(want bool) {
		t.Helper()
		for _, command := range []string{"status", "status --json", "ledger info", "doctor"} {
			_, stdout, stderr := s.run(t, nil, strings.Fields(command)...)
			if told := strings.Contains(stdout+stderr,
				"the ledger has forgotten what this host knows of it, last of 20"); told != want {
				t.Errorf("ration %s tells of the loss: %v, want %v\n%s%s", command, told, want, stdout, stderr)
			}
		}
	}
	spend := func() {
		t.Helper()
		if code, _, text := s.run(t, nil, "spend", "videos.list", "--units", "26"); code != exitDone {
			t.Fatalf("exit code %d: %s", code, text)
		}
	}
	tells(false)
	spend()
	tells(false)
	files, err := filepath.Glob(filepath.Join(s.dir, "ration.db*"))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	tells(true)
	spend()
	tells(false)
	if used := s.used(t); used != 52 {
		t.Errorf("%d units are used; want those of both calls, 52", used)
	}
}

// TestACooldownHoldsWhileTheLedgerIsDown: what the budget holds is not known
// then, so a refusal by the cooldown has no numbers.
func TestACooldownHoldsWhileTheLedgerIsDown(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for a ledger that is down")
	}
	t.Parallel()
	redis := servers.StartRedis(t)
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	s.write(t, "costs.yaml", mustRead(t, filepath.Join(s.dir, "costs.yaml"))+
		"when_ledger_down: {default: {allow: 50}}\n")
	env := []string{"RATION_LEDGER=" + redis.URL()}
	if code, _, text := s.run(t, env, "cooldown", "set", "all", "--for", "1h"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	redis.Stop()
	for calls, units := range map[string]string{"1": `"units":1,"calls":1,`, "3": `"units":1,"calls":3,`} {
		want := units +
			`"used":null,"remaining":null,"limit":null,.*"budget":"all","shortfall":null,"reason":"all is in cooldown`
		if code, out, text := s.run(t, env, "spend", "videos.list", "--calls", calls, "--json"); code != exitStopped ||
			!regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s calls: exit code %d\n%s%s\nwant %d and %q", calls, code, out, text, exitStopped, want)
		}
	}
}

//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newProgramStand is a stand whose one region runs a shell script, fetch.sh.
func newProgramStand(t *testing.T, script string) *stand {
	t.Helper()
	s := &stand{dir: t.TempDir()}
	s.write(t, "costs.yaml",
		"version: 1\nupstream: acme\naccount: acme\nledger: sqlite:ration.db\ncosts: {items.list: 1}\nbudgets: "+
			"[{name: all, limit: 100, window: 24h}]\n")
	s.write(t, "regions.yaml",
		"version: 1\nschedule: "+leapDay+
			"\nfetch: [{command: ./fetch.sh, job: market, calls: {items.list: 3}}]\nregions: {emea: {}}\n")
	s.script(t, script)
	return s
}

func (s *stand) script(t *testing.T, text string) {
	t.Helper()
	s.write(t, "fetch.sh", "#!/bin/sh\n"+text+"\n")
	if err := os.Chmod(filepath.Join(s.dir, "fetch.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// stubborn is a script whose program and grandchild end only when they
// are killed.
const stubborn = `trap '' TERM
sh -c 'trap "" TERM; echo $$ >>pids; while :; do sleep 1; done' &
echo $$ >>pids
while [ $(wc -l <pids) -lt 2 ]; do sleep 0.01; done
echo begun
while :; do sleep 1; done`

// checkEnded waits until the processes in the file pids have ended.
func (s *stand) checkEnded(t *testing.T) {
	t.Helper()
	for _, word := range strings.Fields(mustRead(t, filepath.Join(s.dir, "pids"))) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		alive := func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return syscall.Kill(pid, 0) == nil && (err != nil || !strings.Contains(string(stat), ") Z "))
		}
		for end := time.Now().Add(10 * time.Second); alive(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("process %d is left", pid)
			}
		}
	}
}

// TestARunOfProgramsShowsNoVideos: the table of a run that only starts programs
// had a column of videos, all 0.
func TestARunOfProgramsShowsNoVideos(t *testing.T) {
	t.Parallel()
	s := newProgramStand(t, "exit 0")
	if code, stdout, stderr := s.run(t, nil, "run", "-v"); code != exitDone ||
		!strings.Contains(stdout, "CALLS UNITS\n") || !strings.Contains(stdout, "emea") {
		t.Errorf("exit code %d: %s%s; want a table without videos", code, stdout, stderr)
	}
}

// TestAProgramEndsWithItsKilledRation: if a process is killed that runs a
// program, by exec or as a step, the program ends too.
func TestAProgramEndsWithItsKilledRation(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a program that its parent was killed")
	}
	const endless = "echo $$ >pids\necho begun >&2\nwhile :; do sleep 0.1; done"
	for _, args := range [][]string{{"exec", "--", "./fetch.sh"}, {"run"}} {
		s := newProgramStand(t, endless)
		cmd := s.command(args...)
		cmd.Dir, cmd.Env = s.dir, append(cmd.Env, "YOUTUBE_API_KEY=")
		output, err := cmd.StderrPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(output); lines.Scan() && !strings.Contains(lines.Text(), "begun"); {
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		s.checkEnded(t)
		_ = cmd.Wait()
	}
}

// TestExecKeepsNohup: SIGHUP ended a program of exec although nohup makes both
// ignore it.
func TestExecKeepsNohup(t *testing.T) {
	t.Parallel()
	s := newProgramStand(t, "kill -HUP $$; echo survived")
	cmd := s.command("exec", "--", "./fetch.sh")
	cmd.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "survived\n" {
		t.Errorf("%v, %q; want the program to go on", err, out)
	}
}

// TestServeEndsItsPrograms: on SIGTERM the whole group of a program is
// ended, and the next serve starts it again.
func TestServeEndsItsPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a program that does not stop, a second")
	}
	t.Parallel()
	s := newProgramStand(t, stubborn)
	d := s.serve(t, []string{"YOUTUBE_API_KEY="}, "--grace", "1s")
	d.says("msg=output region=emea job=market line=begun")
	d.ends(syscall.SIGTERM)
	d.says(`region=emea .*outcome=stopped .*reason="stopped by SIGTERM"`)
	s.checkEnded(t)
	s.script(t, `echo "again"`)
	d = s.serve(t, []string{"YOUTUBE_API_KEY="})
	d.says("line=again")
	d.says("msg=pass region=emea .*outcome=complete")
	d.ends(syscall.SIGTERM)
}

// TestRunEndsItsPrograms: the same for run, which says why it ended.
func TestRunEndsItsPrograms(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a program that does not stop, 3 seconds")
	}
	t.Parallel()
	s := newProgramStand(t, stubborn)
	d := s.start(t, []string{"YOUTUBE_API_KEY="}, "run")
	d.says("^emea market: begun")
	d.Process.Signal(syscall.SIGINT)
	d.says("ration: interrupted; 0 of 1 region done .left: emea.; the next run resumes there")
	if code := exitCode(d.Wait()); code != 130 {
		t.Errorf("exit code %d; want 130", code)
	}
	s.checkEnded(t)
}

// TestProgramThatStopsWaitsForTheNextTick: serve does not start it
// again before.
func TestProgramThatStopsWaitsForTheNextTick(t *testing.T) {
	s := newProgramStand(t, "echo no room; exit 75")
	d := s.serve(t, []string{"YOUTUBE_API_KEY="})
	d.says(`msg=pass region=emea .*outcome=stopped .*reason="market stopped before it was done \(exit status 75: no ` +
		`room\); it is started again at the next tick, 2028-02-29T00:00:00Z; .*retry_at=2028-02-29T00:00:00Z ` +
		`next=2028-02-29T00:00:00Z`)
	d.Process.Signal(syscall.SIGHUP)
	d.says(`msg="pass does not start" region=emea .* reason="market stopped before it was done; it is started again ` +
		`at the next tick, 2028-02-29T00:00:00Z; --again`)
	d.ends(syscall.SIGTERM)
	if n := strings.Count(d.text(), "line=\"no room\""); n != 1 {
		t.Errorf("it was started %d times; want once:\n%s", n, d.text())
	}
}

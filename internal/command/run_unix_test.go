//go:build unix

package command_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ration-dev/ration/internal/command"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a shell script in a folder of its own, and what it prints.
type script struct {
	*command.Run
	lines []string
}

func newScript(t *testing.T, text string) *script {
	t.Helper()
	s := &script{}
	s.Run = &command.Run{Args: []string{write(t, "fetch.sh", "#!/bin/sh\n"+text, 0o755)}, Env: os.Environ(),
		Timeout: time.Minute, Grace: 30 * time.Second, Output: func(line string) { s.lines = append(s.lines, line) }}
	s.Dir = filepath.Dir(s.Args[0])
	return s
}

func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAProgramsErrorHasItsCodeAndLastLine(t *testing.T) {
	for text, want := range map[string]string{
		"exit 0":                      "<nil>",
		"echo working; exit 0":        "<nil>",
		"exit 75":                     "exit status 75",
		"echo no room >&2; exit 75":   "exit status 75: no room",
		"echo; echo; exit 1":          "exit status 1",
		"echo why; echo ''; exit 3":   "exit status 3: why",
		"kill -9 $$":                  "signal: killed",
		"printf 'half a line'; false": "exit status 1: half a line",
	} {
		s := newScript(t, text)
		err := s.Do(t.Context())
		if fmt.Sprint(err) != want || errors.Is(err, command.ErrStopped) != strings.Contains(want, "75") {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}

// TestOutputIsLines: the two streams are split by themselves, a last line needs
// no newline, and a long line is cut.
func TestOutputIsLines(t *testing.T) {
	s := newScript(t, `printf 'out '; printf 'err ' >&2; printf 'one\r\n'; printf 'two\n\n' >&2
head -c 5000 /dev/zero | tr '\0' x; echo; echo "the token is s3cret-token"; printf 'last'`)
	s.Secrets = []string{"s3cret-token"}
	if err := s.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(s.lines) // of two streams
	want := []string{"", "err two", "last", "out one", "the token is [hidden]",
		strings.Repeat("x", 4096) + "… (904 more bytes)"}
	if !slices.Equal(s.lines, want) {
		t.Errorf("got %q; want %q", s.lines, want)
	}
}

func TestLinesDoNotInterleave(t *testing.T) {
	s := newScript(t,
		`for i in $(seq 200); do printf 'aaaa'; printf 'bbbb' >&2; printf 'AAAA\n'; printf 'BBBB\n' >&2; done`)
	if err := s.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, line := range s.lines {
		counts[line]++
	}
	if len(counts) != 2 || counts["aaaaAAAA"] != 200 || counts["bbbbBBBB"] != 200 {
		t.Errorf("lines %v; want 200 of each stream", counts)
	}
}

func TestAProgramGetsItsEnvironmentAndFolder(t *testing.T) {
	s := newScript(t, `echo "$PWD $RATION_URL $1"; cat`)
	s.Args = append(s.Args, "a b")
	s.Env = append(s.Env, "RATION_URL=http://127.0.0.1:1")
	if err := s.Do(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := s.Dir + " http://127.0.0.1:1 a b"; len(s.lines) != 1 || s.lines[0] != want {
		t.Errorf("got %q; want %q, and nothing on standard input", s.lines, want)
	}
}

// checkEnded waits until processes have ended: the system does not kill them at
// once. Zombies have.
func checkEnded(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		alive := func() bool {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			return syscall.Kill(pid, 0) == nil && (err != nil || !strings.Contains(string(stat), ") Z "))
		}
		for end := time.Now().Add(10 * time.Second); alive(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("process %d is left", pid)
				break
			}
		}
	}
}

// pids waits for the numbers that a script has written, one a line.
func pids(t *testing.T, path string, n int) []int {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		text, _ := os.ReadFile(path)
		if strings.Count(string(text), "\n") < n {
			continue
		}
		var all []int
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, pid)
		}
		return all
	}
	t.Fatalf("no %d numbers in %s within 20 seconds", n, path)
	return nil
}

// TestATimeoutEndsGrandchildren: the whole group is told to end, and the
// timeout is the error even if the program then ends with 0.
func TestATimeoutEndsGrandchildren(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a timeout and its grace, 3 seconds")
	}
	s := newScript(t, `trap 'exit 0' TERM
sh -c 'echo $$ >>pids; sleep 60' &
echo $$ >>pids
echo waiting
wait`)
	s.Timeout = time.Second
	if err := s.Do(t.Context()); err == nil || err.Error() != "killed after its timeout of 1s: waiting" {
		t.Errorf("got %v; want the timeout and the last line", err)
	}
	checkEnded(t, pids(t, filepath.Join(s.Dir, "pids"), 2)...)
}

// TestShutdownKillsWhatIgnoresSIGTERM: after the grace, nothing of the group is
// left, not even what keeps the output open.
func TestShutdownKillsWhatIgnoresSIGTERM(t *testing.T) {
	s := newScript(t, `trap '' TERM
sh -c 'trap "" TERM; echo $$ >>pids; while :; do sleep 1; done' &
echo $$ >>pids
while :; do sleep 1; done`)
	s.Grace = 50 * time.Millisecond
	why := errors.New("told by the test")
	ctx, cancel := context.WithCancelCause(t.Context())
	var group []int
	go func() {
		group = pids(t, filepath.Join(s.Dir, "pids"), 2)
		cancel(why)
	}()
	if err := s.Do(ctx); !errors.Is(err, why) {
		t.Errorf("got %v; want why it was told to end", err)
	}
	checkEnded(t, group...)
}

// TestProgramEndsOnASignal: it has the grace to end in order, and 0 is done.
func TestProgramEndsOnASignal(t *testing.T) {
	for text, done := range map[string]bool{"exit 0": true, "exit 75": false, "exit 1": false} {
		s := newScript(t, "trap 'echo saved; "+text+"' TERM; echo $$ >pids; while :; do sleep 0.01; done")
		why := errors.New("told by the test")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			pids(t, filepath.Join(s.Dir, "pids"), 1)
			cancel(why)
		}()
		err := s.Do(ctx)
		if done && err != nil || !done && !errors.Is(err, why) || !slices.Contains(s.lines, "saved") {
			t.Errorf("%s: %v, and %q; want it to end in order", text, err, s.lines)
		}
	}
}

// TestAGrandchildKeepsNoStepWaiting: a program that is done is done, and what
// it left running does not keep the step.
func TestAGrandchildKeepsNoStepWaiting(t *testing.T) {
	for name, text := range map[string]string{
		"ends when told": `sleep 60 & echo $! >pids; echo done`,
		"ignores SIGTERM": `sh -c 'trap "" TERM; echo $$ >pids; while :; do sleep 1; done' & while [ ! -s pids ]; ` +
			`do sleep 0.01; done; echo done`,
		"closed output": `sh -c 'trap "" TERM; echo $$ >pids; while :; do sleep 1; done' >/dev/null 2>&1 & while ` +
			`[ ! -s pids ]; do sleep 0.01; done; echo done`,
	} {
		s := newScript(t, text)
		s.Grace = 50 * time.Millisecond
		if err := s.Do(t.Context()); err != nil || !slices.Equal(s.lines, []string{"done"}) {
			t.Errorf("%s: %v, and %q; want done", name, err, s.lines)
		}
		checkEnded(t, pids(t, filepath.Join(s.Dir, "pids"), 1)...)
	}
}

func TestStartErrorsSayWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"echo no interpreter":          "#!/bin/sh",
		"#!/no/such/interpreter\nexit": "install the interpreter",
	} {
		run := &command.Run{Args: []string{write(t, "fetch.sh", text, 0o755)}, Timeout: time.Minute}
		if err := run.Do(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("before it began")
	cancel(why)
	if err := newScript(t, "exit 0").Do(ctx); !errors.Is(err, why) {
		t.Errorf("got %v; want %v", err, why)
	}
}

package main

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/cli"
)

// commandLine is a ration command line that runs inside the test, with streams,
// an environment and a clock of its own. Signals, crashes, terminals and locks
// between processes need a real process, see stand.command.
type commandLine struct {
	stdout, stderr io.Writer
	stdin          io.Reader // stands for a terminal; nil is empty, and none
	getenv         func(string) string
	shift          time.Duration // by how much its clock is ahead; 0 uses the system's
}

// run returns the exit code of a command line.
func (c *commandLine) run(args ...string) int {
	a := &app{stdin: c.stdin, interactive: c.stdin != nil, stdout: cli.NewWriter(c.stdout),
		stderr: cli.NewWriter(c.stderr), plain: [2]io.Writer{c.stdout, c.stderr}, secrets: new(cli.Secrets),
		getenv: c.getenv, now: time.Now, columns: func() int { return 0 }}
	if a.stdin == nil {
		a.stdin = strings.NewReader("")
	}
	if c.shift != 0 {
		a.now, a.fixed = func() time.Time { return time.Now().Add(c.shift) }, true
	}
	return a.main(args)
}

// workingDirectory is the one thing that command lines inside a test share with
// each other: those of scripts take turns.
type workingDirectory struct{ sync.Mutex }

// in calls f with dir as the working directory.
func (d *workingDirectory) in(dir string, f func() int) (int, error) {
	d.Lock()
	defer d.Unlock()
	before, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	if err := os.Chdir(dir); err != nil {
		return 0, err
	}
	defer os.Chdir(before)
	return f(), nil
}

// environment looks variables up in "name=value" pairs, of which the
// last counts.
func environment(pairs []string) func(string) string {
	return func(name string) string {
		for _, pair := range slices.Backward(pairs) {
			if value, found := strings.CutPrefix(pair, name+"="); found {
				return value
			}
		}
		return ""
	}
}

// run runs a command line on the stand, with variables added to its
// environment, and returns its exit code and output.
func (s *stand) run(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	c := &commandLine{stdout: &out, stderr: &err, getenv: environment(append(s.environ(), env...))}
	code = c.run(args...)
	return code, out.String(), err.String()
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// blocks returns the code blocks of docs/running.md of a language.
func blocks(t *testing.T, language string) []string {
	t.Helper()
	var found []string
	page := mustRead(t, filepath.Join("..", "..", "docs", "running.md"))
	for _, block := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(page, -1) {
		found = append(found, block[1])
	}
	if len(found) == 0 {
		t.Fatalf("docs/running.md has no block of %s", language)
	}
	return found
}

// TestCrontabLine runs the line of docs/running.md as cron does: by sh -c, from
// the home folder, with LOGNAME, SHELL, HOME and what the crontab itself sets
// (crontab(5)). Only the folders are the test's, and the test's upstream.
func TestCrontabLine(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil, "{name: all, limit: 2, window: 24h, methods: [videos.list]}", "[{trending: {pages: 4}}]",
		"US")
	s.write(t, "key", "the-key\n")
	bin := t.TempDir()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "ration")); err != nil {
		t.Fatal(err)
	}
	ours := strings.NewReplacer("/etc/ration", s.dir, "/var/lib/ration", filepath.Join(s.dir, "state"),
		"/usr/local/bin", bin)
	env := []string{"LOGNAME=ration", "SHELL=/bin/sh", "HOME=" + s.dir}
	command := ""
	for line := range strings.Lines(ours.Replace(blocks(t, "crontab")[0])) {
		line = strings.TrimSpace(line)
		if regexp.MustCompile(`^[A-Z_]+=`).MatchString(line) {
			env = append(env, line)
		} else if fields := strings.SplitN(line, " ", 6); len(fields) == 6 {
			command = fields[5]
		}
	}
	if strings.Contains(command, "%") {
		t.Errorf("%s: cron makes a line's end of %%", command)
	}
	line := func() (string, int) {
		cmd := exec.Command("/bin/sh", "-c", command)
		cmd.Dir, cmd.Env = s.dir, append(env, asRation+"=1", "RATION_ENDPOINT="+s.url)
		out, err := cmd.CombinedOutput()
		return string(out), exitCode(err)
	}
	for _, c := range []struct {
		limit string
		code  int
		units int64
	}{{"limit: 2", exitStopped, 2}, {"limit: 9500", exitDone, 4}, {"limit: 9500", exitDone, 4}} {
		s.write(t, "costs.yaml", regexp.MustCompile(`limit: [0-9]+`).ReplaceAllString(mustRead(t,
			filepath.Join(s.dir, "costs.yaml")), c.limit))
		if out, code := line(); out != "" || code != c.code || s.upstream.Total() != c.units {
			t.Errorf("%s: %q exits with %d and says %q, after %d units; want %d and nothing to mail, after %d", c.limit,
				command, code, out, s.upstream.Total(), c.code, c.units)
		}
	}
	s.write(t, "regions.yaml", "version: 3\n")
	if out, code := line(); code != exitConfig || !strings.Contains(out, "regions.yaml:1:10") {
		t.Errorf("with a mistake it exits with %d and says %q; want 78 and something to mail", code, out)
	}
}

// TestUnitFiles gives the units of docs/deploy/systemd to systemd-analyze
// verify. Without one it looks for what must be in them.
func TestUnitFiles(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "ration")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	units, err := filepath.Glob("../../docs/deploy/systemd/ration*.[st]*")
	if err != nil || len(units) != 3 {
		t.Fatalf("the units are %v, %v; want 3", units, err)
	}
	var files []string
	text := ""
	for _, source := range units {
		file := filepath.Join(dir, filepath.Base(source))
		unit := strings.NewReplacer("ExecStart=ration", "ExecStart="+program, "User=ration\n",
			"").Replace(mustRead(t, source))
		if err := os.WriteFile(file, []byte(unit), 0o644); err != nil {
			t.Fatal(err)
		}
		files, text = append(files, file), text+unit
	}
	for _, want := range []string{"Type=notify\n", "ExecReload=/bin/kill -HUP $MAINPID\n", "LoadCredential=key:",
		"StateDirectory=ration\n", "SuccessExitStatus=75 143\n", "WatchdogSec=", "OnCalendar="} {
		if !strings.Contains(text, want) {
			t.Errorf("no unit has %q", want)
		}
	}
	confined := func(unit string) string {
		_, rest, _ := strings.Cut(mustRead(t, "../../docs/deploy/systemd/"+unit), "\nUMask=")
		rest, _, _ = strings.Cut(rest, "\n[")
		return strings.TrimSpace(rest)
	}
	if run, serve := confined("ration-run.service"), confined("ration.service"); run == "" || run != serve {
		t.Errorf("ration-run.service is confined by\n%s\nand ration.service by\n%s", run, serve)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Logf("no systemd-analyze here (%v): the units' syntax was not checked", err)
		return
	}
	out, err := exec.Command(analyze, append([]string{"verify", "--man=no"}, files...)...).CombinedOutput()
	if err != nil || strings.Contains(string(out), dir) {
		t.Errorf("systemd-analyze verify: %v: %s", err, out)
	}
}

//go:build unix

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// runIn runs a command line in a folder, with variables added to its
// environment, and returns its exit code and what it printed.
func runIn(t *testing.T, s *stand, dir string, env []string, args ...string) (code int, out string) {
	t.Helper()
	t.Chdir(dir)
	code, out, text := s.run(t, env, args...)
	return code, out + text
}

// TestAStrangersConfigGetsNoPassword: wherever costs.yaml is found, one
// that another user may have written must not name the server to which the
// password goes.
func TestAStrangersConfigGetsNoPassword(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connected := make(chan struct{}, 100)
	go func() {
		for conn, err := server.Accept(); err == nil; conn, err = server.Accept() {
			connected <- struct{}{}
			conn.Close()
		}
	}()
	defer server.Close()
	s := newStand(t, &youtubetest.Options{}, "{name: all, limit: 1000, window: 1h}", "[trending]", "US")
	text, err := os.ReadFile(filepath.Join(s.dir, "costs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "costs.yaml", strings.Replace(string(text), "sqlite:ration.db", "redis://"+server.Addr().String(), 1))
	costs := filepath.Join(s.dir, "costs.yaml")
	home := filepath.Join(t.TempDir(), "home")
	usual := filepath.Join(home, ".config", "ration")
	if err := errors.Join(os.MkdirAll(filepath.Dir(usual), 0o755), os.Symlink(s.dir, usual)); err != nil {
		t.Fatal(err)
	}
	spoil := func() error { return os.Chmod(costs, 0o666) }
	if os.Getuid() == 0 {
		spoil = func() error { return os.Chown(costs, 4321, 4321) }
	}
	if err := spoil(); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	for name, at := range map[string]struct {
		dir  string
		env  []string
		args []string
	}{
		"the current folder": {s.dir, []string{"RATION_CONFIG="}, nil},
		"RATION_CONFIG":      {empty, []string{"RATION_CONFIG=" + s.dir}, nil},
		"--config":           {empty, []string{"RATION_CONFIG="}, []string{"--config", s.dir}},
		"~/.config/ration":   {empty, []string{"RATION_CONFIG=", "XDG_CONFIG_HOME=", "HOME=" + home}, nil},
	} {
		for _, command := range []string{"status", "run", "doctor", "spend videos.list", "plan", "costs",
			"cooldown list"} {
			code, out := runIn(t, s, at.dir, append(at.env, "RATION_REDIS_PASSWORD=s3cretpw"),
				append(strings.Fields(command), at.args...)...)
			if code != 78 || !strings.Contains(out, "costs.yaml: ") || strings.Contains(out, "s3cretpw") {
				t.Errorf("%s, ration %s: exit %d, %s; want 78", name, command, code, out)
			}
		}
	}
	if len(connected) > 0 {
		t.Errorf("%d connections to the server that a stranger named", len(connected))
	}
	if os.Getuid() == 0 { // the one setting that trusts the owner
		t.Setenv("RATION_TRUST_OWNER", "4321")
		if code, out := runIn(t, s, empty, nil, "costs"); code != 0 {
			t.Errorf("of a trusted owner: exit %d, %s", code, out)
		}
	}
}

// TestACloneOfUmask002IsRefusedInOneLine: one line names all that is to be
// changed, and the one command that does it.
func TestACloneOfUmask002IsRefusedInOneLine(t *testing.T) {
	s := newStand(t, &youtubetest.Options{}, "{name: all, limit: 1000, window: 1h}", "[trending]", "US")
	mode := os.FileMode(0o664)
	if os.Getuid() != 0 {
		mode = 0o666 // the group may be the user's own
	}
	for _, name := range []string{"costs.yaml", "regions.yaml"} {
		if err := os.Chmod(filepath.Join(s.dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	code, out := runIn(t, s, s.dir, []string{"RATION_CONFIG="}, "plan")
	_, command, _ := strings.Cut(strings.TrimSpace(out), "; run ")
	if code != 78 || strings.Count(out, "\n") != 1 || command != "chmod go-w costs.yaml regions.yaml" {
		t.Fatalf("exit %d, %q; want 78, and one line with one command", code, out)
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = s.dir
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(fmt.Sprintf("%s: %s", command, text), err)
	}
	if code, out := runIn(t, s, s.dir, []string{"RATION_CONFIG="}, "status"); code != 0 {
		t.Errorf("after %s: exit %d, %s", command, code, out)
	}
}

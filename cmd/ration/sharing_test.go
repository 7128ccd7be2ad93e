//go:build linux

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// The users and groups of the tests below; they need no name.
const alice, bob, carol, sharers, ownGroups = 54321, 54322, 54323, 54330, 54340

// as is a ration process of one user, with the usual umask and, for members,
// the group that shares.
func (s *stand) as(uid uint32, member bool, args ...string) *exec.Cmd {
	cmd := exec.Command("sh", append([]string{"-c", `umask 022; exec "$@"`, "sh", filepath.Join(s.dir, "ration")},
		args...)...)
	cmd.Env = append(s.environ(), asRation+"=1", "RATION_TRUST_GROUP=54330", "HOME=/nonexistent")
	cmd.Dir = s.dir
	groups := []uint32{}
	if member {
		groups = append(groups, sharers)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: ownGroups, Groups: groups}}
	return cmd
}

// newSharing returns a stand whose folder root has given to a group.
func newSharing(t *testing.T) *stand {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can be two users")
	}
	s := newStand(t, &youtubetest.Options{}, "{name: all, limit: 20, window: 24h, methods: [videos.list]}",
		"[{trending: {pages: 1}}]", "US", "DE")
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // the folder around it is closed to others
		t.Fatal(err)
	}
	for _, name := range []string{"costs.yaml", "regions.yaml"} {
		text := mustRead(t, filepath.Join(s.dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := os.ReadFile(os.Args[0]) // the folder that go test builds in is closed to others
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(os.WriteFile(filepath.Join(dir, "ration"), binary, 0o755), os.Chown(dir, 0, sharers),
		os.Chmod(dir, 0o770|fs.ModeSetgid))
	if err != nil {
		t.Fatal(err)
	}
	s.dir = dir
	return s
}

// TestTwoUsersShareOneLedger: two members of a group spend, run and read
// with one ledger, catalogue and replica, whichever of them created these,
// under a umask of 022.
func TestTwoUsersShareOneLedger(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes of two users, a second")
	}
	s := newSharing(t)
	for _, step := range []struct {
		uid  uint32
		args string
	}{
		{alice, "spend videos.list"}, {bob, "spend videos.list"}, {alice, "run US"}, {bob, "run DE"},
		{bob, "run US --again"}, {alice, "run DE --again"},
		{bob, "cooldown set all --for 1s"}, {alice, "cooldown clear all"}, {alice, "status"}, {bob, "ledger info"},
		{alice, "log"}, {bob, "doctor"},
	} {
		out, err := s.as(step.uid, true, strings.Fields(step.args)...).CombinedOutput()
		if err != nil || strings.Contains(string(out), "chmod") { // doctor's advice would shut out the other
			t.Errorf("user %d, ration %s: %v: %s", step.uid, step.args, err, out)
		}
	}
	t.Setenv("RATION_TRUST_GROUP", "54330")
	if used := s.used(t); used != 2+s.upstream.Total() {
		t.Errorf("the ledger has %d units; want 2 and the upstream's %d", used, s.upstream.Total())
	}
	err := filepath.Walk(s.dir, func(path string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if o := info.Sys().(*syscall.Stat_t); o.Uid != 0 &&
			(o.Gid != sharers || info.Mode().Perm()&0o067 != 0o060 && info.Mode().Perm()&0o077 != 0o070) {
			t.Errorf("%s: mode %v, group %d", path, info.Mode(), o.Gid)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTwoUsersSpendTheLimitOnce: 16 processes of two users ask at once for more
// than the limit. Each of them has the replica, and says nothing.
func TestTwoUsersSpendTheLimitOnce(t *testing.T) {
	s := newSharing(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	codes := map[int]int{}
	for i := range 16 {
		wg.Go(func() {
			out, err := s.as([]uint32{alice, bob}[i%2], true, "spend", "videos.list", "--units", "2").CombinedOutput()
			mu.Lock()
			defer mu.Unlock()
			codes[exitCode(err)]++
			if err == nil && len(out) > 0 {
				t.Errorf("granted, but %s", out)
			}
		})
	}
	wg.Wait()
	if codes[exitDone] != 10 || codes[exitStopped] != 6 {
		t.Errorf("the exit codes are %v; want 10 of 0 and 6 of 75", codes)
	}
}

// TestTwoUsersRunAtOnce: the catalogue is new, or SQLite creates the files
// beside it again, and for a moment only the one who was first may write
// to them.
func TestTwoUsersRunAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 16 processes of two users, a second")
	}
	s := newSharing(t)
	for range 8 {
		var wg sync.WaitGroup
		for i, region := range []string{"US", "DE"} {
			wg.Go(func() {
				if out, err := s.as([]uint32{alice, bob}[i], true, "run", region,
					"--again").CombinedOutput(); err != nil {
					t.Errorf("%s: %v: %s", region, err, out)
				}
			})
		}
		wg.Wait()
	}
}

// TestUserOutsideTheGroupIsKeptOut: naming the group is not enough, and its
// members' files are refused without it.
func TestUserOutsideTheGroupIsKeptOut(t *testing.T) {
	s := newSharing(t)
	if out, err := s.as(alice, true, "spend", "videos.list").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := s.as(carol, false, "spend", "videos.list")
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("a stranger spends: %s", out)
	}
	cmd = s.as(bob, true, "spend", "videos.list")
	cmd.Env = append(cmd.Env, "RATION_TRUST_GROUP=")
	if out, err := cmd.CombinedOutput(); exitCode(err) != exitConfig {
		t.Errorf("without the group: %v, %s; want exit 78", err, out)
	}
	cmd = s.as(bob, true, "spend", "videos.list")
	cmd.Env = append(cmd.Env, "RATION_TRUST_GROUP=staff")
	if out, err := cmd.CombinedOutput(); exitCode(err) != exitConfig || strings.Count(string(out), "\n") != 1 {
		t.Errorf("with a name: %v, %s; want exit 78 and one line", err, out)
	}
}

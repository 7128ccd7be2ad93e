package inspect_test

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/inspect"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/quota"
)

// asNobody gives a folder to the user nobody, and lets a test that runs as root
// use files with that user's rights: root may write all of them.
func asNobody(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	t.Setenv("RATION_TRUST_OWNER", "65534")
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 65534, -1); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	if err := syscall.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Setfsuid(0); runtime.UnlockOSThread() })
}

// TestDoctorFindsWhatRunFinds: a ledger that this user can only read, and a
// region's lock that belongs to root, end run with 78.
func TestDoctorFindsWhatRunFinds(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"ration.db": 0o400, "catalog.db": 0o600,
		"catalog.db.region US.lock": 0} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 && name != "catalog.db.region US.lock" {
			if err := os.Chown(path, 65534, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	asNobody(t, dir)
	c := &inspect.Checkup{Message: error.Error, Now: time.Now}
	c.CheckState(dir)
	c.CheckLedgerFiles("sqlite:" + filepath.Join(dir, "ration.db"))
	var found []string
	for _, f := range c.Findings {
		if strings.Contains(f.What, "permission denied") {
			found = append(found, f.What)
		}
	}
	all := strings.Join(found, "\n")
	if len(found) != 2 || !strings.Contains(all, "ration.db:") || !strings.Contains(all, "region US.lock:") ||
		c.Err == nil {
		t.Errorf("found %q; want the ledger and the lock, once each", all)
	}
}

// TestABackupIsNoProblem: a copy of the ledger or the catalogue beside it,
// which ration never opens and this user may not write, ended doctor with 78.
func TestABackupIsNoProblem(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ration.db.bak", "catalog.db.old", "u.sqlite.2026-11-20"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(t, dir)
	c := &inspect.Checkup{Message: error.Error, Now: time.Now}
	c.CheckState(dir)
	c.CheckLedgerFiles("sqlite:" + filepath.Join(dir, "ration.db"))
	c.CheckLedgerFiles("sqlite:" + filepath.Join(dir, "u.sqlite"))
	if c.Err != nil {
		t.Error(c.Err)
	}
}

// newSetup returns what finds the configuration, the ledger empty.db and the
// replica in a folder.
func newSetup(t *testing.T, dir string) *setup.Setup {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "costs.yaml"),
		[]byte("version: 1\nupstream: u\naccount: a\ncosts: {list: 1}\nbudgets: [{name: b, limit: 1, window: 1h}]\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"RATION_JOURNAL": filepath.Join(dir, "replica")}
	return &setup.Setup{Folder: dir, Ledger: "sqlite:" + filepath.Join(dir, "empty.db"),
		State: filepath.Join(dir, "state"), Now: time.Now,
		Getenv:  func(name string) string { return env[name] },
		Conceal: func(string) {}, Redact: func(text string) string { return text },
		Clean:  func(text string) string { return text },
		Report: func(_ quota.Call, err error) { t.Errorf("reported: %v", err) }}
}

// TestAnUnreadableConfigurationSaysWhatToDo: the error did not say what to do.
func TestAnUnreadableConfigurationSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	s := newSetup(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "regions.yaml"), nil, 0); err != nil {
		t.Fatal(err)
	}
	asNobody(t, dir)
	_, _, err := s.PricesAndRegions()
	const want = "regions.yaml: permission denied; make it readable for this user, or name another folder with --config"
	if _, ok := errors.AsType[*client.ConfigError](err); !ok || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	}
}

// TestUnreadableReplicaIsOneFinding: each account that a file of the replica
// belongs to named it twice again, without what to do.
func TestUnreadableReplicaIsOneFinding(t *testing.T) {
	dir := t.TempDir()
	s := newSetup(t, dir)
	s.Report = func(quota.Call, error) {}
	table, err := s.Prices()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := s.Open(table, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opened.Guard().Spend(t.Context(), quota.Call{Account: "a", Method: "list", Units: 1}); err != nil {
		t.Fatal(err)
	}
	opened.Close()
	paths, _ := filepath.Glob(filepath.Join(dir, "replica", "*.*"))
	for _, path := range paths {
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
	}
	ledger, _ := filepath.Glob(filepath.Join(dir, "empty.db*"))
	for _, path := range append(ledger, filepath.Join(dir, "replica")) {
		if err := os.Chown(path, map[bool]int{true: 65534, false: -1}[os.Geteuid() == 0], -1); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(t, dir)
	c := &inspect.Checkup{Message: error.Error, Now: time.Now}
	c.Examine(t.Context(), s, "")
	named := map[string]int{}
	for _, f := range c.Findings {
		if _, path, ok := strings.Cut(f.What, "open "); ok && strings.Contains(f.What, "permission denied") {
			path, _, _ = strings.Cut(path, ":")
			named[path]++
			if !strings.Contains(f.What, "; ") {
				t.Errorf("%s: says not what to do", f.What)
			}
		}
	}
	for _, path := range paths {
		if named[path] != 1 {
			t.Errorf("%s: in %d findings; want 1: %+v", path, named[path], c.Findings)
		}
	}
}

// TestDoctorFindsAReplicaFileOfAnotherUser: root has made a call once, so this
// user cannot read a part of the replica; doctor says so.
func TestDoctorFindsAReplicaFileOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "0123.2026-11-20.log"), nil, 0); err != nil {
		t.Fatal(err)
	}
	asNobody(t, dir)
	c := &inspect.Checkup{Message: error.Error, Now: time.Now}
	c.CheckReplica(dir)
	if len(c.Findings) != 1 || !strings.Contains(c.Findings[0].What, "0123.2026-11-20.log: permission denied") ||
		c.Err == nil {
		t.Errorf("%+v, %v; want the file", c.Findings, c.Err)
	}
}

// TestDoctorFindsAReplicaThatCannotBeWritten: run says at its first grant that
// nothing can be restored; doctor says it before.
func TestDoctorFindsAReplicaThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"closed": 0o500, "open": 0o700} {
		if err := os.Mkdir(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(filepath.Join(dir, name), 65534, -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	asNobody(t, dir)
	for folder, warns := range map[string]bool{"": false, "open": false, "open/new": false, "closed": true,
		"closed/new": true, "file": true, "file/new": true} {
		c := &inspect.Checkup{Message: error.Error, Now: time.Now}
		path := ""
		if folder != "" {
			path = filepath.Join(dir, folder)
		}
		c.CheckReplica(path)
		if warned := len(c.Findings) == 1 && c.Findings[0].Grade == inspect.Warning; warned != warns ||
			len(c.Findings) > 1 || c.Err != nil {
			t.Errorf("%q: %+v, %v; warning: want %v", folder, c.Findings, c.Err, warns)
		}
	}
}

// TestDoctorFindsAFullDisk: a full disk takes empty files, and nothing that run
// writes. A process that may not write any bytes stands for it.
func TestDoctorFindsAFullDisk(t *testing.T) {
	const isFull = "DOCTOR_TEST_FULL"
	if os.Getenv(isFull) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDoctorFindsAFullDisk$")
		cmd.Env = append(os.Environ(), isFull+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := &inspect.Checkup{Message: error.Error, Now: time.Now}
	c.CheckReplica(dir)
	c.CheckState(dir)
	if len(c.Findings) != 2 || c.Findings[0].Grade != inspect.Warning || c.Findings[1].Grade != inspect.Problem {
		t.Errorf("%+v; want the replica and the state folder", c.Findings)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v; want nothing left behind", left, err)
	}
}

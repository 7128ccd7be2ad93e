package doctor_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs/doctor"
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

// TestDoctorMissesWhatRunFinds: a ledger that this user can only read, and a
// region's lock that belongs to root, end run with 78.
func TestDoctorMissesWhatRunFinds(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"ration.db": 0o400, "catalog.db": 0o600, "catalog.db.region US.lock": 0} {
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
	c := &doctor.Checkup{Message: error.Error, Now: time.Now}
	c.CheckState(dir)
	c.CheckLedgerFiles("sqlite:" + filepath.Join(dir, "ration.db"))
	var found []string
	for _, f := range c.Findings {
		if strings.Contains(f.What, "permission denied") {
			found = append(found, f.What)
		}
	}
	all := strings.Join(found, "\n")
	if len(found) != 2 || !strings.Contains(all, "ration.db:") || !strings.Contains(all, "region US.lock:") || c.Err == nil {
		t.Errorf("found %q; want the ledger and the lock, once each", all)
	}
}

// TestJournalFileOfAnotherUser: root has restored the log once. A run of this
// user that is to restore it ends with 78; doctor says so before.
func TestJournalFileOfAnotherUser(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "0123.lock"), nil, 0); err != nil {
		t.Fatal(err)
	}
	asNobody(t, dir)
	c := &doctor.Checkup{Message: error.Error, Now: time.Now}
	c.CheckJournal(dir)
	if len(c.Findings) != 1 || !strings.Contains(c.Findings[0].What, "0123.lock: permission denied") || c.Err == nil {
		t.Errorf("%+v, %v; want the lock", c.Findings, c.Err)
	}
}

// TestJournalThatCannotBeWritten: run says at its first grant that nothing is
// journaled; doctor says it before.
func TestJournalThatCannotBeWritten(t *testing.T) {
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
	for folder, warns := range map[string]bool{"": false, "open": false, "open/new": false, "closed": true, "closed/new": true, "file": true, "file/new": true} {
		c := &doctor.Checkup{Message: error.Error, Now: time.Now}
		path := ""
		if folder != "" {
			path = filepath.Join(dir, folder)
		}
		c.CheckJournal(path)
		if warned := len(c.Findings) == 1 && c.Findings[0].Grade == doctor.Warning; warned != warns || len(c.Findings) > 1 || c.Err != nil {
			t.Errorf("%q: %+v, %v; warning: want %v", folder, c.Findings, c.Err, warns)
		}
	}
}

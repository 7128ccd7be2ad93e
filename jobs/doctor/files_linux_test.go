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
	if os.Geteuid() == 0 { // root may write every file: look as the user nobody does
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, 65534, -1); err != nil {
			t.Fatal(err)
		}
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := syscall.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Setfsuid(0) }()
	}
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

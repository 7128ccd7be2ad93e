package sqliteledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestLedgerBehindALink: SQLite would open the target of a link.
func TestLedgerBehindALink(t *testing.T) {
	for _, name := range []string{"ration.db", "ration.db-wal", "ration.db-shm", "ration.db-journal", "ration.db.lock"} {
		dir := t.TempDir()
		path, victim := filepath.Join(dir, "ration.db"), filepath.Join(dir, "victim")
		if err := errors.Join(os.WriteFile(victim, nil, 0o600), os.Symlink(victim, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
		l, err := sqliteledger.Open(path, nil)
		if !errors.Is(err, quota.ErrLedgerConfig) || !errors.Is(err, privatefile.ErrUnsafe) {
			t.Errorf("%s is a link: %v; want ErrLedgerConfig and ErrUnsafe", name, err)
		}
		if err == nil {
			l.Close()
		}
		if data, err := os.ReadFile(victim); err != nil || len(data) > 0 {
			t.Errorf("the file behind the link %s holds %q, %v", name, data, err)
		}
	}
}

// TestLedgerThatOthersMayWrite: another user with write access to the file
// could change what is spent.
func TestLedgerThatOthersMayWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ration.db")
	open(t, path, nil).Close()
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if l, err := sqliteledger.Open(path, nil); !errors.Is(err, quota.ErrLedgerConfig) || !errors.Is(err, privatefile.ErrUnsafe) {
		t.Errorf("%v, %v; want ErrLedgerConfig and ErrUnsafe", l, err)
	}
}

// TestLockReplacedByALink: an open ledger opens its lock file with its
// first write.
func TestLockReplacedByALink(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "ration.db"), filepath.Join(dir, "victim")
	open(t, path, nil).Close()
	l := open(t, path, nil)
	if err := errors.Join(os.WriteFile(victim, nil, 0o600), os.Remove(path+".lock"), os.Symlink(victim, path+".lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Spend(t.Context(), one(1)); !errors.Is(err, quota.ErrLedgerConfig) || !errors.Is(err, privatefile.ErrUnsafe) {
		t.Errorf("spend: %v; want ErrLedgerConfig and ErrUnsafe", err)
	}
	if data, err := os.ReadFile(victim); err != nil || len(data) > 0 {
		t.Errorf("the file behind the link holds %q, %v", data, err)
	}
}

//go:build linux || darwin

package journal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sqliteFaults are ways to lose entries of a ledger in a file. copied is an
// older copy of its folder.
var sqliteFaults = map[string]func(folder, copied string) error{
	"file deleted": func(folder, _ string) error { return os.Remove(filepath.Join(folder, "ration.db")) },
	"file and -wal deleted": func(folder, _ string) error {
		_ = os.Remove(filepath.Join(folder, "ration.db-wal")) // there is none after a clean end
		return os.Remove(filepath.Join(folder, "ration.db"))
	},
	"folder deleted": func(folder, _ string) error { return os.RemoveAll(folder) },
	"older file put in place": func(folder, copied string) error {
		return os.Rename(filepath.Join(copied, "ration.db"), filepath.Join(folder, "ration.db"))
	},
	"older folder put in place": func(folder, copied string) error {
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
		return os.Rename(copied, folder)
	},
	"older file copied over it": func(folder, copied string) error { // as cp does: the inode stays
		older, err := os.ReadFile(filepath.Join(copied, "ration.db"))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, "ration.db"), older, 0o600)
	},
	"file emptied": func(folder, _ string) error { return os.Truncate(filepath.Join(folder, "ration.db"), 0) },
	"damaged": func(folder, _ string) error {
		file, err := os.OpenFile(filepath.Join(folder, "ration.db"), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil || info.Size() < 8<<10 {
			return fmt.Errorf("%v; it has %d bytes", err, info.Size())
		}
		garbage := make([]byte, info.Size()-4<<10)
		for i := range garbage {
			garbage[i] = byte(i * 7)
		}
		_, err = file.WriteAt(garbage, 4<<10)
		return err
	},
	"another file in its place": func(folder, _ string) error {
		_ = os.Remove(filepath.Join(folder, "ration.db-wal")) // there is none after a clean end
		return os.WriteFile(filepath.Join(folder, "ration.db"), []byte(strings.Repeat("not a database\n", 9999)), 0o600)
	},
	"-wal removed": func(folder, _ string) error {
		return os.RemoveAll(filepath.Join(folder, "ration.db-wal"))
	},
	"-wal and -shm removed": func(folder, _ string) error {
		_ = os.Remove(filepath.Join(folder, "ration.db-shm"))
		return os.RemoveAll(filepath.Join(folder, "ration.db-wal"))
	},
}

// TestLostFileGrantsTwice: whatever happens to the file of a ledger, while
// processes have it open, after they ended, or after they were killed, the
// upstream gets exactly the limit, and every process goes on.
func TestLostFileGrantsTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("loses a file in 24 ways, 25 seconds")
	}
	for name, lose := range sqliteFaults {
		for _, when := range []string{"open", "closed", "killed"} {
			t.Run(fmt.Sprintf("%s while %s", name, when), func(t *testing.T) {
				t.Parallel()
				url, hits := counter(t)
				root := t.TempDir()
				folder, copied := filepath.Join(root, "ledger"), filepath.Join(root, "copied")
				first := startWorker(t, url, root)
				first.calls(100)
				first.stop()
				if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
					t.Fatal(err)
				}
				for _, path := range []string{"ration.db", "ration.db.lock"} {
					if err := os.Chmod(filepath.Join(copied, path), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				a, b := startWorker(t, url, root), startWorker(t, url, root)
				a.calls(100)
				b.calls(50)
				a.calls(10)
				switch when {
				case "closed":
					a.stop()
					b.stop()
				case "killed":
					a.kill()
					b.kill()
				}
				if err := lose(folder, copied); err != nil {
					t.Fatal(err)
				}
				if when != "open" {
					a, b = startWorker(t, url, root), startWorker(t, url, root)
				}
				if n := b.calls(10) + a.calls(10); n != 20 {
					t.Errorf("%d calls afterwards; want 20", n)
				}
				other := startWorker(t, url, root)
				for _, w := range []*worker{other, b, a} {
					w.calls(200)
				}
				for _, w := range []*worker{other, b, a} {
					w.stop()
				}
				if n := hits.Load(); n != 500 {
					t.Errorf("%d calls reached the upstream; want 500", n)
				}
			})
		}
	}
}

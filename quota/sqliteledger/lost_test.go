package sqliteledger_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestLostWhileOpen: a ledger never writes into a file that others no
// longer see.
func TestLostWhileOpen(t *testing.T) {
	day := charge("day", 10, hour)
	for name, test := range map[string]struct {
		lose func(path string) error
		want error
	}{
		"deleted":        {os.Remove, quota.ErrLedgerLost},
		"truncated":      {func(path string) error { return os.Truncate(path, 0) }, quota.ErrLedgerLost},
		"folder deleted": {func(path string) error { return os.RemoveAll(filepath.Dir(path)) }, quota.ErrLedgerLost},
		"replaced": {func(path string) error {
			if err := os.WriteFile(path+".new", []byte("another"), 0o600); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		}, quota.ErrLedgerConfig},
	} {
		t.Run(name, func(t *testing.T) {
			path := fresh(t)
			l := open(t, path, nil)
			receipt := spend(t, l, 1, day)
			if err := test.lose(path); err != nil {
				t.Fatal(err)
			}
			_, spent := l.Spend(t.Context(), one(1, day))
			_, read := l.Standings(t.Context(), "my-project", "", []*quota.Charge{day})
			for _, err := range []error{spent, read, l.Settle(t.Context(), receipt, 4)} {
				if !errors.Is(err, test.want) {
					t.Errorf("%v; want %v", err, test.want)
				}
			}
		})
	}
}

// TestSmallerFileCopiedOver: handles that have a file open when a smaller one
// is copied over it, in two halves, continue with the copy, and merge nothing
// of what was there.
func TestSmallerFileCopiedOver(t *testing.T) {
	path, day := fresh(t), charge("day", 10_000, hour)
	l := open(t, path, nil)
	spend(t, l, 1, day)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	copied, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l = open(t, path, nil)
	many := one(1, day)
	for i := range 4000 {
		r := many.Requests[0]
		r.Method = fmt.Sprint("method ", i)
		many.Requests = append(many.Requests, r)
	}
	if _, err := l.Spend(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	l.Close()
	handles := []*sqliteledger.Ledger{open(t, path, nil), open(t, path, nil), open(t, path, nil)}
	for _, l := range handles {
		spend(t, l, 1, day)
	}
	if err := os.WriteFile(path, copied[:len(copied)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	rest := make(chan error, 1)
	go func() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_, err = file.WriteAt(copied, 0)
			file.Close()
		}
		rest <- err
	}()
	handles[0].Close()
	for _, l := range handles[1:] {
		spend(t, l, 2, day)
	}
	if err := <-rest; err != nil {
		t.Fatal(err)
	}
	spend(t, handles[1], 4, day)
	for _, l := range append(handles[1:], open(t, path, nil)) {
		if n := used(t, l, day); n != 1+2+2+4 {
			t.Errorf("%d used; want 9", n)
		}
		if n, err := l.Number("SELECT COUNT(*) FROM pragma_integrity_check WHERE integrity_check != 'ok'"); n != 0 || err != nil {
			t.Errorf("%d defects, %v", n, err)
		}
	}
	if left, _ := filepath.Glob(path + ".aside"); left != nil {
		t.Error(left)
	}
}

// TestFileComesBack: a ledger whose file was moved away goes on once it is put
// back, with all of its entries, and so does another handle.
func TestFileComesBack(t *testing.T) {
	path, day := fresh(t), charge("day", 10, hour)
	l, other := open(t, path, nil), open(t, path, nil)
	spend(t, l, 1, day)
	spend(t, other, 2, day)
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Spend(t.Context(), one(1, day)); !errors.Is(err, quota.ErrLedgerLost) {
		t.Errorf("%v; want ErrLedgerLost", err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	spend(t, l, 4, day)
	spend(t, other, 1, day)
	if n := used(t, l, day); n != 8 {
		t.Errorf("%d used; want 8", n)
	}
}

// TestReplacedFileIsClosed: a file is replaced, and the only handle of the old
// one is closed before it notices. The next handle to open the new file merged
// the old -wal into it.
func TestReplacedFileIsClosed(t *testing.T) {
	replacements := map[string]func(path string, data []byte) error{
		"copied over": func(path string, data []byte) error { return os.WriteFile(path, data, 0o600) },
		"renamed": func(path string, data []byte) error {
			return errors.Join(os.WriteFile(path+".new", data, 0o600), os.Rename(path+".new", path))
		},
	}
	for name, replace := range replacements {
		t.Run(name, func(t *testing.T) {
			path, day := fresh(t), charge("day", 10_000, hour)
			l := open(t, path, nil)
			spend(t, l, 1, day)
			l.Close()
			copied, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			l = open(t, path, nil)
			many := one(1, day)
			for i := range 4000 {
				many.Requests = append(many.Requests, many.Requests[0])
				many.Requests[i].Method = fmt.Sprint("method ", i)
			}
			if _, err := l.Spend(t.Context(), many); err != nil {
				t.Fatal(err)
			}
			l.Close()
			l = open(t, path, nil)
			spend(t, l, 1, day)
			if err := errors.Join(replace(path, copied), l.Close()); err != nil {
				t.Fatal(err)
			}
			l = open(t, path, nil)
			if n := used(t, l, day); n != 1 {
				t.Errorf("%d units in use; want 1", n)
			}
			if n, err := l.Number("SELECT COUNT(*) FROM pragma_integrity_check WHERE integrity_check != 'ok'"); n != 0 || err != nil {
				t.Errorf("%d defects, %v; want a sound file", n, err)
			}
		})
	}
}

// TestDeletedWhileOpening: a file that is deleted and restored while others
// open it is lost to them, or there again. It is not misconfigured, which
// would end their commands for good.
func TestDeletedWhileOpening(t *testing.T) {
	if testing.Short() {
		t.Skip("deletes the file of a crowd forty times, 2 seconds")
	}
	t.Parallel()
	path, day := fresh(t), charge("day", 1_000_000, hour)
	spend(t, open(t, path, nil), 1, day)
	deleting := make(chan struct{})
	var crowd sync.WaitGroup
	for range 4 {
		crowd.Go(func() {
			for {
				select {
				case <-deleting:
					return
				default:
				}
				l, err := sqliteledger.Open(path, nil)
				if err == nil {
					_, err = l.Spend(t.Context(), one(1, day))
					l.Close()
				}
				if err != nil && !errors.Is(err, quota.ErrLedgerLost) {
					t.Error(err)
					return
				}
			}
		})
	}
	restorer := open(t, path, nil)
	for range 40 {
		for _, name := range []string{path, path + "-wal", path + "-shm"} {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Error(err)
			}
		}
		if _, err := restorer.Restore(t.Context(), &quota.Restoration{Account: "my-project", Lost: true}); err != nil && !errors.Is(err, quota.ErrLedgerLost) {
			t.Errorf("restore: %v", err)
		}
	}
	close(deleting)
	crowd.Wait()
}

// TestCutLogIsDown: a -wal that ends before what its -shm says was taken for a
// failing disk, and the ledger for down, which lets hosts use their allowances.
func TestCutLogIsDown(t *testing.T) {
	path, day := fresh(t), charge("day", 1000, hour)
	l, other := open(t, path, nil), open(t, path, nil)
	known := spend(t, l, 3, day)
	spend(t, other, 1, day)
	for range 300 { // until the file has grown, which its first page says
		spend(t, l, 1, day)
	}
	if err := os.Truncate(path+"-wal", 0); err != nil {
		t.Fatal(err)
	}
	late, err := sqliteledger.Open(path, nil)
	if err == nil {
		_, err = late.Spend(t.Context(), one(1, day))
		late.Close()
	}
	if errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("opened afterwards: %v", err)
	}
	batch := one(1, day)
	batch.Known = known
	if _, err := other.Spend(t.Context(), batch); !errors.Is(err, quota.ErrLedgerLost) {
		t.Errorf("%v; want that it is lost", err)
	}
}

// TestDamagedFileIsSetAside: a file that SQLite cannot read is left as it is
// for callers who know nothing of it, and is lost for one who does: the
// restoration sets it aside.
func TestDamagedFileIsSetAside(t *testing.T) {
	path, day := fresh(t), charge("day", 10, hour)
	l := open(t, path, nil)
	known := spend(t, l, 3, day)
	l.Close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, path, 4096, int(info.Size())-4096)
	damaged, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l, other := open(t, path, nil), open(t, path, nil)
	if _, err := l.Spend(t.Context(), one(1, day)); !errors.Is(err, quota.ErrLedgerConfig) {
		t.Errorf("%v; want a misconfigured ledger for a caller who knows nothing", err)
	}
	if now, _ := os.ReadFile(path); !bytes.Equal(now, damaged) {
		t.Error("the damaged file was changed")
	}
	knowing := one(1, day)
	knowing.Known = known
	if _, err := l.Spend(t.Context(), knowing); !errors.As(err, new(*quota.ForgottenError)) {
		t.Errorf("%v; want that the entries are lost", err)
	}
	entry := quota.Entry{ID: known.ID, At: known.At, Method: "m", Units: 3, Calls: 1}
	done, err := l.Restore(t.Context(), &quota.Restoration{Account: "my-project", Known: known, Lost: true, Entries: []quota.Entry{entry}})
	if err != nil || done.Units != 3 {
		t.Fatalf("%+v, %v; want 3 units restored", done, err)
	}
	if aside, err := os.ReadFile(path + ".damaged"); !bytes.Equal(aside, damaged) {
		t.Errorf("the damaged file was not set aside as it was: %v", err)
	}
	for _, l := range []*sqliteledger.Ledger{l, other, open(t, path, nil)} {
		if n := used(t, l, day); n != 3 {
			t.Errorf("%d used; want 3", n)
		}
		l.Close()
	}
	overwrite(t, path, 4096, int(info.Size())-4096)
	if _, err := open(t, path, nil).Restore(t.Context(), &quota.Restoration{Account: "my-project", Known: known, Lost: true}); err != nil {
		t.Error(err)
	}
	if aside, err := os.ReadFile(path + ".damaged"); !bytes.Equal(aside, damaged) || len(sqliteledger.Damaged(path)) != 2 {
		t.Errorf("%v kept, %v; want both, and the first unchanged", sqliteledger.Damaged(path), err)
	}
}

// TestDamagedStatementsSetTheFileAside: what SQLite can read and a ledger
// cannot is damaged too.
func TestDamagedStatementsSetTheFileAside(t *testing.T) {
	path, day := fresh(t), charge("day", 10, hour)
	l := open(t, path, nil)
	known := spend(t, l, 3, day)
	l.Number("UPDATE account_logs SET heard = '{x' WHERE 1")
	done, err := l.Restore(t.Context(), &quota.Restoration{Account: "my-project", Known: known, Entries: []quota.Entry{{ID: known.ID, At: known.At, Method: "m", Units: 3, Calls: 1}}})
	if err != nil || done.Units != 3 || used(t, l, day) != 3 {
		t.Errorf("%+v, %v; want 3 units restored", done, err)
	}
	if _, err := os.Stat(path + ".damaged"); err != nil {
		t.Error(err)
	}
}

// TestFileWithoutTables: a file whose creation was cut short, and that was
// copied back, is as empty as one without content.
func TestFileWithoutTables(t *testing.T) {
	path, day := fresh(t), charge("day", 10, hour)
	l := open(t, path, nil)
	known := spend(t, l, 3, day)
	l.Close()
	empty := filepath.Join(t.TempDir(), "empty.db")
	db, err := sql.Open("sqlite", empty)
	if err == nil {
		_, err = db.Exec("PRAGMA journal_mode = WAL")
	}
	if err == nil {
		err = db.Close()
	}
	content, readErr := os.ReadFile(empty)
	if err := errors.Join(err, readErr, os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	if len(content) == 0 {
		t.Fatal("SQLite has written no header")
	}
	l = open(t, path, nil)
	done, err := l.Restore(t.Context(), &quota.Restoration{Account: "my-project", Known: known, Lost: true, Entries: []quota.Entry{{ID: known.ID, At: known.At, Method: "m", Units: 3, Calls: 1}}})
	if err != nil || done.Units != 3 || used(t, l, day) != 3 {
		t.Errorf("%+v, %v; want 3 units restored", done, err)
	}
}

// TestDamagedFilesOutOfSight: doctor looked for one damaged file after the
// other without an end, where its user may not enter the ledger's folder.
func TestDamagedFilesOutOfSight(t *testing.T) {
	notFolder := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notFolder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if kept := sqliteledger.Damaged(filepath.Join(notFolder, "ration.db")); len(kept) > 0 {
		t.Errorf("%v; want none", kept)
	}
}

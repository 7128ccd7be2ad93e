package sqliteledger_test

import (
	"compress/gzip"
	"database/sql"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// batch returns an append that lands if the log is as known.
func batch(known engine.Known, n byte) *engine.Append {
	data := make([]byte, 40)
	data[0] = n
	return &engine.Append{Known: known, NewEpoch: engine.NewEpoch(), Count: 1, Data: data, Any: true}
}

// write appends n batches to a new log and returns what a caller then knows.
func write(t testing.TB, l engine.Ledger, account string, n int) (known engine.Known) {
	t.Helper()
	for i := range n {
		a := batch(known, byte(i+1))
		tail, err := l.Append(t.Context(), account, a)
		if err != nil || !tail.Appended {
			t.Fatalf("append %d: %+v, %v", i, tail, err)
		}
		known = engine.Known{Epoch: tail.Epoch, After: tail.Position, Tag: engine.Tag(a.Data)}
	}
	return known
}

// position returns the newest position of a log.
func position(t testing.TB, l engine.Ledger, account string) uint64 {
	t.Helper()
	tail, err := l.Read(t.Context(), account, &engine.Read{})
	if err != nil {
		t.Fatal(err)
	}
	return tail.Position
}

// TestFilesAreTheOwners checks every file that an open ledger has.
func TestFilesAreTheOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "a?b#%20", "ration.db")
	l := open(t, path, nil)
	write(t, l, "project", 1)
	got := map[string]os.FileMode{}
	want := map[string]os.FileMode{"..": 0o700, ".": 0o700, "ration.db": 0o600, "ration.db-wal": 0o600,
		"ration.db-shm": 0o600, "ration.db.lock": 0o600}
	for name := range want {
		info, err := os.Stat(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = info.Mode().Perm()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 2 {
		t.Errorf("%v, %v; want the file and its lock only", left, err)
	}
}

// TestMustExistCreatesNothing: commands that only read create no ledger.
func TestMustExistCreatesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "ration.db")
	look := &sqliteledger.Options{MustExist: true}
	_, err := sqliteledger.Open(path, look)
	if !errors.Is(err, sqliteledger.ErrNoLedger) || errors.Is(err, engine.ErrLedgerConfig) {
		t.Fatalf("%v; want ErrNoLedger", err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v; want none", err)
	}
	write(t, open(t, path, nil), "project", 3)
	if n := position(t, open(t, path, look), "project"); n != 3 {
		t.Errorf("position %d; want 3", n)
	}
}

// TestWrongFilesAreRefusedAndUnchanged: a file that is not a ledger is refused
// and left unchanged.
func TestWrongFilesAreRefusedAndUnchanged(t *testing.T) {
	foreign := func(statement string) func(testing.TB, string) {
		return func(t testing.TB, path string) {
			db := openSQL(t, path)
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
			db.Close()
		}
	}
	for _, test := range []struct {
		name, says string
		make       func(t testing.TB, path string)
	}{
		{"text", "move it away", func(t testing.TB,
			path string) {
			put(t, path, []byte(strings.Repeat("not a database\n", 1000)))
		}},
		{"a folder", "not a regular file", func(t testing.TB, path string) { os.Mkdir(path, 0o700) }},
		{"of another program", "another program", foreign("CREATE TABLE t (x); PRAGMA application_id = 7")},
		{"of a newer version", "upgrade",
			foreign("CREATE TABLE t (x); PRAGMA application_id = 1918989422; PRAGMA user_version = 99")},
		{"of an earlier version", "ration ledger copy",
			func(t testing.TB, path string) { put(t, path, firstRelease(t)) }},
		{"overwritten header", "move it away", func(t testing.TB, path string) { overwrite(t, path, 0, 100) }},
		{"overwritten pages", "move it away", func(t testing.TB, path string) { overwrite(t, path, 100, 20_000) }},
		{"mode 0666", "chmod", func(t testing.TB, path string) { put(t, path, nil); os.Chmod(path, 0o666) }},
		{"a second name", "hard links",
			func(t testing.TB, path string) { put(t, path, []byte("x")); os.Link(path, path+"2") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := fresh(t)
			test.make(t, path)
			before, _ := os.ReadFile(path)
			for range 2 {
				l, err := sqliteledger.Open(path, nil)
				if err == nil {
					_, err = l.Read(t.Context(), "project", &engine.Read{})
					l.Close()
				}
				if !errors.Is(err, engine.ErrLedgerConfig) || !strings.Contains(err.Error(), test.says) ||
					!strings.Contains(err.Error(), path) {
					t.Errorf("%v; want ErrLedgerConfig, the path and %q", err, test.says)
				}
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was changed")
			}
		})
	}
}

// TestALedgerBehindALinkIsRefused: SQLite would open the target of a link.
func TestALedgerBehindALinkIsRefused(t *testing.T) {
	for _, end := range []string{"", "-wal", "-shm", "-journal", ".lock"} {
		path, victim := fresh(t), filepath.Join(t.TempDir(), "victim")
		if err := errors.Join(os.WriteFile(victim, nil, 0o600), os.Symlink(victim, path+end)); err != nil {
			t.Fatal(err)
		}
		l, err := sqliteledger.Open(path, nil)
		if !errors.Is(err, engine.ErrLedgerConfig) || !errors.Is(err, files.ErrUnsafe) {
			t.Errorf("%s is a link: %v; want ErrLedgerConfig and ErrUnsafe", end, err)
		}
		if err == nil {
			l.Close()
		}
		if data, err := os.ReadFile(victim); err != nil || len(data) > 0 {
			t.Errorf("the file behind the link holds %q, %v", data, err)
		}
	}
}

// TestAFullDiskAppendsNothing: nothing is appended, the error says so, and
// reading still works.
func TestAFullDiskAppendsNothing(t *testing.T) {
	l := open(t, fresh(t), nil)
	known := write(t, l, "project", 1)
	if err := l.Pragma("max_page_count = 1"); err != nil { // no larger than it is now
		t.Fatal(err)
	}
	a := batch(known, 2)
	a.Data = append(a.Data, make([]byte, 100_000)...)
	if _, err := l.Append(t.Context(), "project", a); !errors.Is(err, engine.ErrLedgerDown) ||
		errors.Is(err, engine.ErrInDoubt) {
		t.Fatalf("%v; want ErrLedgerDown", err)
	}
	if n := position(t, l, "project"); n != 1 {
		t.Errorf("position %d; want 1", n)
	}
	if err := l.Pragma("max_page_count = 100000"); err != nil {
		t.Fatal(err)
	}
	if tail, err := l.Append(t.Context(), "project", a); err != nil || !tail.Appended {
		t.Errorf("%v; want it appended once there is room", err)
	}
}

// TestForeignWriterIsWaitedFor: the ledger waits for a program that locks the
// file and does not take turns, such as a shell, and then returns
// ErrLedgerBusy. Reads do not wait.
func TestForeignWriterIsWaitedFor(t *testing.T) {
	path := fresh(t)
	l := open(t, path, nil)
	known := write(t, l, "project", 1)
	db := openSQL(t, path)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	_, err := l.Append(t.Context(), "project", batch(known, 2))
	if !errors.Is(err, engine.ErrLedgerBusy) || errors.Is(err, engine.ErrLedgerDown) {
		t.Errorf("%v; want ErrLedgerBusy", err)
	}
	if n := position(t, l, "project"); n != 1 {
		t.Errorf("position %d; want 1", n)
	}
	done := make(chan error)
	go func() {
		_, err := l.Append(t.Context(), "project", batch(known, 2))
		done <- err
	}()
	if _, err := db.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("%v; want it appended once the other program lets go", err)
	}
}

func openSQL(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func put(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// overwrite makes a ledger and overwrites a part of its file.
func overwrite(t testing.TB, path string, from, n int) {
	t.Helper()
	l := open(t, path, nil)
	write(t, l, "project", 100)
	l.Close()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := from; i < min(from+n, len(data)); i++ {
		data[i] = 0xa5
	}
	put(t, path, data)
}

// firstRelease returns a ledger of the first release.
func firstRelease(t testing.TB) []byte {
	t.Helper()
	file, err := os.Open("testdata/first-release.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

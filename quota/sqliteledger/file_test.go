package sqliteledger_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

var hour = quota.Sliding(time.Hour)

func spend(t testing.TB, l quota.Ledger, units quota.Units, charges ...*quota.Charge) quota.Receipt {
	t.Helper()
	answers, err := l.Spend(t.Context(), one(units, charges...))
	if err != nil {
		t.Fatal(err)
	}
	if answers[0].Err != nil {
		t.Fatal(answers[0].Err)
	}
	return answers[0].Receipt
}

func used(t testing.TB, l quota.Ledger, charge *quota.Charge) quota.Units {
	t.Helper()
	s, err := l.Standings(t.Context(), "my-project", "", []*quota.Charge{charge})
	if err != nil {
		t.Fatal(err)
	}
	return s[0].Used
}

// TestFilesAreTheOwners checks every file that an open ledger has.
func TestFilesAreTheOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "a?b#%20", "ration.db")
	l := open(t, path, nil)
	spend(t, l, 1)
	got := map[string]os.FileMode{}
	for _, name := range []string{"..", ".", "ration.db", "ration.db-wal", "ration.db-shm", "ration.db.lock"} {
		info, err := os.Stat(filepath.Join(filepath.Dir(path), name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = info.Mode().Perm()
	}
	want := map[string]os.FileMode{"..": 0o700, ".": 0o700, "ration.db": 0o600, "ration.db-wal": 0o600, "ration.db-shm": 0o600, "ration.db.lock": 0o600}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if n, err := l.Number("PRAGMA synchronous"); n != 2 || err != nil {
		t.Errorf("synchronous is %d, %v; want 2, FULL", n, err)
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
	if _, err := sqliteledger.Open(path, look); !errors.Is(err, sqliteledger.ErrNoLedger) || errors.Is(err, quota.ErrLedgerConfig) {
		t.Fatalf("%v; want ErrNoLedger", err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v; want none made", err)
	}
	day := charge("day", 10, hour)
	spend(t, open(t, path, nil), 3, day)
	if n := used(t, open(t, path, look), day); n != 3 {
		t.Errorf("%d used; want 3", n)
	}
}

// TestWrongFiles: a file that is not a ledger is refused and left unchanged.
func TestWrongFiles(t *testing.T) {
	text := func(t *testing.T, path string) { write(t, path, strings.Repeat("not a database\n", 1000)) }
	foreign := func(statement string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			l := open(t, path, nil)
			if _, err := l.Number(statement); err != nil {
				t.Fatal(err)
			}
			l.Close()
			os.Remove(path + ".lock")
		}
	}
	for _, test := range []struct {
		name string
		make func(t *testing.T, path string)
		want error
		says string
	}{
		{"text", text, quota.ErrLedgerConfig, "name another file"},
		{"directory", func(t *testing.T, path string) { os.Mkdir(path, 0o700) }, quota.ErrLedgerConfig, "not a regular file"},
		{"below a file", func(t *testing.T, path string) { write(t, filepath.Dir(path), "x") }, quota.ErrLedgerConfig, "check the path"},
		{"of another program", foreign("PRAGMA application_id = 7"), quota.ErrLedgerConfig, "another program"},
		{"of a newer version", foreign("PRAGMA user_version = 99"), quota.ErrLedgerConfig, "upgrade"},
		{"first page overwritten", func(t *testing.T, path string) {
			foreign("SELECT 1")(t, path)
			overwrite(t, path, 0, 100)
		}, quota.ErrLedgerConfig, "restore"},
		{"deleted while it was closed", func(t *testing.T, path string) { open(t, path, nil).Close(); os.Remove(path) }, quota.ErrLedgerLost, "ration.db.lock"},
		{"emptied while it was closed", func(t *testing.T, path string) { open(t, path, nil).Close(); os.Truncate(path, 0) }, quota.ErrLedgerLost, "ration.db.lock"},
		{"empty", func(t *testing.T, path string) { write(t, path, "") }, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d", "ration.db")
			if test.name != "below a file" {
				os.Mkdir(filepath.Dir(path), 0o700)
			}
			test.make(t, path)
			before, readErr := os.ReadFile(path)
			for range 2 {
				l, err := sqliteledger.Open(path, nil)
				if err == nil { // a missing file may come back while the ledger is open
					_, err = l.Standings(t.Context(), "my-project", "", nil)
					l.Close()
				}
				if !errors.Is(err, test.want) || err != nil && !(strings.Contains(err.Error(), path) && strings.Contains(err.Error(), test.says)) {
					t.Fatalf("%v; want %v with %q", err, test.want, test.says)
				}
			}
			if after, err := os.ReadFile(path); test.want != nil && (string(after) != string(before) || missing(err) != missing(readErr)) {
				t.Error("the file was changed")
			}
		})
	}
}

// TestCorruptInTheMiddle overwrites the pages after the header.
func TestCorruptInTheMiddle(t *testing.T) {
	path, day := fresh(t), charge("day", 10, hour)
	l := open(t, path, nil)
	spend(t, l, 1, day)
	l.Close()
	overwrite(t, path, 4096, 100)
	l = open(t, path, nil)
	if _, err := l.Spend(t.Context(), one(1, day)); !errors.Is(err, quota.ErrLedgerConfig) {
		t.Errorf("%v; want ErrLedgerConfig", err)
	}
}

// TestDiskFull: nothing is written, the error says so, and reading still works.
func TestDiskFull(t *testing.T) {
	l, day := open(t, fresh(t), nil), charge("day", 1000, hour)
	spend(t, l, 1, day)
	if err := l.Pragma("max_page_count = 1"); err != nil { // no larger than it is now
		t.Fatal(err)
	}
	granted := quota.Units(1)
	for {
		answers, err := l.Spend(t.Context(), one(1, day))
		if err != nil {
			if !errors.Is(err, quota.ErrLedgerDown) || errors.Is(err, quota.ErrInDoubt) {
				t.Fatalf("%v; want ErrLedgerDown", err)
			}
			break
		}
		if answers[0].Err != nil {
			t.Fatal("never full")
		}
		granted++
	}
	if n := used(t, l, day); n != granted {
		t.Errorf("%d used after %d were granted", n, granted)
	}
	if err := l.Pragma("max_page_count = 100000"); err != nil {
		t.Fatal(err)
	}
	spend(t, l, 1, day)
}

// TestForeignWriter: the ledger waits for a program that locks the file without
// the lock file, such as a shell, and then returns ErrLedgerBusy, for which no
// allowance is used.
func TestForeignWriter(t *testing.T) {
	if testing.Short() {
		t.Skip("waits a second for a lock")
	}
	path, day := fresh(t), charge("day", 1000, hour)
	l := open(t, path, nil)
	receipt := spend(t, l, 1, day)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Spend(t.Context(), one(1, day)); !errors.Is(err, quota.ErrLedgerBusy) || errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("%v; want ErrLedgerBusy", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := l.Refund(ctx, receipt); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want the context's error", err)
	}
	if n := used(t, l, day); n != 1 {
		t.Errorf("%d used; want 1", n)
	}
	done := make(chan error)
	go func() {
		_, err := l.Spend(t.Context(), one(1, day))
		done <- err
	}()
	if _, err := db.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("%v; want a spend once it let go", err)
	}
}

// TestResentAcrossReopen: the file stores what a client was granted.
func TestResentAcrossReopen(t *testing.T) {
	path, day := fresh(t), charge("day", 100, hour)
	batch := one(60, day)
	batch.Requests = append(batch.Requests, batch.Requests[0], one(40, day).Requests[0]) // granted, refused, granted
	batch.Client, batch.Seq = quota.NewClient(), 1<<40
	var first []quota.Receipt
	for range 3 {
		l := open(t, path, nil)
		answers, err := l.Spend(t.Context(), batch)
		if err != nil || answers[0].Err != nil || !errors.Is(answers[1].Err, quota.ErrRefused) || answers[2].Err != nil {
			t.Fatalf("%+v, %v; want a grant, a refusal, a grant", answers, err)
		}
		got := []quota.Receipt{answers[0].Receipt, answers[2].Receipt}
		if first == nil {
			first = got
		}
		if diff := cmp.Diff(first, got); diff != "" {
			t.Error(diff)
		}
		if n := used(t, l, day); n != 100 {
			t.Errorf("%d used; want 100", n)
		}
		l.Close()
	}
}

// TestTwoConfigsOnOneFile: each has its own limits, on what both
// spend together.
func TestTwoConfigsOnOneFile(t *testing.T) {
	path := fresh(t)
	old, now := open(t, path, nil), open(t, path, nil)
	strict, wide := charge("day", 100, quota.Sliding(time.Minute)), charge("day", 10_000, quota.Sliding(24*time.Hour))
	search := charge("search", 150, hour, "videos.list")
	spend(t, old, 60, strict)
	spend(t, now, 80, wide, search)
	for _, ask := range []struct {
		ledger *sqliteledger.Ledger
		charge *quota.Charge
		want   bool
	}{{old, strict, false}, {now, wide, true}, {old, search, false}} {
		answers, err := ask.ledger.Spend(t.Context(), one(11, ask.charge))
		if err != nil || (answers[0].Err == nil) != ask.want {
			t.Errorf("%s: %v, %v; want granted %t", ask.charge.Budget, answers, err, ask.want)
		}
	}
	if n := used(t, old, wide); n != 151 {
		t.Errorf("%d used; want 151", n)
	}
}

func missing(err error) bool { return errors.Is(err, os.ErrNotExist) }

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// overwrite overwrites the end of each page from an offset on, or the
// bytes there.
func overwrite(t *testing.T, path string, offset int64, n int) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for at := offset; at < info.Size(); at += 4096 {
		if _, err := file.WriteAt([]byte(fmt.Sprintf("%0*d", n, 0)), at); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConcurrentCreation: of many processes that open a missing file, one
// creates it, and none sees it incomplete.
func TestConcurrentCreation(t *testing.T) {
	if testing.Short() {
		t.Skip("creates a file many times, 1 second")
	}
	for range 40 {
		path := fresh(t)
		results := make(chan error)
		for range 8 {
			go func() {
				l, err := sqliteledger.Open(path, &sqliteledger.Options{Sync: sqliteledger.Normal})
				if err == nil {
					err = l.Close()
				}
				results <- err
			}()
		}
		for range 8 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			return
		}
	}
}

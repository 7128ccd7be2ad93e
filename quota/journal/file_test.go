package journal_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/filelock"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// file returns the one file of records in dir.
func file(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	if err != nil || len(found) != 1 {
		t.Fatalf("files %v, %v; want one", found, err)
	}
	return found[0]
}

// lockFile returns the path of the one account's lock in dir.
func lockFile(t *testing.T, dir string) string {
	t.Helper()
	hash, _, _ := strings.Cut(filepath.Base(file(t, dir)), "-")
	return filepath.Join(dir, hash+".lock")
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFilesArePrivate: looking creates nothing, and what is created can be read
// by its owner only.
func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "journal")
	l := journal.New(failing(errDown), dir, allow(50))
	unrecorded(t, l, 0)
	if _, err := os.Stat(dir); err == nil {
		t.Fatal("looking created the folder")
	}
	grant(t, l, 50)
	for path, want := range map[string]os.FileMode{dir: 0o700, file(t, dir): 0o600, lockFile(t, dir): 0o600} {
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTornRecordLosesOthers: a record that a killed writer or a power failure
// left, cut at any byte, affects no other record.
func TestTornRecordLosesOthers(t *testing.T) {
	dir := t.TempDir()
	grant(t, journal.New(failing(errDown), dir, allow(3)), 3)
	path := file(t, dir)
	whole := read(t, path)
	last := len(whole) / 3 * 2
	for cut := last; cut <= len(whole); cut++ {
		for _, garbage := range [][]byte{nil, make([]byte, 300), bytes.Repeat([]byte{0xA7}, 10)} {
			torn := append(bytes.Clone(whole[:cut]), garbage...)
			write(t, path, torn)
			want := quota.Units(2)
			if bytes.HasPrefix(torn, whole) { // the garbage may be what was cut off
				want = 3
			}
			l := journal.New(failing(errDown), dir, allow(5))
			unrecorded(t, l, want)
			grant(t, l, 5-int(want))
			unrecorded(t, l, 5)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			unrecorded(t, journal.New(failing(errDown), dir, nil), 5)
		}
	}
}

// A call that cannot be counted is refused with both errors, the ledger's and
// the file's.
func TestUnwritableFileRefuses(t *testing.T) {
	path := func(t *testing.T, dir string) string {
		grant(t, journal.New(failing(errDown), dir, allow(2)), 2)
		return file(t, dir)
	}
	tests := []struct {
		name  string
		spoil func(t *testing.T, dir string) (newDir string)
	}{
		{"the folder is a file", func(t *testing.T, dir string) string {
			dir = filepath.Join(dir, "state")
			write(t, dir, nil)
			return dir
		}},
		{"the file is a folder", func(t *testing.T, dir string) string {
			p := path(t, dir)
			if err := errors.Join(os.Remove(p), os.Mkdir(p, 0o700)); err != nil {
				t.Fatal(err)
			}
			return dir
		}},
		{"the file is a link", func(t *testing.T, dir string) string {
			p := path(t, dir)
			if err := errors.Join(os.Rename(p, p+"2"), os.Symlink(p+"2", p)); err != nil {
				t.Fatal(err)
			}
			return dir
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := test.spoil(t, t.TempDir())
			l := journal.New(failing(errDown), dir, allow(50))
			_, err := spend(t.Context(), l, "m", 1)
			if err == nil || !strings.Contains(err.Error(), dir) {
				t.Fatalf("got %v; want it refused, with the path", err)
			}
		})
	}
}

// A process that stops while it holds the lock delays the others by a second,
// or until the caller's deadline. A deleted lock file is created again, and
// both sides find the new one.
func TestLockHeldAndDeleted(t *testing.T) {
	dir := t.TempDir()
	l := journal.New(failing(errDown), dir, allow(5))
	grant1 := func() {
		t.Helper()
		if _, err := spend(t.Context(), l, "m", 1); err != nil {
			t.Fatal(err)
		}
	}
	grant1()
	held, err := filelock.Open(lockFile(t, dir))
	if err != nil || held.Lock(t.Context()) != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := spend(ctx, l, "m", 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("with a deadline: %v", err)
	}
	began := time.Now()
	if _, err := spend(t.Context(), l, "m", 1); !errors.Is(err, quota.ErrLedgerDown) || time.Since(began) > 5*time.Second {
		t.Fatalf("after %s: %v", time.Since(began), err)
	}
	if err := os.Remove(lockFile(t, dir)); err != nil {
		t.Fatal(err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	grant1()
	grant(t, journal.New(failing(errDown), dir, allow(5)), 3)
	unrecorded(t, l, 5)
}

// A process that has the deleted lock file open, or waits for it, cannot write
// while another one holds the new file.
func TestDeletedLockFileExcludesToo(t *testing.T) {
	dir := t.TempDir()
	l := journal.New(failing(errDown), dir, allow(50))
	grant1 := func(l *journal.Ledger) {
		t.Helper()
		if _, err := spend(t.Context(), l, "m", 1); err != nil {
			t.Fatal(err)
		}
	}
	locked := func() *filelock.Lock {
		t.Helper()
		lock, err := filelock.Open(lockFile(t, dir))
		if err != nil || lock.Lock(t.Context()) != nil {
			t.Fatal(err)
		}
		return lock
	}
	remove := func() {
		t.Helper()
		if err := os.Remove(lockFile(t, dir)); err != nil {
			t.Fatal(err)
		}
	}
	grant1(l) // it keeps the lock file open
	remove()
	other := locked()
	shutOut(t, l, func() {})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	grant1(l)

	remove()
	grant1(l)
	if _, err := os.Stat(lockFile(t, dir)); err != nil {
		t.Errorf("it was granted under a lock that no other process can find: %v", err)
	}

	before := locked() // l waits for this one
	var after *filelock.Lock
	shutOut(t, l, func() {
		remove()
		after = locked()
		if err := before.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := after.Close(); err != nil {
		t.Fatal(err)
	}
	grant1(l)
	unrecorded(t, l, 4)
}

// TestOldRecordsLeave: a file goes when its records are older than any window,
// and a day, which a clock that ran ahead may have to step back.
func TestOldRecordsLeave(t *testing.T) {
	clock, dir := &ledgertest.Clock{}, t.TempDir()
	l := journal.New(memledger.Open(&memledger.Options{Now: clock.Now}), dir, &journal.Options{Now: clock.Now})
	files := func() int {
		found, err := filepath.Glob(filepath.Join(dir, "*.journal"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	for hour, want := range map[int]int{0: 1} {
		clock.Set(noon.Add(time.Duration(hour) * time.Hour))
		if _, err := spend(t.Context(), l, "m", 1); err != nil || files() != want {
			t.Fatalf("%v, %d files", err, files())
		}
	}
	clock.Set(noon.Add(48 * time.Hour))
	if _, err := spend(t.Context(), l, "m", 1); err != nil || files() != 2 {
		t.Fatalf("%v, %d files after two days; want both", err, files())
	}
	clock.Set(noon.Add(80 * time.Hour))
	if _, err := spend(t.Context(), l, "m", 1); err != nil || files() != 2 {
		t.Fatalf("%v, %d files after 80 h; want those of the last 52 h", err, files())
	}
}

// Names that need escaping have distinct files inside the folder.
func TestAccountsHaveTheirOwnFiles(t *testing.T) {
	dir := t.TempDir()
	l := journal.New(failing(errDown), dir, allow(2))
	names := []string{"a", "A", "../a", "a/b", "nul\x00", "\xff", "\xfe", strings.Repeat("x", 256)}
	for round, want := range []bool{true, true, false} {
		for _, name := range names {
			answers, err := l.Spend(t.Context(), &quota.Batch{Account: name, Requests: []quota.Request{{Method: "m", Units: 1}}})
			if err != nil || (answers[0].Err == nil) != want {
				t.Fatalf("round %d, %q: %v, %v", round, name, answers, err)
			}
		}
	}
	found, err := os.ReadDir(dir)
	if err != nil || len(found) != 4*len(names) {
		t.Fatal(fmt.Sprint(found), err)
	}
}

// shutOut checks that a call waits for the lock of another process until its
// context ends.
func shutOut(t *testing.T, l *journal.Ledger, meanwhile func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	refused := make(chan error)
	go func() {
		_, err := spend(ctx, l, "m", 1)
		refused <- err
	}()
	meanwhile()
	if err := <-refused; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v; want it to wait for the other process", err)
	}
}

// TestNewerJournalIsReadInPart: a record that this version does not know, or
// with more than it reads, may say that a call was settled, or restored.
// Nothing is granted beside it, with the ledger down or up.
func TestNewerJournalIsReadInPart(t *testing.T) {
	for name, body := range map[string][]byte{"another kind": append([]byte{'z'}, make([]byte, 30)...), "another form": {'g', 1, 2}} {
		dir, inner := t.TempDir(), failing(errDown)
		grant(t, journal.New(inner, dir, allow(1)), 1)
		path := file(t, dir)
		record := append([]byte{0xA7, byte(len(body)), 0}, body...)
		record = binary.LittleEndian.AppendUint32(record, crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
		write(t, path, append(read(t, path), record...))
		var reported []error
		o := allow(3)
		o.Report = func(err error) { reported = append(reported, err) }
		l := journal.New(inner, dir, o)
		if _, err := l.Unrecorded(account); err == nil || !strings.Contains(err.Error(), "written by a newer version of ration") {
			t.Errorf("%s: %v; want that it is newer", name, err)
		}
		if _, err := spend(t.Context(), l, "m", 1); err == nil {
			t.Errorf("%s: granted by a journal that was read in part", name)
		}
		_ = l.Close()
		l = journal.New(memledger.Open(nil), dir, o)
		if _, err := spend(t.Context(), l, "m", 1); !errors.Is(err, quota.ErrLedgerConfig) || !errors.Is(l.Check(account), quota.ErrLedgerConfig) {
			t.Errorf("%s: %v with the ledger up; want ErrLedgerConfig", name, err)
		}
		if len(reported) > 0 {
			t.Errorf("%s: reported %v; want only the error", name, reported)
		}
	}
}

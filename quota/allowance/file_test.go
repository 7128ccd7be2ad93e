package allowance_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/allowance"
	"github.com/ration-dev/ration/quota/internal/filelock"
	"github.com/ration-dev/ration/quota/ledgertest"
)

// file returns the one file of lines in dir.
func file(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("files %v, %v; want one", found, err)
	}
	return found[0]
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

// The file has everything that the ledger would have recorded, and is private.
func TestFileFormat(t *testing.T) {
	clock, dir := &ledgertest.Clock{}, filepath.Join(t.TempDir(), "state", "allowance")
	clock.Set(noon)
	o := allow(50)
	o.Now = clock.Now
	l := allowance.New(failing(errDown), dir, o)
	if got, err := l.Unrecorded(account); got != 0 || err != nil {
		t.Fatalf("nothing there: %d, %v", got, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Fatal("to look made the folder")
	}
	batch := &quota.Batch{Account: account, Key: "k", Client: 0xabc, Seq: 7, Requests: []quota.Request{
		{Method: "m", Units: 3, Caller: quota.Caller{Lane: "cron", Job: "trending", Region: "US"}}, {Method: "n", Units: 1}}}
	answers, err := l.Spend(t.Context(), batch)
	if err != nil || l.Settle(t.Context(), answers[0].Receipt, 2) != nil || l.Refund(t.Context(), answers[1].Receipt) != nil {
		t.Fatal(err)
	}
	want := `{"at":"2026-11-20T12:00:00Z","id":"000000000abc-7","account":"my-project","key":"k","method":"m","lane":"cron","job":"trending","region":"US","units":3}
{"at":"2026-11-20T12:00:00.000001Z","id":"000000000abc-8","account":"my-project","key":"k","method":"n","units":1}
{"at":"2026-11-20T12:00:00Z","id":"000000000abc-7","op":"settle","account":"my-project","key":"k","units":2}
{"at":"2026-11-20T12:00:00.000001Z","id":"000000000abc-8","op":"refund","account":"my-project","key":"k","units":0}
`
	if got := string(read(t, file(t, dir))); got != want {
		t.Fatalf("the file is\n%swant\n%s", got, want)
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, file(t, dir): 0o600, file(t, dir) + ".lock": 0o600} {
		if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// A line that a killed writer left, cut at any byte, affects no other line.
func TestTornLine(t *testing.T) {
	dir := t.TempDir()
	grant(t, allowance.New(failing(errDown), dir, allow(3)), 3)
	path := file(t, dir)
	whole := read(t, path)
	last := bytes.LastIndexByte(whole[:len(whole)-1], '\n') + 1
	for cut := last; cut <= len(whole); cut++ {
		write(t, path, whole[:cut])
		want := quota.Units(2)
		if cut >= len(whole)-1 { // all of the line, maybe without its newline
			want = 3
		}
		l := allowance.New(failing(errDown), dir, allow(5))
		unrecorded(t, l, want)
		grant(t, l, 5-int(want))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		unrecorded(t, l, 5)
		if lines := bytes.Count(read(t, path), []byte("\n")); lines != 5 {
			t.Fatalf("cut at %d: %d lines; want 5", cut, lines)
		}
	}
	write(t, path, append(bytes.Clone(whole), make([]byte, 300)...)) // what a power cut may leave
	grant(t, allowance.New(failing(errDown), dir, allow(5)), 2)
}

// A call that cannot be counted is refused with both errors, the ledger's and the
// file's.
func TestUnwritableFileRefuses(t *testing.T) {
	path := func(t *testing.T, dir string) string {
		grant(t, allowance.New(failing(errDown), dir, allow(2)), 2)
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
		{"a damaged line", func(t *testing.T, dir string) string {
			p := path(t, dir)
			write(t, p, bytes.Replace(read(t, p), []byte(`"units":1`), []byte(`"units":-1`), 1))
			return dir
		}},
		{"a line of a later version", func(t *testing.T, dir string) string {
			p := path(t, dir)
			write(t, p, append(bytes.Replace(read(t, p), []byte(`"account"`), []byte(`"op":"new","account"`), 1), "{"...))
			return dir
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := test.spoil(t, t.TempDir())
			l := allowance.New(failing(errDown), dir, allow(50))
			_, err := spend(t.Context(), l, "m", 1)
			if !errors.Is(err, quota.ErrLedgerDown) || !strings.Contains(err.Error(), "cannot be counted") || !strings.Contains(err.Error(), dir) {
				t.Fatalf("got %v; want it refused, with the path", err)
			}
		})
	}
}

// A process that stops while it holds the lock delays the others by a second, or
// until the caller's deadline. A deleted lock file is created again, and both
// sides find the new one.
func TestLockHeldAndDeleted(t *testing.T) {
	dir := t.TempDir()
	l := allowance.New(failing(errDown), dir, allow(5))
	grant1 := func() {
		t.Helper()
		if _, err := spend(t.Context(), l, "m", 1); err != nil {
			t.Fatal(err)
		}
	}
	grant1()
	held, err := filelock.Open(file(t, dir) + ".lock")
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
	if err := os.Remove(file(t, dir) + ".lock"); err != nil {
		t.Fatal(err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	grant1()
	grant(t, allowance.New(failing(errDown), dir, allow(5)), 3)
	unrecorded(t, l, 5)
}

// A process that has the deleted lock file open, or waits for it, cannot write
// while another one holds the new file.
func TestDeletedLockFileExcludesToo(t *testing.T) {
	dir := t.TempDir()
	l := allowance.New(failing(errDown), dir, allow(50))
	grant1 := func(l *allowance.Ledger) {
		t.Helper()
		if _, err := spend(t.Context(), l, "m", 1); err != nil {
			t.Fatal(err)
		}
	}
	shutOut := func(l *allowance.Ledger, meanwhile func()) {
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
	locked := func() *filelock.Lock {
		t.Helper()
		lock, err := filelock.Open(file(t, dir) + ".lock")
		if err != nil || lock.Lock(t.Context()) != nil {
			t.Fatal(err)
		}
		return lock
	}
	remove := func() {
		t.Helper()
		if err := os.Remove(file(t, dir) + ".lock"); err != nil {
			t.Fatal(err)
		}
	}
	grant1(l) // it keeps the lock file open
	remove()
	other := locked()
	shutOut(l, func() {})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	grant1(l)

	remove()
	grant1(l)
	if _, err := os.Stat(file(t, dir) + ".lock"); err != nil {
		t.Errorf("it was granted under a lock that no other process can find: %v", err)
	}

	before := locked() // l waits for this one
	var after *filelock.Lock
	shutOut(l, func() {
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

// Old lines leave the file when they are most of it, together with their settles
// and refunds, and no earlier than a day after they stopped counting.
func TestCompaction(t *testing.T) {
	clock, dir := &ledgertest.Clock{}, t.TempDir()
	o := allow(1000)
	o.Now = clock.Now
	l := allowance.New(failing(errDown), dir, o)
	at := func(hours int, calls int) (last quota.Receipt) {
		clock.Set(noon.Add(time.Duration(hours) * time.Hour))
		for range calls {
			receipt, err := spend(t.Context(), l, "m", 1)
			if err != nil {
				t.Fatal(err)
			}
			last = receipt
		}
		return last
	}
	lines := func() int { return bytes.Count(read(t, file(t, dir)), []byte("\n")) }
	old := at(0, 100)
	young := at(10, 20)
	if err := errors.Join(l.Settle(t.Context(), old, 3), l.Settle(t.Context(), young, 5)); err != nil {
		t.Fatal(err)
	}
	if at(47, 1); lines() != 123 {
		t.Fatalf("%d lines after 47 h; want all 123", lines())
	}
	write(t, file(t, dir)+".tmp", []byte("left by a killed process"))
	if at(49, 1); lines() != 20+1+2 {
		t.Fatalf("%d lines after 49 h; want 23", lines())
	}
	clock.Set(noon.Add(11 * time.Hour)) // a clock that ran ahead, and was corrected
	unrecorded(t, l, 20+4+2)
	if err := l.Refund(t.Context(), old); err != nil || lines() != 23 {
		t.Fatalf("a call that has left: %v, %d lines", err, lines())
	}
}

// Names that need escaping have distinct files inside the folder.
func TestAccountsHaveTheirOwnFiles(t *testing.T) {
	dir := t.TempDir()
	l := allowance.New(failing(errDown), dir, allow(2))
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
	if err != nil || len(found) != 2*len(names) {
		t.Fatal(fmt.Sprint(found), err)
	}
}

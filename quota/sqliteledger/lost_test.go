package sqliteledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestLostFilesAreReplacedByWhatIsThere: processes that have the file open when
// it is deleted or replaced go on with what is there now, all with the same.
func TestLostFilesAreReplacedByWhatIsThere(t *testing.T) {
	older := fresh(t)
	l := open(t, older, nil)
	write(t, l, "older", 3)
	l.Close()
	remove := func(t testing.TB, pattern string) {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		for _, name := range names {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		name            string
		lose            func(t testing.TB, path string)
		positions       [2]uint64 // of the logs "project" and "older" afterwards
		appendsDiverged bool
	}{
		{"deleted", func(t testing.TB, path string) { os.Remove(path) }, [2]uint64{0, 0}, true},
		{"all deleted", func(t testing.TB, path string) { remove(t, path+"*") }, [2]uint64{0, 0}, true},
		{"folder deleted", func(t testing.TB, path string) { os.RemoveAll(filepath.Dir(path)) }, [2]uint64{0, 0}, true},
		{"emptied", func(t testing.TB, path string) { os.Truncate(path, 0) }, [2]uint64{0, 0}, true},
		{"replaced", func(t testing.TB, path string) {
			copyTo(t, older, path+".copy")
			if err := os.Rename(path+".copy", path); err != nil {
				t.Fatal(err)
			}
		}, [2]uint64{0, 3}, true},
		{"moved away and back", func(t testing.TB, path string) {
			os.Rename(path, path+".away")
			os.Rename(path+".away", path)
		}, [2]uint64{5, 0}, false},
		{"write-ahead log deleted", func(t testing.TB, path string) { os.Remove(path + "-wal") }, [2]uint64{5, 0},
			false},
		{"shared memory deleted", func(t testing.TB, path string) { os.Remove(path + "-shm") }, [2]uint64{5, 0}, false},
	} {
		t.Run(test.name, func(t *testing.T) { testLost(t, test.lose, test.positions, test.appendsDiverged) })
	}
}

// testLost lets two ledgers lose a file. Both then find the logs "project" and
// "older" at some positions, and agree on what is appended later.
func testLost(t *testing.T, lose func(t testing.TB, path string), positions [2]uint64, diverges bool) {
	path := filepath.Join(t.TempDir(), "state", "ration.db")
	a, b := open(t, path, nil), open(t, path, nil)
	known := write(t, a, "project", 5)
	if n := position(t, b, "project"); n != 5 {
		t.Fatalf("position %d; want 5", n)
	}
	lose(t, path)
	for _, l := range []*sqliteledger.Ledger{a, b} {
		if got := [2]uint64{position(t, l, "project"), position(t, l, "older")}; got != positions {
			t.Fatalf("positions %v; want %v", got, positions)
		}
	}
	tail, err := a.Append(t.Context(), "project", batch(known, 6))
	if err != nil || tail.Diverged != diverges || tail.Appended == diverges {
		t.Fatalf("%+v, %v; want it diverged: %t", tail, err, diverges)
	}
	write(t, b, "new", 2)
	write(t, a, "newer", 3)
	c := open(t, path, nil)
	for _, l := range []*sqliteledger.Ledger{a, b, c} {
		if got := [2]uint64{position(t, l, "new"), position(t, l, "newer")}; got != [2]uint64{2, 3} {
			t.Fatalf("positions %v; want 2 and 3", got)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	d := open(t, path, nil)
	if got := [2]uint64{position(t, d, "new"), position(t, d, "newer")}; got != [2]uint64{2, 3} {
		t.Errorf("reopened, positions %v; want 2 and 3", got)
	}
}

// TestNothingIsAcknowledgedInADeletedFile: what is appended to a file that was
// deleted meanwhile is never acknowledged.
func TestNothingIsAcknowledgedInADeletedFile(t *testing.T) {
	path, lose := fresh(t), false
	now := func() time.Time { // within a transaction
		if lose {
			if err := os.Remove(path); err != nil {
				t.Error(err)
			}
			lose = false
		}
		return time.Now()
	}
	l := open(t, path, &sqliteledger.Options{Now: now})
	known := write(t, l, "project", 3)
	lose = true
	if tail, err := l.Append(t.Context(), "project", batch(known, 4)); !errors.Is(err, engine.ErrInDoubt) {
		t.Fatalf("%+v, %v; want ErrInDoubt", tail, err)
	}
	tail, err := l.Append(t.Context(), "project", batch(known, 4))
	if err != nil || !tail.Diverged || tail.Epoch != 0 {
		t.Errorf("%+v, %v; want that there is no log", tail, err)
	}
}

// TestAFileCopiedOverTheLedgerIsAnError: SQLite would take the -wal for that of
// the file that was copied over the ledger's.
func TestAFileCopiedOverTheLedgerIsAnError(t *testing.T) {
	path := fresh(t)
	l := open(t, path, nil)
	write(t, l, "project", 1)
	l.Close()
	copyTo(t, path, path+".copy")
	l = open(t, path, nil)
	known := engine.Known{}
	a := batch(known, 9)
	a.Data = append(a.Data, make([]byte, 1<<20)...)
	if _, err := l.Append(t.Context(), "large", a); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l = open(t, path, nil)
	write(t, l, "other", 1)
	copyTo(t, path+".copy", path)
	_, err := l.Append(t.Context(), "project", batch(known, 2))
	if !errors.Is(err, engine.ErrLedgerConfig) || !strings.Contains(err.Error(), "copied over it") {
		t.Errorf("%v; want ErrLedgerConfig", err)
	}
	l.Close()
}

// copyTo copies a file over another one.
func copyTo(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	put(t, to, data)
}

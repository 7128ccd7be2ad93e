package replica_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/replica"
)

// TestFilesThatNoWindowSeesAreDeleted: they are not loaded any more, and after
// eight days they are gone.
func TestFilesThatNoWindowSeesAreDeleted(t *testing.T) {
	f := newFixture(t)
	f.keep = 48 * time.Hour
	l := &replicaLog{epoch: 7}
	r := f.open()
	for day := range 9 {
		f.now = noon.Add(time.Duration(day) * 24 * time.Hour)
		l.add(int64(day))
		l.batches[day].At = f.now.UnixMicro()
		l.save(r, day, day+1)
	}
	if n := len(f.files()); n != 4 { // two days, the one in which they begin, and the one before
		t.Errorf("%d files are kept", n)
	}
	f.want(f.load(f.open()), "7/6=5 7/7=6 7/8=7 7/9=8")
	f.want(f.past(f.open(), noon), "1 2 3 4 5 6 7 8 9")
	f.want(f.past(f.open(), noon.Add(5*24*time.Hour)), "5 6 7 8 9") // clocks may differ by a day
	f.now = f.now.Add(2 * 24 * time.Hour)
	l.add(9)
	l.save(f.open(), 9, 10)
	f.want(f.past(f.open(), noon), "3 4 5 6 7 8 9 10")
	f.now = f.now.Add(30 * 24 * time.Hour)
	if err := f.open().Prune(); err != nil {
		t.Fatal(err)
	}
	if n := len(f.files()); n != 1 {
		t.Errorf("%d files are kept after a month", n)
	}
}

func TestARemovedFolderIsMadeAgain(t *testing.T) {
	f := newFixture(t)
	r := f.open()
	l := (&replicaLog{epoch: 7}).add(1, 2, 3)
	l.save(r, 0, 2)
	for _, path := range f.files() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	l.save(r, 2, 3)
	f.want(f.load(f.open()), "0/3=3")
	l.save(r, 0, 3)
	f.want(f.load(f.open()), "7/1=1 7/2=2 7/3=3")
}

func TestOnlyTheOwnerCanReadAndWrite(t *testing.T) {
	f := newFixture(t)
	(&replicaLog{epoch: 7}).add(1).save(f.open(), 0, 1)
	for path, want := range map[string]os.FileMode{f.folder: 0o700, f.files()[0]: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	for _, mode := range []os.FileMode{0o770, 0o707, 0o777} {
		if err := os.Chmod(f.folder, mode); err != nil {
			t.Fatal(err)
		}
		_, err := replica.Open(f.folder, nil)
		if mode == 0o770 && err == nil { // the group is the owner's own
			continue
		}
		if !errors.Is(err, files.ErrUnsafe) || !strings.Contains(err.Error(), "chmod go-w") {
			t.Errorf("a folder of mode %o: %v", mode, err)
		}
	}
}

func TestAFolderMayBeReachedByALink(t *testing.T) {
	f := newFixture(t)
	real, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	f.folder = filepath.Join(link, "replica")
	r := f.open()
	l := (&replicaLog{epoch: 7}).add(1, 2, 3)
	l.save(r, 0, 2)
	size := f.size()
	l.save(r, 0, 2)
	if f.size() != size {
		t.Error("batches that were there were written again")
	}
	l.save(r, 2, 3)
	f.want(f.load(r), "7/1=1 7/2=2 7/3=3")
}

func TestLinksAreNotFollowed(t *testing.T) {
	f := newFixture(t)
	l := (&replicaLog{epoch: 7}).add(1, 2)
	l.save(f.open(), 0, 1)
	path, target := f.files()[0], filepath.Join(t.TempDir(), "target")
	if err := os.Rename(path, target); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(target)
	r := f.open()
	l.save(r, 1, 2)
	f.want(f.load(r), "")
	if after, _ := os.ReadFile(target); len(after) != len(before) {
		t.Error("the target of a link was written")
	}
	if err := r.Err(); !errors.Is(err, files.ErrUnsafe) {
		t.Errorf("Err is %v", err)
	}
}

package jobs_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// TestAFullDiskLeavesTheDay: a catalogue on a full disk costs what a failing
// step costs, at most.
func TestAFullDiskLeavesTheDay(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=4m,mode=700"); err != nil {
		t.Skipf("cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	s := newScene(t, "  - {name: all, limit: 95000, window: 48h}\n", "[{search: {queries: [music]}}]",
		&youtubetest.Options{Limit: 95000}, "US", "GB")
	store, err := catalog.Open(filepath.Join(disk, "catalog.db"), &catalog.Options{Now: s.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s.Catalog = store
	for _, name := range []string{"US", "GB"} {
		lock, err := store.Lock("region " + name)
		if err != nil {
			t.Fatal(err)
		}
		lock.Unlock()
	}
	for _, free := range []int{64 << 10, 0} {
		fillDisk(t, disk, free)
		before := s.calls("search.list")
		s.cronDay(t)
		calls := s.calls("search.list") - before
		t.Logf("%d bytes free: %d searches", free, calls)
		if calls > 13 {
			t.Errorf("%d searches in a day with %d bytes free; want at most 13", calls, free)
		}
	}
}

// fillDisk fills a disk until only free bytes are left.
func fillDisk(t *testing.T, disk string, free int) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(disk, "fill"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := make([]byte, 4096)
	for {
		if _, err := f.Write(page); err != nil {
			break
		}
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(info.Size() - int64(free)); err != nil {
		t.Fatal(err)
	}
}

package catalog_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/files"
)

// TestLockRefusesLinks: a lock file's name may be there already,
// as a link to a file of the user's own.
func TestLockRefusesLinks(t *testing.T) {
	dir := t.TempDir()
	c, err := catalog.Open(filepath.Join(dir, "catalog.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	victim := filepath.Join(dir, "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600),
		os.Symlink(victim, filepath.Join(dir, "catalog.db.US.lock"))); err != nil {
		t.Fatal(err)
	}
	lock, err := c.Lock("US")
	if !errors.Is(err, catalog.ErrUnsafe) || !errors.Is(err, files.ErrUnsafe) {
		t.Errorf("%v; want ErrUnsafe", err)
	}
	if err == nil {
		lock.Unlock()
	}
	if data, err := os.ReadFile(victim); err != nil || string(data) != "precious" {
		t.Errorf("the file behind the link holds %q, %v", data, err)
	}
}

// TestACatalogueBehindALinkIsRefused: SQLite would open the file that a link
// leads to, and write the two beside it.
func TestACatalogueBehindALinkIsRefused(t *testing.T) {
	for _, name := range []string{"catalog.db", "catalog.db-wal", "catalog.db-shm"} {
		dir := t.TempDir()
		path, victim := filepath.Join(dir, "catalog.db"), filepath.Join(dir, "victim")
		if err := errors.Join(os.WriteFile(victim, nil, 0o600),
			os.Symlink(victim, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
		for _, open := range []func(string, *catalog.Options) (*catalog.Catalog, error){catalog.Open,
			catalog.OpenExisting} {
			if c, err := open(path, nil); !errors.Is(err, catalog.ErrUnsafe) {
				t.Errorf("%s is a link: %v; want ErrUnsafe", name, err)
				if err == nil {
					c.Close()
				}
			}
		}
		if data, err := os.ReadFile(victim); err != nil || len(data) > 0 {
			t.Errorf("the file behind the link %s holds %q, %v", name, data, err)
		}
	}
}

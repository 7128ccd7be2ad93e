package catalog

import (
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestLockedCatalogueIsBusy: a catalogue that another program keeps locked for
// longer than a command waits is busy, also to one that opens it meanwhile.
func TestLockedCatalogueIsBusy(t *testing.T) {
	defer func(d time.Duration) { busyTimeout = d }(busyTimeout)
	busyTimeout = 100 * time.Millisecond
	path := filepath.Join(t.TempDir(), "catalog.db")
	c, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other, err := sql.Open("sqlite", "file:"+path+"?_txlock=exclusive")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Prune(t.Context()); !errors.Is(err, ErrBusy) {
		t.Errorf("writing: %v; want ErrBusy", err)
	}
	if _, err := Open(path, nil); !errors.Is(err, ErrBusy) {
		t.Errorf("opening: %v; want ErrBusy", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Prune(t.Context()); err != nil {
		t.Errorf("once the other program has ended: %v", err)
	}
}

// TestOpenWaitsForAnotherProcessThatWrites: SQLite does not wait for a writer
// while it changes a new file to WAL, so eight processes that created a
// catalogue at once could fail because it was locked.
func TestOpenWaitsForAnotherProcessThatWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	if _, err := statFile(path, true); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	writing, opened, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		began := sync.OnceFunc(func() { close(writing) })
		for {
			if tx, err := db.Begin(); err == nil {
				began()
				_ = tx.Rollback()
			}
			select {
			case <-opened:
				return
			default:
			}
		}
	}()
	<-writing
	c, err := Open(path, nil)
	close(opened)
	<-ended
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

package catalog

import (
	"database/sql"
	"path/filepath"
	"sync"
	"testing"
)

// TestOpenedWhileAnotherProcessWrites: SQLite does not wait for a writer while it
// changes a new file to WAL, so eight processes that created a catalogue at once could
// fail because it was locked.
func TestOpenedWhileAnotherProcessWrites(t *testing.T) {
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

// Package sqlitestore keeps the counts of package inbound in an SQLite file,
// for all processes of one host.
//
// Each request is one immediate transaction, which reads and writes the windows
// of its client: 20 bytes for each request that an exact limit holds, so one of
// more than 1,000 is better an estimate. The file must be on a local disk. It
// may be deleted while no process has it open.
package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ration-dev/ration/quota/inbound"
)

// schema has a row for each limit of each client. Times are as in Request.
const schema = `
CREATE TABLE IF NOT EXISTS windows (key BLOB PRIMARY KEY, window BLOB NOT NULL, expires INTEGER NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS windows_expire ON windows (expires)`

// options are those of a connection. synchronous=NORMAL may lose the last
// requests in a power cut, and never damages the file.
const options = "mode=rw&_txlock=immediate&_dqs=0&_busy_timeout=60000&_journal_mode=WAL&_synchronous=NORMAL"

// Store implements inbound.Store. It is safe for concurrent use.
type Store struct {
	db                  *sql.DB
	read, write, expire *sql.Stmt
	counted             atomic.Uint64
}

// expireEach is at which of a process's requests expired windows are deleted:
// the first, and then each of this many.
const expireEach = 8

// Open opens the file at path, whose folder must exist. It creates a missing
// file for this user alone. It waits up to 10 seconds for other processes.
func Open(path string) (*Store, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600) // SQLite would use the umask
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("sqlitestore: %w", err)
	}
	name := url.URL{Scheme: "file", Path: "/" + strings.TrimPrefix(filepath.ToSlash(path), "/"), RawQuery: options}
	s := &Store{}
	db, err := sql.Open("sqlite", name.String())
	if err == nil {
		db.SetMaxOpenConns(1) // there is one writer at a time
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		s.db = db
		if err = retry(ctx, func() error { return s.prepare(ctx) }); err != nil {
			db.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: open %s: %w", path, err)
	}
	return s, nil
}

// prepare creates the tables and prepares what Count does, which takes half of
// its time otherwise.
func (s *Store) prepare(ctx context.Context) error {
	if _, err := s.db.ExecContext(ctx, schema); err != nil {
		return err
	}
	for stmt, text := range map[**sql.Stmt]string{
		&s.read:  "SELECT window FROM windows WHERE key = ?",
		&s.write: "REPLACE INTO windows VALUES (?,?,?)",
		&s.expire: `DELETE FROM windows WHERE key IN (SELECT key FROM windows
			WHERE expires <= ? ORDER BY expires LIMIT ?)`,
	} {
		var err error
		if *stmt, err = s.db.PrepareContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// retry repeats f while a process closes the file: SQLite does not wait for it.
func retry(ctx context.Context, f func() error) error {
	for {
		err := f()
		failed, ok := errors.AsType[*sqlite.Error](err)
		if !ok || failed.Code()&0xff != sqlite3.SQLITE_BUSY || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }

// Count implements inbound.Store. The time is this host's. Count waits for
// other processes until ctx ends.
func (s *Store) Count(ctx context.Context, r *inbound.Request) (*inbound.Answer, error) {
	var tx *sql.Tx
	err := retry(ctx, func() (err error) { tx, err = s.db.BeginTx(ctx, nil); return err })
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // a no-op after Commit
	windows := make([]*inbound.Window, len(r.Limits))
	for i := range windows {
		windows[i] = &inbound.Window{}
		text := []byte("{}")
		err := tx.Stmt(s.read).QueryRowContext(ctx, []byte(r.Key(i))).Scan(&text)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if err := json.Unmarshal(text, windows[i]); err != nil {
			return nil, err
		}
	}
	a := inbound.Decide(r, windows)
	if !a.Admitted {
		return a, nil
	}
	for i, w := range windows {
		text, _ := json.Marshal(w)                       // integers cannot fail
		until := a.At + 2*r.Limits[i].Per.Microseconds() // an estimate lasts two periods
		if _, err := tx.Stmt(s.write).ExecContext(ctx, []byte(r.Key(i)), text, until); err != nil {
			return nil, err
		}
	}
	if s.counted.Add(1)%expireEach == 1 {
		_, err = tx.Stmt(s.expire).ExecContext(ctx, a.At, 2*expireEach*len(windows)) // more than were added
	}
	if err == nil {
		err = tx.Commit()
	}
	return a, err
}

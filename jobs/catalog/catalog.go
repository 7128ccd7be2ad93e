// Package catalog keeps what was fetched: videos, their chart positions,
// channels and categories, and how far each pass has come, in one SQLite file
// that several processes share.
//
// A page and its checkpoint are committed together or not at all, so a run
// that dies goes on where it stopped. Nothing outlives the retention without a
// refresh.
package catalog

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the "sqlite" driver, FTS5 inside

	"github.com/ration-dev/ration/quota/privatefile"
)

// DefaultRetention is how long data is kept that is not refreshed: 30 calendar
// days, what the YouTube API Services Developer Policies allow for it.
const DefaultRetention = 30 * 24 * time.Hour

const (
	schemaVersion = 3
	applicationID = 0x72636174 // "rcat", so that another program's database is never taken for ours
	busyTimeout   = 30 * time.Second
)

//go:embed schema.sql
var schemaSQL string

//go:embed schema2.sql
var schema2SQL string

//go:embed schema3.sql
var schema3SQL string

//go:embed queries.sql
var queriesSQL string

// Options of a Catalog. Nil is the default.
type Options struct {
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Retention is how long rows are kept without a refresh; 0 is
	// DefaultRetention, negative keeps them for ever.
	Retention time.Duration
}

// Catalog is an open catalogue. It is safe for concurrent use, and several
// processes may have the same file open. Every error names the file where the
// file is the reason: see FileError.
type Catalog struct {
	path      string
	now       func() time.Time
	retention time.Duration
	db        *sql.DB
	file      fs.FileInfo // what was opened, to notice when the path means another file
	queries   map[string]*sql.Stmt
	turn      chan struct{} // held by the one writer of this process
	matches   int           // how many a search ranks: maxMatches
}

// Open opens the catalogue at path, for reading and writing, and creates it
// with mode 0600, in a folder with mode 0700, where there is none.
func Open(path string, o *Options) (*Catalog, error) { return open(path, o, true) }

// OpenExisting opens the catalogue at path and never creates or writes
// anything by itself: ErrNoCatalog where there is none.
func OpenExisting(path string, o *Options) (*Catalog, error) { return open(path, o, false) }

func open(path string, o *Options, create bool) (*Catalog, error) {
	c := &Catalog{path: path, now: time.Now, retention: DefaultRetention,
		turn: make(chan struct{}, 1), matches: maxMatches}
	if o != nil && o.Now != nil {
		c.now = o.Now
	}
	if o != nil && o.Retention != 0 {
		c.retention = o.Retention
	}
	if err := c.connect(create); err != nil {
		if c.db != nil {
			c.db.Close()
		}
		return nil, c.wrap("open", err)
	}
	return c, nil
}

// connect opens the file and checks that it is ours before anything changes it.
func (c *Catalog) connect(create bool) error {
	var err error
	if c.path, err = filepath.Abs(c.path); err != nil {
		return err
	}
	if c.file, err = statFile(c.path, create); err != nil {
		return err
	}
	if onNetworkFS(c.path) {
		return &FileError{Path: c.path, Reason: ErrNetworkFS}
	}
	if c.db, err = sql.Open("sqlite", dsn(c.path)); err != nil {
		return err
	}
	c.db.SetMaxOpenConns(4)
	c.db.SetMaxIdleConns(4)
	version, err := c.identify(c.db)
	switch {
	case err != nil:
	case create:
		err = c.create()
	case version == 0:
		err = fmt.Errorf("%s: %w", c.path, ErrNoCatalog)
	case version < schemaVersion:
		err = &FileError{Path: c.path, Reason: ErrOlder}
	}
	if err != nil {
		return err
	}
	return c.prepare()
}

// statFile finds the file, or creates it: SQLite would use the umask, and gives
// the -wal and -shm files beside it the mode of the first.
//
// SQLite opens the three by their paths, after they were checked: only this
// user, root and a trusted owner could replace them meanwhile.
func statFile(path string, create bool) (fs.FileInfo, error) {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return nil, &FileError{Path: path, Reason: ErrNotCatalog, Cause: errors.New("not a regular file")}
	}
	if err := privatefile.Check(path, path+"-wal", path+"-shm", path+"-journal"); err != nil {
		return nil, fileError(path, err)
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && create && !writable(path): // SQLite would open it for reading
		return nil, &FileError{Path: path, Reason: ErrUnwritable}
	case err == nil:
		return info, nil
	case !create && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", path, ErrNoCatalog)
	case !create || !errors.Is(err, fs.ErrNotExist):
		return nil, &FileError{Path: path, Reason: ErrUnwritable, Cause: err}
	}
	if err := privatefile.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, fileError(path, err)
	}
	f, err := privatefile.Open(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	defer f.Close()
	return f.Stat()
}

// dsn opens an existing file only (mode=rw), and has writers take the write
// lock when they begin: a deferred transaction that finds the lock taken fails
// at once, whatever the timeout. synchronous is FULL, since a page lost to a
// power cut is units spent again, and one fsync a call is nothing.
func dsn(path string) string {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p // C:/…
	}
	u := url.URL{Scheme: "file", Path: p, RawQuery: fmt.Sprintf(
		"mode=rw&_txlock=immediate&_dqs=0&_busy_timeout=%d&_synchronous=FULL", busyTimeout.Milliseconds())}
	return u.String()
}

type rowQuerier interface {
	QueryRow(query string, args ...any) *sql.Row
}

// identify returns the version of the catalogue that the file holds, 0 for an
// empty file.
func (c *Catalog) identify(q rowQuerier) (version int, err error) {
	var app, tables int
	err = q.QueryRow(`SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`).Scan(&app, &version, &tables)
	switch {
	case err != nil:
		return 0, err
	case app == 0 && version == 0 && tables == 0:
		return 0, nil
	case app != applicationID:
		return 0, &FileError{Path: c.path, Reason: ErrNotCatalog, Cause: errors.New("the database of another program")}
	case version > schemaVersion:
		return 0, &FileError{Path: c.path, Reason: ErrNewer,
			Cause: fmt.Errorf("schema %d, this one knows %d", version, schemaVersion)}
	}
	return version, nil
}

// create makes the schema in an empty file, or what an older one lacks. It takes the write lock in any
// case, which also tells now, not at the first page, that the file is read-only.
func (c *Catalog) create() error {
	if _, err := c.db.Exec("PRAGMA journal_mode = WAL"); err != nil {
		return err
	}
	tx, err := c.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	version, err := c.identify(tx) // another process may have been first
	if err != nil || version == schemaVersion {
		return err
	}
	schema := strings.Join([]string{schemaSQL, schema2SQL, schema3SQL}[version:], "")
	schema += fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, schemaVersion)
	if _, err := tx.Exec(schema); err != nil {
		return err
	}
	return tx.Commit()
}

// prepare prepares every query of queries.sql under its name. What follows a
// query's semicolon is cut off: the driver would take it for a second
// statement, and parse both again at each use (modernc.org/sqlite v1.61.1).
func (c *Catalog) prepare() error {
	c.queries = make(map[string]*sql.Stmt)
	for _, part := range strings.Split(queriesSQL, "-- name: ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		text, _, _ = strings.Cut(text, ";\n")
		stmt, err := c.db.Prepare(text)
		if err != nil {
			return fmt.Errorf("query %s: %w", name, err)
		}
		c.queries[name] = stmt
	}
	return nil
}

// Close closes the catalogue. Locks are released by themselves.
func (c *Catalog) Close() error { return c.wrap("close", c.db.Close()) }

// write runs fn in one transaction that holds the write lock from its start.
// Writers of one process take turns here, those of several in SQLite; both
// waits end with the context.
func (c *Catalog) write(ctx context.Context, fn func(*batch) error) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := c.checkFile(); err != nil {
		return err
	}
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	b := &batch{c: c, tx: tx, ctx: ctx, bound: make(map[string]*sql.Stmt)}
	if err := fn(b); err != nil {
		return err
	}
	return tx.Commit()
}

// checkFile notices a file that was deleted, replaced or emptied: an open
// handle would go on writing to the old one without an error.
func (c *Catalog) checkFile() error {
	info, err := os.Stat(c.path)
	if err == nil && info.Size() > 0 && os.SameFile(info, c.file) {
		return nil
	}
	return &FileError{Path: c.path, Reason: ErrReplaced, Cause: err}
}

// batch runs named queries within one transaction. Not for concurrent use.
type batch struct {
	c     *Catalog
	tx    *sql.Tx
	ctx   context.Context
	bound map[string]*sql.Stmt
}

func (b *batch) stmt(name string) *sql.Stmt {
	if b.bound[name] == nil {
		b.bound[name] = b.tx.StmtContext(b.ctx, b.c.queries[name])
	}
	return b.bound[name]
}

func (b *batch) exec(name string, args ...any) (sql.Result, error) {
	return b.stmt(name).ExecContext(b.ctx, args...)
}

func (b *batch) row(name string, args ...any) *sql.Row {
	return b.stmt(name).QueryRowContext(b.ctx, args...)
}

// millis stores an instant; the zero time is NULL.
func millis(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

func instant(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64).UTC()
}

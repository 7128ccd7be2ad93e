// Package catalog stores what was fetched: videos, their chart positions,
// channels and categories, and how far each pass has come. It is a single
// SQLite file that several processes may use at once.
//
// A page and its checkpoint are committed together, so a run resumes where the
// last one stopped or crashed. Rows that are not refreshed within the retention
// are deleted by Prune.
//
// The file also has the history: what was spent and refused on each day of the
// last 400, which outlives the ledger's log. Package internal/usage fills it
// in.
package catalog

import (
	"cmp"
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

	"github.com/ration-dev/ration/internal/files"
)

// DefaultRetention is how long rows are kept without a refresh: 30 days, the
// limit of the YouTube API Services Developer Policies.
const DefaultRetention = 30 * 24 * time.Hour

const (
	schemaVersion = 5
	applicationID = 0x72636174 // "rcat", identifies the file as a catalogue
	// between attempts to open: SQLite does not wait for writers when a file turns to WAL
	busyPause = 5 * time.Millisecond
)

// busyTimeout is how long a catalogue that another program has locked is waited
// for. Tests shorten it.
var busyTimeout = 30 * time.Second

// shareTimeout is how long Open waits for another member of the group to let it
// write to a file that is new.
const shareTimeout = time.Second

//go:embed schema.sql
var schemaSQL string

//go:embed schema2.sql
var schema2SQL string

//go:embed schema3.sql
var schema3SQL string

//go:embed schema4.sql
var schema4SQL string

//go:embed schema5.sql
var schema5SQL string

//go:embed queries.sql
var queriesSQL string

// Options are options for Open and OpenExisting. A nil *Options is the default.
type Options struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Host is the name of this host in the locks that it holds; it may be empty.
	Host string
	// Retention is how long rows are kept without a refresh; 0 means
	// DefaultRetention, and a negative value keeps rows forever.
	Retention time.Duration
}

// Catalog is an open catalogue. It is safe for concurrent use, and several
// processes may have the same file open. Errors caused by the file are
// *FileErrors.
type Catalog struct {
	path      string
	now       func() time.Time
	host      string
	retention time.Duration
	db        *sql.DB
	file      fs.FileInfo // of the opened file, to detect that it was replaced
	queries   map[string]*sql.Stmt
	writing   chan struct{} // semaphore: one writer per process
	matches   int           // how many matches a search ranks: maxMatches
}

// Open opens the catalogue at path for reading and writing. If there is none,
// it creates the file with mode 0600, and missing folders with mode 0700.
func Open(path string, o *Options) (*Catalog, error) { return open(path, o, true) }

// OpenExisting is like Open, but does not create or upgrade the file. It
// returns ErrNoCatalog if there is none.
func OpenExisting(path string, o *Options) (*Catalog, error) { return open(path, o, false) }

func open(path string, o *Options, create bool) (*Catalog, error) {
	c := &Catalog{
		path:      path,
		now:       time.Now,
		retention: DefaultRetention,
		writing:   make(chan struct{}, 1),
		matches:   maxMatches,
	}
	if o != nil && o.Now != nil {
		c.now = o.Now
	}
	if o != nil && o.Retention != 0 {
		c.retention = o.Retention
	}
	if o != nil {
		c.host = o.Host
	}
	for began := time.Now(); ; time.Sleep(busyPause) {
		err := c.connect(create)
		if err == nil {
			return c, nil
		}
		if c.db != nil {
			c.db.Close()
		}
		if time.Since(began) >= patience(err) {
			return nil, c.wrap("open", err)
		}
	}
}

// patience is how long opening a catalogue is tried again after an error.
func patience(err error) time.Duration {
	reason := fileReason(err)
	switch {
	case errors.Is(reason, ErrBusy):
		return busyTimeout
	case files.Shared() && errors.Is(errors.Join(reason, err), ErrUnwritable):
		return shareTimeout
	}
	return 0
}

// connect opens the file, after checking that it is a catalogue.
func (c *Catalog) connect(create bool) error {
	var err error
	if c.path, err = filepath.Abs(c.path); err != nil {
		return err
	}
	if c.file, err = statFile(c.path, create); err != nil {
		return err
	}
	if files.OnNetwork(c.path) {
		return &FileError{Path: c.path, Reason: ErrNetworkFS}
	}
	if c.db, err = sql.Open("sqlite", dsn(c.path)); err != nil {
		return err
	}
	c.db.SetMaxOpenConns(4)
	c.db.SetMaxIdleConns(4)
	version, err := c.readVersion(c.db)
	switch {
	case err != nil:
	case create:
		err = c.createSchema()
	case version == 0:
		err = fmt.Errorf("%s: %w", c.path, ErrNoCatalog)
	case version < schemaVersion:
		err = &FileError{Path: c.path, Reason: ErrOlder}
	}
	if err != nil {
		return err
	}
	return c.prepareQueries()
}

// statFile checks the catalogue's files, and creates the main one: SQLite would
// use the umask, for the -wal and -shm files as well. SQLite opens the files by
// path after this check; only this user, root and a trusted owner could replace
// them in between.
func statFile(path string, create bool) (fs.FileInfo, error) {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return nil, &FileError{Path: path, Reason: ErrNotCatalog, Cause: errors.New("not a regular file")}
	}
	if err := files.Check(path, path+"-wal", path+"-shm", path+"-journal"); err != nil {
		return nil, fileError(path, err)
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && create && !writable(path): // SQLite would open it read-only
		return nil, &FileError{Path: path, Reason: ErrUnwritable}
	case err == nil:
		return info, nil
	case !create && errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s: %w", path, ErrNoCatalog)
	case !create || !errors.Is(err, fs.ErrNotExist):
		return nil, &FileError{Path: path, Reason: ErrUnwritable, Cause: err}
	}
	if err := files.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, fileError(path, err)
	}
	f, err := files.Open(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	defer f.Close()
	return f.Stat()
}

// dsn returns the data source name. Writers take the write lock when they begin
// (_txlock): a deferred transaction that finds it taken fails at once, whatever
// the timeout. synchronous is FULL because a page that is lost in a power cut
// would be paid for again, and an fsync is cheap next to a call.
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

// readVersion returns the schema version of the file, 0 if it is empty.
// It returns a *FileError if the file is not a catalogue, or newer than
// this program.
func (c *Catalog) readVersion(q rowQuerier) (version int, err error) {
	var app, tables int
	err = q.QueryRow(`SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`).
		Scan(&app, &version, &tables)
	switch {
	case err != nil:
		return 0, err
	case app == 0 && version == 0 && tables == 0:
		return 0, nil
	case app != applicationID:
		return 0, &FileError{Path: c.path, Reason: ErrNotCatalog, Cause: errors.New("the database of another program")}
	case version > schemaVersion:
		return 0, &FileError{Path: c.path, Reason: ErrNewer,
			Cause: fmt.Errorf("schema %d, this program knows %d", version, schemaVersion)}
	}
	return version, nil
}

// createSchema creates or upgrades the schema. It always takes the write lock,
// so that a read-only file is an error now and not at the first page.
func (c *Catalog) createSchema() error {
	if _, err := c.db.Exec("PRAGMA journal_mode = WAL"); err != nil {
		return err
	}
	tx, err := c.db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	version, err := c.readVersion(tx) // another process may have created it meanwhile
	if err != nil || version == schemaVersion {
		return err
	}
	schema := strings.Join([]string{schemaSQL, schema2SQL, schema3SQL, schema4SQL, schema5SQL}[version:], "")
	schema += fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, schemaVersion)
	if _, err := tx.Exec(schema); err != nil {
		return err
	}
	return tx.Commit()
}

// prepareQueries prepares the queries of queries.sql. Text after a query's
// semicolon is cut off: the driver (modernc.org/sqlite v1.61.1) would take it
// for a second statement, and parse both on each use.
func (c *Catalog) prepareQueries() error {
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

// Close closes the catalogue. It does not release Locks.
func (c *Catalog) Close() error { return c.wrap("close", c.db.Close()) }

// write runs fn in a transaction that holds the write lock from its start. It
// returns the error of the transaction, if it has one, and else that of fn; op
// names what was done in it. Writers of this process wait for each other here,
// and for those of other processes in SQLite. Cancelling ctx ends both waits.
func (c *Catalog) write(ctx context.Context, op string, fn func(*transaction) error) (err error) {
	defer func() { err = c.wrap(op, err) }()
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
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
	b := &transaction{c: c, tx: tx, ctx: ctx, bound: make(map[string]*sql.Stmt)}
	err = fn(b)
	if err = cmp.Or(b.err, err); err != nil {
		return err
	}
	return tx.Commit()
}

// checkFile returns an error if the file was deleted, replaced or truncated.
// Writes to the open file would succeed and be lost.
func (c *Catalog) checkFile() error {
	info, err := os.Stat(c.path)
	if err == nil && info.Size() > 0 && os.SameFile(info, c.file) {
		return nil
	}
	return &FileError{Path: c.path, Reason: ErrReplaced, Cause: err}
}

// transaction runs named queries. It is not safe for concurrent use.
type transaction struct {
	c     *Catalog
	tx    *sql.Tx
	ctx   context.Context
	bound map[string]*sql.Stmt
	err   error // of the first exec that failed
}

func (b *transaction) stmt(name string) *sql.Stmt {
	if b.bound[name] == nil {
		b.bound[name] = b.tx.StmtContext(b.ctx, b.c.queries[name])
	}
	return b.bound[name]
}

// exec runs a query that returns nothing, unless one has failed before.
func (b *transaction) exec(name string, args ...any) {
	if b.err == nil {
		_, b.err = b.stmt(name).ExecContext(b.ctx, args...)
	}
}

func (b *transaction) queryRow(name string, args ...any) *sql.Row {
	return b.stmt(name).QueryRowContext(b.ctx, args...)
}

// eachRow calls scan for every row of a query's result and closes it.
func eachRow(rows *sql.Rows, err error, scan func() error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// millis returns t as it is stored. The zero time is NULL.
func millis(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// stamp is a time that is read as millis stored it.
type stamp time.Time

// Scan implements sql.Scanner.
func (s *stamp) Scan(stored any) error {
	var ms sql.NullInt64
	err := ms.Scan(stored)
	if ms.Valid {
		*s = stamp(time.UnixMilli(ms.Int64).UTC())
	}
	return err
}

package sqliteledger

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// conn is a connection to the file, without a pool and without contexts, which
// would cost a goroutine for each statement. It is not safe for concurrent use.
type conn struct {
	driver driver.Conn
	stmts  map[string]driver.Stmt // by their text
	seen   fileSet                // those that were at the path when it was opened

	logs    map[string]log // by account, as they were at version
	version uint32
}

// dataVersion returns a number that changes whenever the file's content does.
func (c *conn) dataVersion() uint32 {
	n, _ := c.driver.(sqlite.FileControl).FileControlDataVersion("main") // it never fails
	return n
}

// open connects to a file that exists, with SQLite's mode rw or ro.
func open(path, mode string, sync Sync) (*conn, error) {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a drive letter
	}
	name := url.URL{Scheme: "file", Path: slashed, RawQuery: "mode=" + mode}
	before, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	dc, err := (&sqlite.Driver{}).Open(name.String())
	if err != nil {
		return nil, err
	}
	c := &conn{driver: dc, stmts: map[string]driver.Stmt{}}
	err = c.script("PRAGMA busy_timeout = 50; PRAGMA synchronous = " + sync.String()) // retryBusy tries again
	if err == nil {
		_, err = c.value("SELECT COUNT(*) FROM sqlite_schema") // opens its -wal and -shm
	}
	if err == nil {
		c.seen, err = identify(path)
	}
	if err == nil && !os.SameFile(before, c.seen.db) {
		err = errReplaced
	}
	if err != nil {
		_ = c.close()
		return nil, err
	}
	return c, nil
}

// isCurrent reports whether the files that the connection has open are those at
// the path. The main file has not become smaller, which it never does by
// itself.
func (c *conn) isCurrent(path string) bool {
	present, err := identify(path)
	if err != nil || !present.same(&c.seen) || present.db.Size() < c.seen.db.Size() {
		return false
	}
	c.seen = present
	return true
}

// close closes the connection. SQLite leaves the -wal at the path alone if that
// of another file is there.
func (c *conn) close() error {
	for _, stmt := range c.stmts {
		_ = stmt.Close() // it repeats the error of its last run
	}
	return c.driver.Close()
}

// script runs statements without preparing them.
func (c *conn) script(text string) error {
	_, err := c.driver.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return err
}

// exec runs a statement.
func (c *conn) exec(text string, args ...driver.Value) error {
	stmt, err := c.prepare(text)
	if err != nil {
		return err
	}
	_, err = stmt.(driver.StmtExecContext).ExecContext(context.Background(), named(args))
	return err
}

// query runs a query and calls f with every row until it returns false. f must
// not retain the row.
func (c *conn) query(text string, f func(row []driver.Value) (more bool), args ...driver.Value) error {
	stmt, err := c.prepare(text)
	if err != nil {
		return err
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(context.Background(), named(args))
	if err != nil {
		return err
	}
	row := make([]driver.Value, len(rows.Columns()))
	for err = rows.Next(row); err == nil && f(row); {
		err = rows.Next(row)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, rows.Close())
}

// value returns the first column of the only row of a query, or nil.
func (c *conn) value(text string, args ...driver.Value) (v driver.Value, err error) {
	err = c.query(text, func(row []driver.Value) bool {
		v = row[0]
		return true
	}, args...)
	return v, err
}

func (c *conn) prepare(text string) (driver.Stmt, error) {
	if stmt := c.stmts[text]; stmt != nil {
		return stmt, nil
	}
	stmt, err := c.driver.Prepare(text)
	if err == nil {
		c.stmts[text] = stmt
	}
	return stmt, err
}

// rollBack ends a transaction, unless SQLite has ended it after an error.
func (c *conn) rollBack() error {
	err := c.exec("ROLLBACK")
	if err != nil && strings.Contains(err.Error(), "no transaction is active") {
		return nil
	}
	return err
}

func named(args []driver.Value) []driver.NamedValue {
	values := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		values[i] = driver.NamedValue{Ordinal: i + 1, Value: arg}
	}
	return values
}

// integer converts a column; NULL and other types are 0.
func integer(v driver.Value) int64 {
	n, _ := v.(int64)
	return n
}

// bytes converts a column; NULL and other types are nil.
func bytes(v driver.Value) []byte {
	b, _ := v.([]byte)
	return b
}

// retryBusy runs f again while a program that does not take turns has the file
// locked, for as long as patience.
func retryBusy(ctx context.Context, f func() error) error {
	for began := time.Now(); ; {
		err := f()
		switch {
		case !isBusy(err) || time.Since(began) > patience:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}

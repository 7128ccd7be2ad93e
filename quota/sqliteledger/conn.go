package sqliteledger

import (
	"context"
	"database/sql/driver"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"modernc.org/sqlite"
)

//go:embed schema.sql
var schema string

//go:embed queries.sql
var queries string

// conn is the only connection of a ledger. It uses the driver without a pool.
// It is not safe for concurrent use.
//
// The first error is sticky: until reset clears it, methods do nothing and
// return zeros. A transaction checks it once, at its end.
type conn struct {
	driver driver.Conn
	text   map[string]string      // the statements in queries, by name
	stmts  map[string]driver.Stmt // prepared when first used
	args   []driver.NamedValue
	row    []driver.Value
	err    error

	entries, records []driver.Value // to be inserted by flush
}

// open connects to a file that exists.
func open(path string, sync Sync) (*conn, error) {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a drive letter
	}
	name := url.URL{Scheme: "file", Path: slashed, RawQuery: "mode=rw"} // never creates the file
	dc, err := (&sqlite.Driver{}).Open(name.String())
	if err != nil {
		return nil, err
	}
	c := &conn{driver: dc, stmts: map[string]driver.Stmt{}, text: map[string]string{}}
	for section := range strings.SplitSeq("\n"+queries, "\n-- ") {
		name, text, _ := strings.Cut(section, "\n")
		c.text[name] = strings.TrimSpace(text)
	}
	c.script("PRAGMA busy_timeout = 50") // Ledger.transact tries again until its deadline
	c.script("PRAGMA synchronous = " + sync.String())
	if c.err != nil {
		dc.Close()
		return nil, c.err
	}
	return c, nil
}

// script runs statements without preparing them.
func (c *conn) script(text string) {
	if c.err == nil {
		_, c.err = c.driver.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	}
}

// exec runs a named statement and returns how many rows it changed.
func (c *conn) exec(name string, args ...driver.Value) int64 {
	stmt := c.prepare(name)
	if stmt == nil {
		return 0
	}
	result, err := stmt.(driver.StmtExecContext).ExecContext(context.Background(), c.namedValues(args))
	if err != nil {
		c.err = fmt.Errorf("%s: %w", name, err)
		return 0
	}
	n, _ := result.RowsAffected() // never fails in this driver
	return n
}

// query runs a named query and calls f with every row, which f must not retain.
func (c *conn) query(name string, f func(row []driver.Value), args ...driver.Value) {
	stmt := c.prepare(name)
	if stmt == nil {
		return
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(context.Background(), c.namedValues(args))
	if err != nil {
		c.err = fmt.Errorf("%s: %w", name, err)
		return
	}
	c.drain(rows, f)
}

// drain calls f with every row and closes rows.
func (c *conn) drain(rows driver.Rows, f func(row []driver.Value)) {
	n := len(rows.Columns())
	if cap(c.row) < n {
		c.row = make([]driver.Value, n)
	}
	row := c.row[:n]
	err := rows.Next(row)
	for ; err == nil; err = rows.Next(row) {
		f(row)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err = errors.Join(err, rows.Close()); c.err == nil {
		c.err = err
	}
}

// insertRows runs an insertion for rows of width values each. It inserts
// several rows per statement, because running one costs as much as inserting
// a row.
func (c *conn) insertRows(name string, width int, values []driver.Value) {
	for _, size := range []int{32, 8, 1} {
		for ; len(values) >= size*width; values = values[size*width:] {
			c.exec(c.multiRow(name, size), values[:size*width]...)
		}
	}
}

// multiRow returns the name of an insertion for several rows. The text of the
// insertion for one row must end in its values.
func (c *conn) multiRow(name string, rows int) string {
	if rows == 1 {
		return name
	}
	one := c.text[name]
	name += "-" + strconv.Itoa(rows)
	if c.text[name] == "" {
		c.text[name] = one + strings.Repeat(", "+one[strings.LastIndex(one, "("):], rows-1)
	}
	return name
}

// queryRow runs a named query and returns its last row, or nil. The row is
// valid until the next query.
func (c *conn) queryRow(name string, args ...driver.Value) []driver.Value {
	var last []driver.Value
	c.query(name, func(row []driver.Value) { last = row }, args...)
	if c.err != nil {
		return nil
	}
	return last
}

func (c *conn) prepare(name string) driver.Stmt {
	if c.err != nil {
		return nil
	}
	stmt := c.stmts[name]
	if stmt == nil {
		stmt, c.err = c.driver.Prepare(c.text[name])
		if c.err != nil {
			c.err = fmt.Errorf("%s: %w", name, c.err)
			return nil
		}
		c.stmts[name] = stmt
	}
	return stmt
}

func (c *conn) namedValues(args []driver.Value) []driver.NamedValue {
	c.args = c.args[:0]
	for i, arg := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return c.args
}

// queryRows runs a query without preparing it and calls f with every row.
func (c *conn) queryRows(query string, f func(row []driver.Value)) {
	if c.err != nil {
		return
	}
	rows, err := c.driver.(driver.QueryerContext).QueryContext(context.Background(), query, nil)
	if err != nil {
		c.err = err
		return
	}
	c.drain(rows, f)
}

// queryValue runs a query without preparing it and returns its first column.
func (c *conn) queryValue(query string) (v driver.Value) {
	c.queryRows(query, func(row []driver.Value) { v = row[0] })
	return v
}

// version returns a number that changes whenever the file's content does.
func (c *conn) version() uint32 {
	n, err := c.driver.(sqlite.FileControl).FileControlDataVersion("main")
	if c.err == nil {
		c.err = err
	}
	return n
}

// reset clears the error and what was to be inserted.
func (c *conn) reset() {
	c.err = nil
	c.entries = c.entries[:0]
	c.records = c.records[:0]
}

// flush inserts the pending entries and records.
func (c *conn) flush() {
	c.insertRows("entry-insert", 9, c.entries)
	c.insertRows("record-insert", 3, c.records)
	c.entries, c.records = c.entries[:0], c.records[:0]
}

func (c *conn) close() error {
	for _, stmt := range c.stmts {
		stmt.Close()
	}
	return c.driver.Close()
}

// integer and text convert a column; NULL and other types are the zero value.
func integer(v driver.Value) int64 { n, _ := v.(int64); return n }
func text(v driver.Value) string   { s, _ := v.(string); return s }

// tx is a transaction at one instant of the ledger's clock.
type tx struct {
	*conn
	ledger    *Ledger
	now       int64 // before wall while the clock is in doubt
	wall      int64 // of the host
	cacheOnly bool  // outside a transaction: what is not cached is errNotCached
}

// lookup runs a query unless only the cache may be used.
func (t *tx) lookup(name string, f func(row []driver.Value), args ...driver.Value) {
	if t.cacheOnly {
		t.fail(errNotCached)
		return
	}
	t.query(name, f, args...)
}

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

// conn is the one connection of a ledger. It speaks to the driver itself: a
// pool has nothing to do here. It is not safe for concurrent use.
//
// The first error sticks: until start clears it, whatever follows does
// nothing and returns zeros. A transaction is so written straight down, and
// asks once, at its end, whether all of it went well.
type conn struct {
	driver driver.Conn
	text   map[string]string
	stmts  map[string]driver.Stmt // prepared when first needed
	args   []driver.NamedValue
	row    []driver.Value
	err    error

	entries, records []driver.Value // to be inserted with the next flush
}

// open connects to a file that exists.
func open(path string, sync Sync) (*conn, error) {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a drive letter
	}
	name := url.URL{Scheme: "file", Path: slashed, RawQuery: "mode=rw"} // rw: never created here
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

// script runs statements that are not worth preparing.
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
	result, err := stmt.(driver.StmtExecContext).ExecContext(context.Background(), c.named(args))
	if err != nil {
		c.err = fmt.Errorf("%s: %w", name, err)
		return 0
	}
	n, _ := result.RowsAffected() // the driver's never fails
	return n
}

// each runs a named query and calls f with every row, which holds until f returns.
func (c *conn) each(name string, f func(row []driver.Value), args ...driver.Value) {
	stmt := c.prepare(name)
	if stmt == nil {
		return
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(context.Background(), c.named(args))
	if err != nil {
		c.err = fmt.Errorf("%s: %w", name, err)
		return
	}
	c.drain(rows, f)
}

// drain reads all rows, so that the statement has run to its end.
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

// rows runs an insertion for many rows, of so many values each: several rows a
// statement, since to run one takes as long as to insert one.
func (c *conn) rows(name string, width int, values []driver.Value) {
	for _, size := range []int{32, 8, 1} {
		for ; len(values) >= size*width; values = values[size*width:] {
			c.exec(c.many(name, size), values[:size*width]...)
		}
	}
}

// many names the insertion of so many rows, whose text ends in the values of one.
func (c *conn) many(name string, rows int) string {
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

// one runs a named query and returns its first row, or nil. The row holds
// until the next query.
func (c *conn) one(name string, args ...driver.Value) []driver.Value {
	var first []driver.Value
	c.each(name, func(row []driver.Value) { first = row }, args...)
	if c.err != nil {
		return nil
	}
	return first
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

func (c *conn) named(args []driver.Value) []driver.NamedValue {
	c.args = c.args[:0]
	for i, arg := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return c.args
}

// value returns the first column of the one row of a query that is not worth preparing.
func (c *conn) value(query string) driver.Value {
	if c.err != nil {
		return nil
	}
	rows, err := c.driver.(driver.QueryerContext).QueryContext(context.Background(), query, nil)
	if err != nil {
		c.err = err
		return nil
	}
	var v driver.Value
	c.drain(rows, func(row []driver.Value) { v = row[0] })
	return v
}

// version changes whenever the file's content has.
func (c *conn) version() uint32 {
	n, err := c.driver.(sqlite.FileControl).FileControlDataVersion("main")
	if c.err == nil {
		c.err = err
	}
	return n
}

// start forgets the error of what came before.
func (c *conn) start() { c.err, c.entries, c.records = nil, c.entries[:0], c.records[:0] }

// flush inserts what was left to be inserted together.
func (c *conn) flush() {
	c.rows("entry-insert", 9, c.entries)
	c.rows("record-insert", 3, c.records)
	c.entries, c.records = c.entries[:0], c.records[:0]
}

func (c *conn) close() error {
	for _, stmt := range c.stmts {
		stmt.Close()
	}
	return c.driver.Close()
}

// integer and text read a column; NULL, and any other type, is the zero value.
func integer(v driver.Value) int64 { n, _ := v.(int64); return n }
func text(v driver.Value) string   { s, _ := v.(string); return s }

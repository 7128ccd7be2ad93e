package sqliteledger

import (
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// schema creates the tables. Epochs and generations are unsigned integers of 64
// bits in signed ones. Totals are integers of 8 bytes, the least significant
// byte first, up to the last one that is not 0.
const schema = `
CREATE TABLE heads (
  log      INTEGER PRIMARY KEY,
  account  TEXT    NOT NULL UNIQUE,
  epoch    INTEGER NOT NULL,
  position INTEGER NOT NULL, -- the newest
  trimmed  INTEGER NOT NULL, -- the newest position that was dropped
  newest   INTEGER NOT NULL, -- the newest timestamp, in microseconds since 1970
  gen      INTEGER NOT NULL,
  totals   BLOB    NOT NULL
) STRICT;
CREATE TABLE batches (
  log      INTEGER NOT NULL,
  position INTEGER NOT NULL,
  at       INTEGER NOT NULL, -- the timestamp of its first record
  data     BLOB    NOT NULL,
  PRIMARY KEY (log, position)
) STRICT, WITHOUT ROWID;
`

const (
	selectHead = "SELECT log, epoch, position, trimmed, newest, gen, totals FROM heads WHERE account = ?"
	insertHead = "INSERT INTO heads (account, epoch, position, trimmed, newest, gen, totals) VALUES (?, ?, ?, ?, " +
		"?, ?, ?)"
	updateHead    = "UPDATE heads SET position = ?, trimmed = ?, newest = ?, gen = ?, totals = ? WHERE log = ?"
	selectBatches = "SELECT position, at, data FROM batches WHERE log = ? AND position > ? ORDER BY position"
	selectTag     = "SELECT substr(data, 1, 10) FROM batches WHERE log = ? AND position = ?"
	insertBatch   = "INSERT INTO batches (log, position, at, data) VALUES (?, ?, ?, ?)"
	deleteBatches = "DELETE FROM batches WHERE log = ? AND position <= ?"
	selectNames   = "SELECT account FROM heads"
)

// trimEvery is how many batches are deleted at a time: each time writes to a
// page that an append does not write to otherwise. Until then, they are
// skipped.
const trimEvery = 64

// log is what a connection has read of a log.
type log struct {
	id     int64 // 0 of a log that does not exist
	head   engine.Head
	tag    engine.Tag // of the newest batch, if hasTag
	hasTag bool
}

// append runs one transaction. If it fails in its commit, it may have
// committed.
func (c *conn) append(account string, a *engine.Append, clock func() time.Time) (*engine.Tail, bool, error) {
	if err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, false, err
	}
	g, err := c.cached(account)
	if err != nil {
		return nil, false, errors.Join(err, c.rollBack())
	}
	tail, err := c.appendTo(&g, account, a, clock().UnixMicro())
	if err != nil || !tail.Appended {
		return tail, false, errors.Join(err, c.rollBack())
	}
	if err := c.exec("COMMIT"); err != nil {
		c.logs = nil
		return nil, mayHaveCommitted(err), errors.Join(err, c.rollBack())
	}
	c.logs[account], c.version = g, c.dataVersion()
	return tail, true, nil
}

// appendTo appends a batch to a log, unless a condition does not hold.
func (c *conn) appendTo(g *log, account string, a *engine.Append, now int64) (*engine.Tail, error) {
	tail, err := c.tail(g, &engine.Read{Known: a.Known, Bytes: a.Bytes}, now)
	if err != nil || tail.Diverged || !g.head.Admits(a, now) {
		return tail, err
	}
	before := g.head.Trimmed
	at := g.head.Append(a, now)
	if err := c.writeHead(g, account); err != nil {
		return nil, err
	}
	if err := c.exec(insertBatch, g.id, int64(g.head.Position), at, a.Data); err != nil {
		return nil, err
	}
	if g.head.Trimmed/trimEvery != before/trimEvery {
		if err := c.exec(deleteBatches, g.id, int64(g.head.Trimmed)); err != nil {
			return nil, err
		}
	}
	g.hasTag = copy(g.tag[:], a.Data) > 0
	after := g.head.Tail(now)
	after.Appended, after.At = true, at
	after.Batches, after.More = tail.Batches, tail.More
	return after, nil
}

// cached returns what is in the file of a log. It reads the file if another
// connection has written to it. The caller is in a transaction that may write.
func (c *conn) cached(account string) (log, error) {
	if version := c.dataVersion(); c.logs == nil || version != c.version {
		c.logs, c.version = map[string]log{}, version
	}
	if g, ok := c.logs[account]; ok {
		return g, nil
	}
	return c.log(account)
}

// read runs one transaction that writes nothing.
func (c *conn) read(account string, r *engine.Read, clock func() time.Time) (*engine.Tail, error) {
	if err := c.exec("BEGIN"); err != nil {
		return nil, err
	}
	g, err := c.log(account)
	var tail *engine.Tail
	if err == nil {
		tail, err = c.tail(&g, r, clock().UnixMicro())
	}
	return tail, errors.Join(err, c.rollBack())
}

// log reads the head of a log.
func (c *conn) log(account string) (g log, err error) {
	head := &g.head
	err = c.query(selectHead, func(row []driver.Value) bool {
		g.id = integer(row[0])
		head.Epoch, head.Position = uint64(integer(row[1])), uint64(integer(row[2]))
		head.Trimmed = uint64(integer(row[3]))
		head.Newest, head.Gen = integer(row[4]), uint64(integer(row[5]))
		totals := bytes(row[6])
		for i := 0; i < len(head.Totals) && len(totals) >= 8; i++ {
			head.Totals[i] = int64(binary.LittleEndian.Uint64(totals))
			totals = totals[8:]
		}
		return true
	}, account)
	return g, err
}

// writeHead writes the head of a log, and creates one that does not exist.
func (c *conn) writeHead(g *log, account string) error {
	h := &g.head
	n := len(h.Totals)
	for n > 0 && h.Totals[n-1] == 0 {
		n--
	}
	totals := make([]byte, 0, 8*n)
	for _, total := range h.Totals[:n] {
		totals = binary.LittleEndian.AppendUint64(totals, uint64(total))
	}
	position, trimmed := int64(h.Position), int64(h.Trimmed)
	gen := int64(h.Gen)
	if g.id != 0 {
		return c.exec(updateHead, position, trimmed, h.Newest, gen, totals, g.id)
	}
	err := c.exec(insertHead, account, int64(h.Epoch), position, trimmed, h.Newest, gen, totals)
	if err != nil {
		return err
	}
	created, err := c.log(account)
	g.id = created.id
	return err
}

// tail returns the answer to a read.
func (c *conn) tail(g *log, r *engine.Read, now int64) (*engine.Tail, error) {
	head := &g.head
	tail := head.Tail(now)
	tag := g.tag
	if head.NeedsTag(&r.Known) && !(g.hasTag && r.After == head.Position) {
		data, err := c.value(selectTag, g.id, int64(r.After))
		if err != nil {
			return nil, err
		}
		if copy(tag[:], bytes(data)) == 0 {
			return nil, fmt.Errorf("%w: batch %d is missing", errBroken, r.After)
		}
	}
	if head.HasDiverged(&r.Known, tag) {
		tail.Diverged = true
		return tail, nil
	}
	after := head.After(&r.Known)
	if after >= head.Position {
		return tail, nil
	}
	page := engine.Page{Bytes: r.Bytes}
	next := after + 1
	err := c.query(selectBatches, func(row []driver.Value) bool {
		b := engine.Batch{Position: uint64(integer(row[0])), At: integer(row[1]), Data: bytes(row[2])}
		if b.Position != next {
			return false
		}
		next++
		return page.Add(tail, b)
	}, g.id, int64(after))
	if err == nil && !tail.More && next != head.Position+1 {
		err = fmt.Errorf("%w: batch %d is missing", errBroken, next)
	}
	return tail, err
}

// accounts returns the accounts that have a log.
func (c *conn) accounts() (names []string, err error) {
	err = c.query(selectNames, func(row []driver.Value) bool {
		name, _ := row[0].(string)
		names = append(names, name)
		return true
	})
	return names, err
}

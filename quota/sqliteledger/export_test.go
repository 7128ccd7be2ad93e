package sqliteledger

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/internal/uptime"
	"github.com/ration-dev/ration/quota"
)

// Number runs a query on l's connection and returns the number that it yields.
func (l *Ledger) Number(query string) (n int64, err error) {
	err = l.transact(context.Background(), "read", func(t *tx) { n = integer(t.queryValue(query)) })
	return n, err
}

// Pragma runs a PRAGMA on l's connection.
func (l *Ledger) Pragma(setting string) error {
	l.conn.reset()
	l.conn.script("PRAGMA " + setting)
	return l.conn.err
}

// Merge merges the -wal into the file, as a commit does once the -wal is long.
func (l *Ledger) Merge() error {
	return l.write(context.Background(), func(t *tx) {
		t.exec("commit")
		t.queryValue("PRAGMA wal_checkpoint(PASSIVE)")
		if err := l.checkReplaced(); err != nil {
			t.fail(err)
		}
		l.writeState(stateOf(l.seen.db))
		t.exec("begin")
	})
}

// IsAsLeft reports whether the next transaction would not check the file.
func (l *Ledger) IsAsLeft() (is bool, err error) {
	err = l.transact(context.Background(), "read", func(*tx) { is = l.isAsLeft() })
	return is, err
}

// Plans returns how SQLite would run each named statement.
func (l *Ledger) Plans() (map[string][]string, error) {
	plans := map[string][]string{}
	err := l.transact(context.Background(), "read", func(t *tx) {
		for name, text := range t.text {
			if name == "" {
				continue
			}
			t.text["explain-"+name] = "EXPLAIN QUERY PLAN " + text
			t.query("explain-"+name, func(row []driver.Value) {
				plans[name] = append(plans[name], row[3].(string))
			}, nil, nil, nil, nil, nil, nil, nil, nil, nil)
			delete(t.text, "explain-"+name)
		}
	})
	return plans, err
}

// Commits returns how many transactions of this handle have changed the file,
// as SQLite counts them.
func (l *Ledger) Commits() (n int64, err error) {
	err = l.transact(context.Background(), "read", func(t *tx) { n = int64(t.version()) })
	return n, err
}

// Reads is how often a statement ran, and how many rows it returned.
type Reads struct{ Runs, Rows int }

// CountReads counts the reads of a named statement from now on.
func (l *Ledger) CountReads(name string) (*Reads, error) {
	l.conn.reset()
	counted := &countedStmt{Stmt: l.conn.prepare(name)}
	l.conn.stmts[name] = counted
	return &counted.reads, l.conn.err
}

type countedStmt struct {
	driver.Stmt
	reads Reads
}

// QueryContext implements driver.StmtQueryContext.
func (s *countedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.reads.Runs++
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	return &countedRows{rows, &s.reads}, err
}

type countedRows struct {
	driver.Rows
	reads *Reads
}

// Next implements driver.Rows.
func (r *countedRows) Next(row []driver.Value) error {
	err := r.Rows.Next(row)
	if err == nil {
		r.reads.Rows++
	}
	return err
}

// Fill puts n entries into the log, a second apart from an instant on: forty
// for each client, four for each request of a batch.
func (l *Ledger) Fill(batch *quota.Batch, n int, from int64) error {
	return l.write(context.Background(), func(t *tx) {
		g, client := t.log(logName{batch.Account, batch.Key}), uint64(1<<40)
		for i := range n {
			r := &batch.Requests[(i/40*4+i%4)%len(batch.Requests)]
			t.now = from + int64(i)*1e6
			t.wall = t.now
			if i == 0 {
				_ = t.judge(g.name).Admit(&txLog{t, g}, r)
			}
			t.add(g, &entry{units: int64(r.Units), calls: 1, method: r.Method, caller: r.Caller, id: quota.ID{Client: client + uint64(i/40), Seq: uint64(i)}})
			t.addSums(g)
			if len(t.entries) > 4096 {
				t.flush()
			}
		}
		t.save(g)
	})
}

// KnownLogs reads the logs of n keys and returns how many are then cached.
func (l *Ledger) KnownLogs(n int) (known int, err error) {
	err = l.write(context.Background(), func(t *tx) {
		for i := range n {
			t.log(logName{"my-project", fmt.Sprint(i)})
		}
		known = len(l.logs)
	})
	return known, err
}

// Path returns the ledger's file.
func (l *Ledger) Path() string { return l.path }

// Occupied runs f while another transaction of this handle is in progress.
func (l *Ledger) Occupied(f func()) {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	f()
}

// KeepBusy holds the lock that processes take turns with, and counts turns
// until stop, like a crowd of processes.
func (l *Ledger) KeepBusy(ctx context.Context) (stop func(), err error) {
	lock, err := l.openLock()
	if err != nil {
		return nil, err
	}
	if err := lock.Lock(ctx); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		each := time.NewTicker(countEvery)
		defer each.Stop()
		for {
			select {
			case <-each.C:
				countTurn(lock)
			case <-ended:
				_ = lock.Close()
				return
			}
		}
	}()
	return func() { close(ended); <-done }, nil
}

// SetHost sets the clock of the host, the time since its start, and whether
// a time server sets the clock. It keeps the ledger on real time.
func (l *Ledger) SetHost(now func() time.Time, boot uint64, since func() time.Duration, synced func() bool) {
	l.now, l.isSynced = now, synced
	l.uptime = func() uptime.Uptime { return uptime.Uptime{Boot: boot, Since: since()} }
}

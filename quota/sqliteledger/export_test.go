package sqliteledger

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/ration-dev/ration/quota"
)

// Number runs a query on l's own connection and returns its one number.
func (l *Ledger) Number(query string) (n int64, err error) {
	err = l.transact(context.Background(), "read", func(t *tx) { n = integer(t.value(query)) })
	return n, err
}

// Pragma sets something of l's own connection.
func (l *Ledger) Pragma(setting string) error {
	l.conn.start()
	l.conn.script("PRAGMA " + setting)
	return l.conn.err
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
			t.each("explain-"+name, func(row []driver.Value) {
				plans[name] = append(plans[name], row[3].(string))
			}, nil, nil, nil, nil, nil, nil, nil, nil, nil)
			delete(t.text, "explain-"+name)
		}
	})
	return plans, err
}

// Commits returns how many transactions this handle has committed that wrote
// something: SQLite counts them.
func (l *Ledger) Commits() (n int64, err error) {
	err = l.transact(context.Background(), "read", func(t *tx) { n = int64(t.version()) })
	return n, err
}

// Fill puts the first request of a batch into the log n times, a second apart from an instant on.
func (l *Ledger) Fill(batch *quota.Batch, n int, from int64) error {
	return l.write(context.Background(), func(t *tx) {
		g, r := t.log(logName{batch.Account, batch.Key}), &batch.Requests[0]
		for i := range n {
			t.now = from + int64(i)*1e6
			if i == 0 {
				_ = t.judge(g.name).Admit(&book{t, g}, r)
			}
			t.add(g, &entry{units: int64(r.Units), calls: 1, method: r.Method, caller: r.Caller})
			if len(t.entries) > 4096 {
				t.flush()
			}
		}
		t.save(g)
	})
}

// KnownLogs looks at the logs of n keys and returns how many are in memory then.
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

package sqliteledger

import (
	"context"
	"database/sql/driver"
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
			}, nil, nil, nil, nil, nil, nil, nil, nil)
			delete(t.text, "explain-"+name)
		}
	})
	return plans, err
}

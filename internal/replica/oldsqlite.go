package replica

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver

	"github.com/ration-dev/ration/internal/engine"
)

// OpenOldSQLite opens the SQLite file of an earlier release. It returns
// ErrNotOld if there is no such file at the path.
func OpenOldSQLite(path string) (*Old, error) {
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return nil, ErrNotOld
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	name := url.URL{Scheme: "file", Path: filepath.ToSlash(path),
		RawQuery: "mode=rw&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", name.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	f := &oldSQLite{db: db, path: path}
	if err := f.identify(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return newOld(f), nil
}

// oldSQLite is a ledger in a SQLite file, of versions 1 to 6.
type oldSQLite struct {
	db   *sql.DB
	path string
	logs string // the table of logs
	kind string // what says the kind of an entry
}

// identify finds out the file's version.
func (f *oldSQLite) identify() error {
	const ration, newest = 0x7261746e, 6
	var application, version int
	err := f.db.QueryRow("SELECT application_id, user_version FROM pragma_application_id, pragma_user_version").
		Scan(&application, &version)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotOld, err)
	}
	if application != ration || version < 1 || version > newest {
		return ErrNotOld
	}
	f.logs, f.kind = "account_logs", "e.kind"
	if version == 1 {
		f.logs = "logs"
		f.kind = fmt.Sprintf("IIF(e.calls > 0, %d, IIF(e.units = 0, %d, %d))", oldCall, oldRefunded, oldAddition)
	}
	return nil
}

// query calls scan with each row of a query.
func (f *oldSQLite) query(ctx context.Context, scan func(*sql.Rows) error, text string, args ...any) error {
	rows, err := f.db.QueryContext(ctx, text, args...)
	if err != nil {
		return f.failed(err)
	}
	defer rows.Close()
	for err == nil && rows.Next() {
		err = scan(rows)
	}
	return f.failed(errors.Join(err, rows.Err()))
}

func (f *oldSQLite) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("sqlite ledger %s: %w: %w", f.path, engine.ErrLedgerDown, err)
}

func (f *oldSQLite) accounts(ctx context.Context) (names []string, err error) {
	err = f.query(ctx, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	}, "SELECT account FROM "+f.logs+" UNION SELECT account FROM cooldowns ORDER BY account")
	return names, err
}

func (f *oldSQLite) entries(ctx context.Context, account string, yield func(*oldEntry)) error {
	return f.query(ctx, func(rows *sql.Rows) error {
		var e oldEntry
		l := &e.labels
		err := rows.Scan(&l.Key, &e.stamp, &e.units, &e.calls, &e.kind, &e.id.Client, &e.id.Seq,
			&l.Method, &l.Lane, &l.Job, &l.Region)
		e.id.Seq &= 1<<32 - 1
		yield(&e)
		return err
	}, "SELECT g.key, e.stamp, e.units, e.calls, "+f.kind+`, e.client, e.seq, t.method, t.lane, t.job, t.region
		FROM `+f.logs+` g JOIN entries e ON e.log = g.log JOIN labels t ON t.label = e.label
		WHERE g.account = ? ORDER BY g.key, e.stamp`, account)
}

func (f *oldSQLite) cooldowns(ctx context.Context, account string) (all []oldCooldown, err error) {
	err = f.query(ctx, func(rows *sql.Rows) error {
		var c oldCooldown
		err := rows.Scan(&c.budget, &c.until, &c.reason)
		all = append(all, c)
		return err
	}, "SELECT budget, until, reason FROM cooldowns WHERE account = ?", account)
	return all, err
}

func (f *oldSQLite) close(ctx context.Context, account string, move *oldCooldown) error {
	_, err := f.db.ExecContext(ctx,
		"INSERT OR REPLACE INTO cooldowns (account, budget, until, reason) VALUES (?, '', ?, ?)",
		account, move.until, move.reason)
	return f.failed(err)
}

func (f *oldSQLite) release() error { return f.db.Close() }

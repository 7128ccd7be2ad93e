// Package postgresledger implements a ledger in a PostgreSQL database, version
// 14 or later, that processes of any hosts share.
//
// It has two tables in a schema of its own, named ration unless the URL or
// Options say otherwise. Each log is one row of heads, and each of its batches
// one row of batches. A person looks at it with ration log, or with
//
//	SELECT log, convert_from(account, 'UTF8'), position, to_timestamp(newest / 1e6) FROM ration.heads;
//	SELECT position, to_timestamp(at / 1e6), data FROM ration.batches WHERE log = 1 ORDER BY position;
//
// An append is one call of a function, in a transaction of its own, under the
// row lock of the log's head. Its answer is sent once the commit is on the disk
// (synchronous_commit is on, or remote_apply), and on the synchronous standbys
// if the server has any. There is no state in a session and no prepared
// statement, so PgBouncer may be in between, in transaction mode too.
//
// Open creates schema, tables and functions if they are missing, which takes
// the right to create a schema in the database, or objects in a schema that
// exists. A user without that right needs
//
//	GRANT USAGE ON SCHEMA ration TO jobs;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ration TO jobs;
//
// once another user has opened the ledger.
package postgresledger

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ration-dev/ration/internal/engine"
)

//go:embed schema.sql
var schemaSQL string

// Options configures Open. A nil *Options is the default.
type Options struct {
	// Now is the ledger's clock, for tests; nil is the server's clock.
	Now func() time.Time
	// Schema is the schema of the tables: at most 63 lower-case letters, digits
	// and underscores. Empty is that of the URL, or ration.
	Schema string
}

const (
	// maxWait is how long a call takes at most, unless its context ends before.
	maxWait = 10 * time.Second
	// connectTimeout is how long a connection takes at most, unless the URL has
	// a connect_timeout.
	connectTimeout = 3 * time.Second
)

// Ledger is an engine.Ledger in a database. It is safe for concurrent use. It
// has at most 4 connections, or as many as there are CPUs, unless the URL has a
// pool_max_conns.
type Ledger struct {
	pool   *pgxpool.Pool
	now    func() time.Time // nil is the server's clock
	place  string           // host, port and database, for errors
	schema string
	closed atomic.Bool

	// isolates says that transactions set their isolation, because the server's
	// default is stricter than read committed.
	isolates atomic.Bool
}

var _ engine.Ledger = (*Ledger)(nil)

// Open connects to a database, such as
//
//	postgres://jobs@db.internal:5432/quota?schema=ration&sslmode=verify-full
//
// The URL takes the parameters of libpq's and schema. A password is better in
// ~/.pgpass or PGPASSFILE. Errors are ErrLedgerConfig (a malformed URL, a wrong
// password, no such database, no rights), and do not contain the password. A
// server that is down is not an error of Open, but of the calls.
func Open(address string, o *Options) (*Ledger, error) {
	if o == nil {
		o = &Options{}
	}
	l, config, err := parse(address, o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), maxWait, errSlow)
	defer cancel()
	if l.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, l.explain(ctx, err, false)
	}
	if err := l.setUp(ctx); err != nil && !errors.Is(err, engine.ErrLedgerDown) {
		l.pool.Close()
		return nil, err
	}
	return l, nil
}

// parse returns what the URL and the options say.
func parse(address string, o *Options) (*Ledger, *pgxpool.Config, error) {
	malformed := func(what string) error {
		return fmt.Errorf("postgres ledger: %w: %s; write postgres://user@host:port/database",
			engine.ErrLedgerConfig, what)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" { // err has the password
		return nil, nil, malformed("the URL is malformed")
	}
	query := u.Query()
	l := &Ledger{now: o.Now, schema: o.Schema}
	if l.schema == "" {
		l.schema = query.Get("schema")
	}
	if l.schema == "" {
		l.schema = "ration"
	}
	if !regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`).MatchString(l.schema) {
		return nil, nil, malformed(fmt.Sprintf("the schema %q has other characters than a-z, 0-9 and _", l.schema))
	}
	query.Del("schema")
	u.RawQuery = query.Encode()
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, nil, malformed("a parameter of the URL is malformed: " + reason(err))
	}
	c := config.ConnConfig
	l.place = fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database)
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "ration"
	}
	return l, config, nil
}

// reason returns the cause of an error of pgx, whose text may have the URL.
func reason(err error) string {
	if cause := errors.Unwrap(err); cause != nil {
		return cause.Error()
	}
	return "see the parameters of libpq"
}

// setUp creates what is missing in the database.
func (l *Ledger) setUp(ctx context.Context) error {
	missing, err := l.isMissing(ctx)
	if err != nil || !missing {
		return err
	}
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return l.explain(ctx, err, false)
	}
	_, err = conn.Conn().PgConn().Exec(ctx, strings.ReplaceAll(schemaSQL, "{schema}", l.schema)).ReadAll()
	conn.Release()
	if err == nil {
		return nil
	}
	if missing, again := l.isMissing(ctx); again == nil && !missing { // another process has created it
		return nil
	}
	return l.explain(ctx, fmt.Errorf("create the schema %s: %w", l.schema, err), false)
}

// isMissing reports whether the newest of the functions is missing.
func (l *Ledger) isMissing(ctx context.Context) (missing bool, err error) {
	const query = "SELECT NOT EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace " +
		"WHERE n.nspname = $1 AND p.proname = 'append_1')"
	_, err = l.query(ctx, query, []any{l.schema}, func(row []byte, types *pgtype.Map) error {
		return types.Scan(pgtype.BoolOID, pgtype.BinaryFormatCode, row, &missing)
	})
	return missing, l.explain(ctx, err, false)
}

// Append implements engine.Ledger. If it returns ErrInDoubt, the server may
// append the batch later, within the time that a statement takes.
func (l *Ledger) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	if err := a.Check(account); err != nil {
		return nil, fmt.Errorf("postgres ledger: %w", err)
	}
	indexes, amounts := make([]int64, len(a.Adds)), make([]int64, len(a.Adds))
	top := int64(0)
	for i, add := range a.Adds {
		indexes[i], amounts[i] = int64(add.Index)+1, add.Amount
		top = max(top, indexes[i])
	}
	arguments := append(l.arguments(account, &a.Known, a.Bytes), int64(a.NewEpoch), a.Any, int64(a.Gen),
		flatten(a.Conditions), a.NotBefore, a.NotAfter, a.Data, int64(a.Count), indexes, amounts, top, a.Bump,
		int64(a.Trim), a.Reset)
	return l.call(ctx, "append_1", arguments, true)
}

// flatten returns conditions as append_1 takes them.
func flatten(conditions []engine.Condition) []int64 {
	flat := []int64{}
	for _, c := range conditions {
		flat = append(flat, int64(len(c.Totals)))
		for _, total := range c.Totals {
			flat = append(flat, int64(total)+1)
		}
		flat = append(flat, int64(len(c.Steps)))
		for _, step := range c.Steps {
			flat = append(flat, step.From, step.Most)
		}
	}
	return flat
}

// Read implements engine.Ledger.
func (l *Ledger) Read(ctx context.Context, account string, r *engine.Read) (*engine.Tail, error) {
	return l.call(ctx, "read_1", l.arguments(account, &r.Known, r.Bytes), false)
}

// arguments returns those that read_1 and append_1 have in common.
func (l *Ledger) arguments(account string, known *engine.Known, bytes int) []any {
	if bytes <= 0 {
		bytes = engine.DefaultPage
	}
	var now any
	if l.now != nil {
		now = l.now().UnixMicro()
	}
	return []any{[]byte(account), int64(known.Epoch), int64(known.After), known.Tag[:], int64(bytes), now}
}

// Accounts implements engine.Ledger. It reads the names before it yields any.
func (l *Ledger) Accounts(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var names []string
		_, err := l.query(ctx, "SELECT account FROM "+l.schema+".heads", nil, func(row []byte, _ *pgtype.Map) error {
			names = append(names, string(row))
			return nil
		})
		if err != nil {
			yield("", l.explain(ctx, err, false))
			return
		}
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// Close implements engine.Ledger. It waits for calls in flight.
func (l *Ledger) Close() error {
	if !l.closed.Swap(true) {
		l.pool.Close()
	}
	return nil
}

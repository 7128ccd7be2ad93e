package postgresledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ration-dev/ration/quota/internal/engine"
)

var (
	errClosed = errors.New("this process has closed it")
	errSlow   = errors.New("it took too long")
)

// explain wraps an error with its kind, the place, and what to do. It returns
// that of a context as it is. inDoubt says that the transaction may have
// committed.
func (l *Ledger) explain(ctx context.Context, err error, inDoubt bool) error {
	switch {
	case err == nil, errors.Is(err, engine.ErrLedgerConfig), errors.Is(err, engine.ErrLedgerDown):
		return err
	case !inDoubt && ctx.Err() != nil && !errors.Is(context.Cause(ctx), errSlow):
		return context.Cause(ctx)
	}
	kind, step := classify(err)
	switch {
	case inDoubt:
		kind, step = engine.ErrInDoubt, "the log shows what was recorded"
	case l.closed.Load():
		kind, step = engine.ErrLedgerClosed, "open it again"
	}
	return fmt.Errorf("postgres ledger %s: %w: %w; %s", l.place, kind, err, step)
}

// classify returns the kind of an error, and what to do.
func classify(err error) (kind error, step string) {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return engine.ErrLedgerDown, "check that the server runs and can be reached"
	}
	switch server.Code {
	case "55P03", "57014": // lock_timeout, statement_timeout
		return engine.ErrLedgerBusy, "end the transaction that locks the log, or try again later"
	case "53300":
		return engine.ErrLedgerBusy, "run fewer processes at once, raise max_connections, or use PgBouncer"
	case "53100", "53200":
		return engine.ErrLedgerDown, "free some space or memory on the server"
	case "25006":
		return engine.ErrLedgerDown, "connect to the primary; add target_session_attrs=read-write if the URL has several hosts"
	case "42501":
		return engine.ErrLedgerConfig, "grant this user the rights, or open the ledger as another user once"
	case "3D000":
		return engine.ErrLedgerConfig, "create the database, or name another one"
	}
	switch class := server.Code[:min(2, len(server.Code))]; class {
	case "28":
		return engine.ErrLedgerConfig, "check the user, the password and pg_hba.conf"
	case "40":
		return engine.ErrLedgerBusy, "try again"
	case "22", "23", "3F", "42", "XX":
		return engine.ErrLedgerConfig, "it is not as this program left it; restore the schema, or name another one"
	}
	return engine.ErrLedgerDown, "try again"
}

// isRolledBack reports whether the server says that it has rolled back the
// transaction. After a fatal error that is not known.
func isRolledBack(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && server.SeverityUnlocalized == "ERROR" && server.Code != "40003"
}

// isDropped reports whether the schema, or a part of it, is missing.
func isDropped(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && isRolledBack(err) &&
		(server.Code == "3F000" || server.Code == "42883" || server.Code == "42P01")
}

// isConflict reports whether a transaction was rolled back for another one,
// which a server does whose default isolation is stricter than read committed.
func isConflict(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && isRolledBack(err) && strings.HasPrefix(server.Code, "40")
}

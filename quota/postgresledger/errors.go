package postgresledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ration-dev/ration/internal/engine"
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
	step, kind := classify(err)
	switch {
	case inDoubt:
		kind, step = engine.ErrInDoubt, "the log shows what was recorded"
	case l.closed.Load():
		kind, step = engine.ErrLedgerClosed, "open it again"
	}
	err = lineError{err}
	if errors.Is(kind, engine.ErrLedgerDown) {
		return &engine.DownError{Where: "postgres ledger " + l.place, Err: err, Step: step, Common: step == checkServer}
	}
	return fmt.Errorf("postgres ledger %s: %w: %w; %s", l.place, kind, err, step)
}

// lineError is an error on one line: that of a connection has a line for each
// attempt.
type lineError struct{ error }

// Error returns each line of the error once.
func (e lineError) Error() string {
	lines := strings.Split(e.error.Error(), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	lines = slices.Compact(lines)
	return strings.TrimSpace(lines[0] + " " + strings.Join(lines[1:], ", "))
}

// Unwrap returns the error.
func (e lineError) Unwrap() error { return e.error }

const checkServer = "check that the server runs and can be reached"

// classify returns what to do about an error, and its kind.
func classify(err error) (step string, kind error) {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return checkServer, engine.ErrLedgerDown
	}
	switch server.Code {
	case "55P03", "57014": // lock_timeout, statement_timeout
		return "end the transaction that locks the log, or try again later", engine.ErrLedgerBusy
	case "53300":
		return "run fewer processes at once, raise max_connections, or use PgBouncer", engine.ErrLedgerBusy
	case "53100", "53200":
		return "free some space or memory on the server", engine.ErrLedgerDown
	case "25006":
		return "connect to the primary; a URL of several hosts needs target_session_attrs=read-write",
			engine.ErrLedgerDown
	case "42501":
		return "grant this user the rights, or open the ledger as another user once", engine.ErrLedgerConfig
	case "3D000":
		return "create the database, or name another one", engine.ErrLedgerConfig
	}
	switch class := server.Code[:min(2, len(server.Code))]; class {
	case "28":
		return "check the user, the password and pg_hba.conf", engine.ErrLedgerConfig
	case "40":
		return "try again", engine.ErrLedgerBusy
	case "22", "23", "3F", "42", "XX":
		return "it is not as this program left it; restore the schema, or name another one", engine.ErrLedgerConfig
	}
	return "try again", engine.ErrLedgerDown
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
	if !errors.As(err, &server) || !isRolledBack(err) {
		return false
	}
	return slices.Contains([]string{"3F000", "42883", "42P01"}, server.Code)
}

// isConflict reports whether a transaction was rolled back for another one,
// which a server does whose default isolation is stricter than read committed.
func isConflict(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && isRolledBack(err) && strings.HasPrefix(server.Code, "40")
}

package postgresledger_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/ration-dev/ration/internal/servers"
)

// lock locks the log "project" as a person's transaction does, until release.
func lock(t testing.TB, server *servers.Postgres) (release func()) {
	t.Helper()
	conn := connect(t, server)
	if _, err := conn.Exec(t.Context(), "BEGIN; SELECT FROM ration.heads FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}
}

// waitUntilLocked waits until a transaction waits for a lock.
func waitUntilLocked(t testing.TB, server *servers.Postgres) {
	t.Helper()
	conn := connect(t, server)
	const query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
	for n := 0; n == 0; {
		if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
}

func connect(t testing.TB, server *servers.Postgres) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

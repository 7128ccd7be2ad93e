package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Postgres is a server process of a test, PostgreSQL's or PgBouncer's.
type Postgres struct {
	Addr string // host:port on loopback
	dir  string // of its data or its configuration
	line []string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// URL returns the server's address as a URL of its database postgres, whose
// user postgres needs no password.
func (s *Postgres) URL() string { return "postgres://postgres@" + s.Addr + "/postgres?sslmode=disable" }

// StartPostgres starts a PostgreSQL server on a free loopback port, with
// settings such as "lock_timeout=1s". It syncs its commits to the disk. The
// server is ready when Start returns, and is stopped when the test ends.
// Without PostgreSQL on this machine, the test is skipped, or fails if
// RATION_REQUIRE_POSTGRES=1.
func StartPostgres(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	initdb, postgres := binary(t, "initdb"), binary(t, "postgres")
	dir := folder(t)
	data := filepath.Join(dir, "data")
	out, err := asUser(exec.Command(initdb, "--pgdata", data, "--username", "postgres", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"), dir).CombinedOutput()
	if err != nil {
		t.Fatalf("postgrestest: initdb: %v: %s", err, out)
	}
	port := freePostgresPort(t)
	line := []string{postgres, "-D", data, "-p", port}
	for _, setting := range slices.Concat([]string{"listen_addresses=127.0.0.1", "unix_socket_directories="},
		settings) {
		line = append(line, "-c", setting)
	}
	return startPostgres(t, &Postgres{Addr: "127.0.0.1:" + port, dir: dir, line: line})
}

// StartPgBouncer starts a PgBouncer in transaction mode before a server, as
// StartPostgres does.
func StartPgBouncer(t testing.TB, server *Postgres) *Postgres {
	t.Helper()
	program := binary(t, "pgbouncer")
	dir, port := folder(t), freePostgresPort(t)
	host, serverPort, _ := net.SplitHostPort(server.Addr)
	files := map[string]string{
		"pgbouncer.ini": fmt.Sprintf("[databases]\n* = host=%s port=%s\n[pgbouncer]\nlisten_addr = "+
			"127.0.0.1\nlisten_port = %s\n"+
			"unix_socket_dir =\nauth_type = trust\nauth_file = users.txt\npool_mode = "+
			"transaction\ndefault_pool_size = 3\n",
			host, serverPort, port),
		"users.txt": "\"postgres\" \"\"\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatalf("postgrestest: %v", err)
		}
	}
	return startPostgres(t, &Postgres{Addr: "127.0.0.1:" + port, dir: dir, line: []string{program, "pgbouncer.ini"}})
}

// Restart starts a stopped server again, on the same port and with its data.
func (s *Postgres) Restart(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatalf("postgrestest: restart: %v", err)
	}
}

func startPostgres(t testing.TB, s *Postgres) *Postgres {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatalf("postgrestest: %v", err)
	}
	t.Cleanup(s.Stop)
	return s
}

// run starts the process and waits until it accepts connections.
func (s *Postgres) run() error {
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd, s.done = asUser(exec.Command(s.line[0], s.line[1:]...), s.dir), make(chan struct{})
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(s.cmd, s.done)
	if s.waitReady() {
		return nil
	}
	s.Stop()
	text, _ := os.ReadFile(log.Name())
	return fmt.Errorf("%s did not start; its log: %s", filepath.Base(s.line[0]), strings.TrimSpace(string(text)))
}

func (s *Postgres) waitReady() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		conn, err := pgconn.Connect(ctx, s.URL())
		if err == nil {
			_ = conn.Close(ctx)
			return true
		}
		select {
		case <-s.done:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Exec runs SQL statements on the server.
func (s *Postgres) Exec(t testing.TB, text string) {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatalf("postgrestest: %v", err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), text).ReadAll(); err != nil {
		t.Fatalf("postgrestest: %v", err)
	}
}

// binary returns the path of a program: the one in PATH, or the newest that
// Debian's packages have installed.
func binary(t testing.TB, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/", "/usr/sbin/"} {
		if found, _ := filepath.Glob(pattern + name); len(found) > 0 {
			return found[len(found)-1]
		}
	}
	if os.Getenv("RATION_REQUIRE_POSTGRES") == "1" {
		t.Fatalf("postgrestest: no %s on this machine, and RATION_REQUIRE_POSTGRES=1; install postgresql and pgbouncer",
			name)
	}
	t.Skipf("postgrestest: SKIPPED, no %s on this machine; install postgresql and pgbouncer to run this test", name)
	return ""
}

// folder returns a new folder for a server. It is not below that of the test,
// which the user of the server could not enter.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "postgrestest") //nolint:usetesting // see above
	if err != nil {
		t.Fatalf("postgrestest: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := giveToUser(dir); err != nil {
		t.Fatalf("postgrestest: %v", err)
	}
	return dir
}

func freePostgresPort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("postgrestest: %v", err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

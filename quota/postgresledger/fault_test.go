package postgresledger_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota/postgresledger"
)

// batch returns an append that lands if the log is as known.
func batch(known engine.Known, n byte) *engine.Append {
	data := make([]byte, 40)
	data[0] = n
	return &engine.Append{Known: known, NewEpoch: engine.NewEpoch(), Count: 1, Data: data, Any: true}
}

// write appends n batches to a new log and returns what a caller then knows.
func write(t testing.TB, l engine.Ledger, n int) (known engine.Known) {
	t.Helper()
	for i := range n {
		a := batch(known, byte(i+1))
		tail, err := l.Append(t.Context(), "project", a)
		if err != nil || !tail.Appended {
			t.Fatalf("append %d: %+v, %v", i, tail, err)
		}
		known = engine.Known{Epoch: tail.Epoch, After: tail.Position, Tag: engine.Tag(a.Data)}
	}
	return known
}

// position returns the newest position of the log.
func position(t testing.TB, l engine.Ledger) uint64 {
	t.Helper()
	tail, err := l.Read(t.Context(), "project", &engine.Read{})
	if err != nil {
		t.Fatal(err)
	}
	return tail.Position
}

// TestTheErrorsOfOpenSayWhatToDo: each says what to do, and none has the
// password.
func TestTheErrorsOfOpenSayWhatToDo(t *testing.T) {
	server := servers.StartPostgres(t)
	server.Exec(t, "CREATE ROLE jobs LOGIN; CREATE ROLE locked NOLOGIN")
	at := func(user, database string) string {
		return "postgres://" + user + ":hunter2@" + server.Addr + "/" + database + "?sslmode=disable"
	}
	for _, test := range []struct {
		name, url, says string
		want            error
	}{
		{"another scheme", "mysql://jobs:hunter2@host/db", "write postgres://", engine.ErrLedgerConfig},
		{"malformed", "postgres://jobs:hunter2@host:port/db", "write postgres://", engine.ErrLedgerConfig},
		{"a malformed parameter", at("jobs", "postgres") + "&connect_timeout=soon", "parameter",
			engine.ErrLedgerConfig},
		{"a malformed schema", at("jobs", "postgres") + "&schema=a%22b", "schema", engine.ErrLedgerConfig},
		{"no server", "postgres://jobs:hunter2@127.0.0.1:1/db", "can be reached", engine.ErrLedgerDown},
		{"no database", at("postgres", "missing"), "create the database", engine.ErrLedgerConfig},
		{"no login", at("locked", "postgres"), "pg_hba.conf", engine.ErrLedgerConfig},
		{"no rights", at("jobs", "postgres"), "grant this user", engine.ErrLedgerConfig},
	} {
		l, err := postgresledger.Open(test.url, nil)
		if err == nil { // the server is down
			_, err = l.Read(t.Context(), "project", &engine.Read{})
			l.Close()
		}
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) ||
			strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v; want %v, %q and no password", test.name, err, test.want, test.says)
		}
	}
}

// TestAUserWhoMayCreateNothingUsesWhatIsThere: a user who may not create
// anything uses what another one has created.
func TestAUserWhoMayCreateNothingUsesWhatIsThere(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server with users of its own, 3 seconds")
	}
	server := servers.StartPostgres(t)
	write(t, open(t, server.URL(), nil), 1)
	server.Exec(t, "CREATE ROLE jobs LOGIN; GRANT USAGE ON SCHEMA ration TO jobs; "+
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ration TO jobs")
	l := open(t, strings.Replace(server.URL(), "postgres@", "jobs@", 1), nil)
	tail, err := l.Append(t.Context(), "another", batch(engine.Known{}, 1))
	if err != nil || !tail.Appended || position(t, l) != 1 {
		t.Errorf("%+v, %v; want it appended", tail, err)
	}
	a := batch(engine.Known{Epoch: tail.Epoch}, 2)
	a.Trim = 1
	if tail, err = l.Append(t.Context(), "another", a); err != nil || tail.First != 2 {
		t.Errorf("%+v, %v; want it trimmed", tail, err)
	}
}

// TestConcurrentOpensUseOneSchema: of many processes that find no schema, each
// opens the ledger, and all use the same.
func TestConcurrentOpensUseOneSchema(t *testing.T) {
	server := servers.StartPostgres(t)
	var landed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			l, err := postgresledger.Open(server.URL()+"&schema=shared", nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer l.Close()
			tail, err := l.Append(t.Context(), "project", batch(engine.Known{}, 1))
			if err != nil {
				t.Error(err)
			} else if tail.Appended {
				landed.Add(1)
			}
		})
	}
	wg.Wait()
	if landed.Load() != 1 {
		t.Errorf("%d created the log; want 1", landed.Load())
	}
}

// TestCrashLosesNothingAcknowledged: what was acknowledged outlives a crash of
// the server, even if its default is to commit later. The ledger connects
// again.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	server := servers.StartPostgres(t, "synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=1GB")
	l := open(t, server.URL(), nil)
	known := write(t, l, 20)
	server.Stop()
	_, err := l.Append(t.Context(), "project", batch(known, 21))
	if !errors.Is(err, engine.ErrLedgerDown) && !errors.Is(err, engine.ErrInDoubt) {
		t.Errorf("%v; want ErrLedgerDown or ErrInDoubt", err)
	}
	if _, err = l.Append(t.Context(), "project", batch(known, 21)); !errors.Is(err, engine.ErrLedgerDown) {
		t.Errorf("%v; want ErrLedgerDown", err)
	}
	server.Restart(t)
	if n := position(t, l); n != 20 {
		t.Errorf("position %d; want 20", n)
	}
}

// TestADroppedSchemaIsALostLog: the ledger creates it again, and callers see
// that their log is gone.
func TestADroppedSchemaIsALostLog(t *testing.T) {
	server := servers.StartPostgres(t)
	l := open(t, server.URL(), nil)
	known := write(t, l, 3)
	server.Exec(t, "DROP SCHEMA ration CASCADE")
	tail, err := l.Append(t.Context(), "project", batch(known, 4))
	if err != nil || !tail.Diverged || tail.Epoch != 0 {
		t.Fatalf("%+v, %v; want that there is no log", tail, err)
	}
	write(t, l, 1)
}

// TestAServerThatDoesNotWriteIsDown: a server that does not write is down.
func TestAServerThatDoesNotWriteIsDown(t *testing.T) {
	server := servers.StartPostgres(t)
	l := open(t, server.URL(), nil)
	known := write(t, l, 1)
	server.Exec(t, "ALTER SYSTEM SET default_transaction_read_only = on")
	server.Exec(t, "SELECT pg_reload_conf()")
	l = open(t, server.URL(), nil)
	_, err := l.Append(t.Context(), "project", batch(known, 2))
	for err == nil { // until the server has read its configuration
		_, err = l.Append(t.Context(), "project", batch(known, 2))
	}
	if !errors.Is(err, engine.ErrLedgerDown) || !strings.Contains(err.Error(), "primary") {
		t.Errorf("%v; want ErrLedgerDown", err)
	}
	if n := position(t, l); n < 1 {
		t.Errorf("position %d; want 1 or more", n)
	}
}

// TestLockedLogIsBusy: a transaction that locks a log delays its callers, and
// then they get ErrLedgerBusy. Other logs, and reads, do not wait.
func TestLockedLogIsBusy(t *testing.T) {
	if testing.Short() {
		t.Skip("waits five seconds for a lock")
	}
	server := servers.StartPostgres(t)
	l := open(t, server.URL(), nil)
	known := write(t, l, 1)
	release := lock(t, server)
	_, err := l.Append(t.Context(), "project", batch(known, 2))
	if !errors.Is(err, engine.ErrLedgerBusy) || errors.Is(err, engine.ErrInDoubt) {
		t.Errorf("%v; want ErrLedgerBusy", err)
	}
	if tail, err := l.Append(t.Context(), "another", batch(engine.Known{}, 1)); err != nil || !tail.Appended {
		t.Errorf("another log: %+v, %v; want it appended", tail, err)
	}
	if n := position(t, l); n != 1 {
		t.Errorf("position %d; want 1", n)
	}
	release()
	if tail, err := l.Append(t.Context(), "project", batch(known, 2)); err != nil || tail.Position != 2 {
		t.Errorf("%+v, %v; want it appended", tail, err)
	}
}

// TestLostAnswers: a connection that is cut after a request leaves it in doubt.
// The batch is in the log once, or not at all.
func TestLostAnswers(t *testing.T) {
	server := servers.StartPostgres(t)
	proxy := startProxy(t, server.Addr)
	address := strings.Replace(server.URL(), server.Addr, proxy.addr, 1)
	l, direct := open(t, address, nil), open(t, server.URL(), nil)
	known := write(t, l, 1)
	for i := range 50 {
		position(t, l) // it has a connection
		proxy.cut.Store(true)
		a := batch(known, byte(i+2))
		_, err := l.Append(t.Context(), "project", a)
		if !errors.Is(err, engine.ErrInDoubt) {
			t.Fatalf("%v; want ErrInDoubt", err)
		}
		proxy.cut.Store(false)
		tail, err := direct.Read(t.Context(), "project", &engine.Read{Known: known})
		if err != nil || len(tail.Batches) > 1 {
			t.Fatalf("%+v, %v; want one batch or none", tail, err)
		}
		if len(tail.Batches) == 0 { // it may still land
			a := batch(known, byte(i+102))
			if _, err = direct.Append(t.Context(), "project", a); err != nil {
				t.Fatal(err)
			}
			tail, err = direct.Read(t.Context(), "project", &engine.Read{Known: known})
		}
		if err != nil {
			t.Fatal(err)
		}
		last := tail.Batches[len(tail.Batches)-1]
		known = engine.Known{Epoch: tail.Epoch, After: last.Position, Tag: last.Tag()}
	}
}

// TestAnAppendWhoseContextEndsIsInDoubt: a call whose context ends while it
// waits for the server is in doubt, and a read is not.
func TestAnAppendWhoseContextEndsIsInDoubt(t *testing.T) {
	server := servers.StartPostgres(t)
	l := open(t, server.URL(), nil)
	known := write(t, l, 1)
	release := lock(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := l.Append(ctx, "project", batch(known, 2))
		done <- err
	}()
	waitUntilLocked(t, server)
	cancel()
	if err := <-done; !errors.Is(err, engine.ErrInDoubt) {
		t.Errorf("%v; want ErrInDoubt", err)
	}
	release()
	if n := position(t, l); n > 2 {
		t.Errorf("position %d; want 1 or 2", n)
	}
}

// proxy forwards connections to a server. While cut is set, it closes a
// connection instead of the first answer.
type proxy struct {
	addr string
	cut  atomic.Bool
}

func startProxy(t testing.TB, server string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	p := &proxy{addr: listener.Addr().String()}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				io.Copy(upstream, client)
				upstream.Close()
			}()
			go p.answer(client, upstream)
		}
	}()
	return p
}

func (p *proxy) answer(client, upstream net.Conn) {
	defer client.Close()
	b := make([]byte, 1<<16)
	for {
		n, err := upstream.Read(b)
		if err != nil || p.cut.Load() {
			return
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}

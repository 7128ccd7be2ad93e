package redisledger

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/servers"
)

// proxy is between a client and a server, and can lose an answer.
type proxy struct {
	net.Listener
	server string
	cut    atomic.Bool            // the next answer is dropped, and its connection
	answer atomic.Pointer[string] // replaces the next answer
}

func startProxy(t *testing.T, server string) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: listener, server: server}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

func (p *proxy) URL() string { return "redis://" + p.Addr().String() }

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || p.cut.CompareAndSwap(true, false) {
			return
		}
		answer := string(buf[:n])
		if other := p.answer.Swap(nil); other != nil {
			answer = *other
		}
		if _, err := io.WriteString(client, answer); err != nil {
			return
		}
	}
}

// TestLostAnswers: an append whose answer is lost is in doubt, and is in the
// log exactly once. A read is repeated.
func TestLostAnswers(t *testing.T) {
	server := servers.StartRedis(t)
	way := startProxy(t, server.Addr)
	given := redis.NewClient(&redis.Options{Addr: way.Addr().String()}) // with go-redis' own retries
	t.Cleanup(func() { _ = given.Close() })
	for name, ledger := range map[string]*Ledger{"opened": open(t, way.URL(), nil), "given": New(given, nil)} {
		l := newLog(t, ledger, name)
		l.append(l.next())
		for i := range 30 {
			way.cut.Store(true)
			a := l.next()
			if _, err := l.Append(t.Context(), name, a); !errors.Is(err, engine.ErrInDoubt) ||
				errors.Is(err, engine.ErrLedgerDown) {
				t.Fatalf("%v; want that it is in doubt", err)
			}
			way.cut.Store(true)
			tail := l.read(l.known.After)
			if len(tail.Batches) != 1 || tail.Batches[0].Tag() != tagOf(a.Data) {
				t.Fatalf("%d: %d batches; want the one in doubt", i, len(tail.Batches))
			}
			l.known.After, l.known.Tag = tail.Position, tagOf(a.Data)
		}
		if got := l.all(); len(got) != 31 {
			t.Errorf("%d batches; want 31", len(got))
		}
	}
}

// TestAMalformedAnswerProvesNothing: what the script never answers proves
// nothing.
func TestAMalformedAnswerProvesNothing(t *testing.T) {
	server := servers.StartRedis(t)
	way := startProxy(t, server.Addr)
	l := newLog(t, impatient(t, way.URL(), nil), "a")
	l.append(l.next())
	for _, answer := range []string{"$-1\r\n", "*-1\r\n", "*0\r\n", "*1\r\n$2\r\nno\r\n",
		"*2\r\n$2\r\nno\r\n$0\r\n\r\n", ":1\r\n", "+OK\r\n", "$3\r\nold\r\n",
		"*3\r\n$88\r\n" + strings.Repeat("\x00", 88) + "\r\n$0\r\n\r\n$1\r\nx\r\n",
		"*2\r\n$88\r\n" + strings.Repeat("\x00", 88) + "\r\n$1\r\nx\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		_ = l.all() // so that it is connected
		way.answer.Store(&answer)
		if _, err := l.Append(t.Context(), "a", l.next()); !errors.Is(err, engine.ErrInDoubt) {
			t.Errorf("%q: %v; want that it is in doubt", answer, err)
		}
	}
	l.known = engine.Known{}
	if got := l.all(); len(got) != 12 {
		t.Errorf("%v; want 12 batches", got)
	}
}

// TestACanceledAppendSendsNothing: a context that has ended before is returned,
// and nothing is sent. One that ends while the server hangs leaves an append in
// doubt.
func TestACanceledAppendSendsNothing(t *testing.T) {
	server := servers.StartRedis(t)
	given := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: -1})
	t.Cleanup(func() { _ = given.Close() })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, ledger := range map[string]*Ledger{"opened": open(t, server.URL(), nil), "given": New(given, nil)} {
		l := newLog(t, ledger, name)
		l.append(l.next())
		if _, err := l.Append(ended, name, l.next()); err != context.Canceled {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := l.Read(ended, name, &engine.Read{}); err != context.Canceled {
			t.Errorf("%s: %v", name, err)
		}
		for _, err := range l.Accounts(ended) {
			if err != context.Canceled {
				t.Errorf("%s: %v", name, err)
			}
		}
		server.Hang(t)
		soon, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := l.Append(soon, name, l.next())
		_, readErr := l.Read(soon, name, &engine.Read{})
		stop()
		server.GoOn(t)
		if !errors.Is(err, engine.ErrInDoubt) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v; want that it is in doubt, and the deadline", name, err)
		}
		if !errors.Is(readErr, context.DeadlineExceeded) || errors.Is(readErr, engine.ErrInDoubt) {
			t.Errorf("%s: %v; want the deadline", name, readErr)
		}
		_ = l.Close()
		if _, err := l.Append(t.Context(), name, l.next()); !errors.Is(err, engine.ErrLedgerClosed) {
			t.Errorf("%s: %v; want that it is closed", name, err)
		}
	}
	if err := given.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the given client: %v; want that it stays open", err)
	}
}

// TestAFlushedScriptAppendsOnce: one more round trip, and no second append.
func TestAFlushedScriptAppendsOnce(t *testing.T) {
	server := servers.StartRedis(t)
	l := newLog(t, open(t, server.URL(), nil), "a")
	for range 20 {
		server.Do(t, "script", "flush")
		l.append(l.next())
	}
	if got := l.all(); len(got) != 20 {
		t.Errorf("%v", got)
	}
}

// TestTheErrorOfAServerSaysThatNothingWasAppended: the errors of a server that
// is up say that nothing was appended, and what to do.
func TestTheErrorOfAServerSaysThatNothingWasAppended(t *testing.T) {
	if testing.Short() {
		t.Skip("provokes the errors of a server one after the other, 3 seconds")
	}
	server := servers.StartRedis(t)
	l := newLog(t, impatient(t, server.URL(), nil), "a")
	l.append(l.next())
	refused := func(kind error, advice string) {
		t.Helper()
		a := l.next()
		if _, err := l.Append(t.Context(), l.account, a); !errors.Is(err, kind) ||
			!strings.Contains(err.Error(), "; "+advice) {
			t.Errorf("%v; want %v and %q", err, kind, advice)
		}
	}
	server.Do(t, "config", "set", "maxmemory", "1mb")
	refused(engine.ErrLedgerDown, "its memory is full: raise its maxmemory")
	if tail := l.read(1); tail.Position != 1 {
		t.Errorf("%+v; want that a full server can be read", tail)
	}
	server.Do(t, "config", "set", "maxmemory", "0")
	server.Do(t, "replicaof", "127.0.0.1", "1")
	refused(engine.ErrLedgerDown, "it is a replica: name the master")
	server.Do(t, "replicaof", "no", "one")
	server.Do(t, "config", "set", "min-replicas-to-write", "1")
	refused(engine.ErrLedgerDown, "too few of its replicas")
	server.Do(t, "config", "set", "min-replicas-to-write", "0")
	for _, key := range []string{"head", "batches"} {
		l.account, l.known = key, engine.Known{}
		server.Do(t, "set", "ration:{"+key+"}:"+key, "of another program")
		refused(engine.ErrLedgerConfig, "another program writes these keys")
		server.Do(t, "del", "ration:{"+key+"}:"+key)
		l.append(l.next())
	}
	server.Do(t, "acl", "setuser", "default", "-rpush")
	refused(engine.ErrLedgerConfig, "check the URL, the password and the user's rights")
	server.Do(t, "acl", "setuser", "default", "+@all", "-evalsha", "-eval")
	refused(engine.ErrLedgerConfig, "check the URL, the password and the user's rights")
	server.Do(t, "acl", "setuser", "default", "+@all")
	server.Do(t, "config", "set", "requirepass", "s3cret")
	pass := redis.NewClient(&redis.Options{Addr: server.Addr, Password: "s3cret"})
	t.Cleanup(func() { _ = pass.Close() })
	for url, advice := range map[string]string{server.URL(): "it wants a password",
		"redis://:wr0ng@" + server.Addr: "check the URL, the password"} {
		l.Ledger = impatient(t, url, nil)
		refused(engine.ErrLedgerConfig, advice)
	}
	l.Ledger = open(t, "redis://:s3cret@"+server.Addr, nil)
	l.append(l.next())
	if err := pass.ConfigSet(t.Context(), "maxclients", "1").Err(); err != nil {
		t.Fatal(err)
	}
	l.Ledger = impatient(t, "redis://:s3cret@"+server.Addr, nil)
	refused(engine.ErrLedgerDown, "close some of its clients")
}

// TestTheErrorOfAWrongServerSaysWhatToCheck: what answers at the address is not
// the server that the URL names, or nothing does. Nothing was sent.
func TestTheErrorOfAWrongServerSaysWhatToCheck(t *testing.T) {
	server := servers.StartRedis(t)
	web := startProxy(t, server.Addr)
	web.Listener.Close()
	page := func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") }
	denied := func(conn net.Conn) { _, _ = io.WriteString(conn, "-DENIED Redis is running in protected mode\r\n") }
	mute := func(conn net.Conn) {}
	for url, want := range map[string]struct {
		kind   error
		advice string
	}{
		"redis://" + answering(t, page):   {engine.ErrLedgerConfig, "it is not a Redis server: check the host"},
		"redis://" + answering(t, denied): {engine.ErrLedgerConfig, "it is in protected mode"},
		"redis://" + answering(t, mute):   {engine.ErrLedgerDown, "see that it is up"},
		"rediss://" + server.Addr:         {engine.ErrLedgerDown, "whether it speaks TLS"},
		"redis://" + web.Addr().String():  {engine.ErrLedgerDown, "see that it is up"},
		"redis+cluster://" + server.Addr: {engine.ErrLedgerConfig,
			"write redis:// instead of redis+cluster://"},
		"redis+sentinel://" + server.Addr + "/m": {engine.ErrLedgerConfig, "this server is not a sentinel"},
		"redis://" + server.Addr + "/999":        {engine.ErrLedgerConfig, "this server has fewer databases"},
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			l := newLog(t, impatient(t, url, nil), "a")
			if _, err := l.Append(t.Context(), "a", l.next()); !errors.Is(err, want.kind) ||
				!strings.Contains(err.Error(), want.advice) {
				t.Errorf("%v; want %v and %q", err, want.kind, want.advice)
			}
		})
	}
}

// answering returns the address of a server that answers each connection's
// first bytes once.
func answering(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = conn.Read(make([]byte, 512))
				answer(conn)
				_, _ = io.Copy(io.Discard, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

// TestNoLogIsCreatedBesideAnEarlierRelease: a log is not created beside a
// ledger of an earlier release, unless it is to be imported.
func TestNoLogIsCreatedBesideAnEarlierRelease(t *testing.T) {
	server := servers.StartRedis(t)
	for _, key := range []string{"meta", "log", "cool"} {
		server.Do(t, "rpush", "ration:{"+key+"}:"+key, "x")
		l := newLog(t, open(t, server.URL(), nil), key)
		_, err := l.Append(t.Context(), key, l.next())
		_, readErr := l.Read(t.Context(), key, &engine.Read{})
		for _, err := range []error{err, readErr} {
			if !errors.Is(err, engine.ErrLedgerConfig) || !strings.Contains(err.Error(), `account "`+key) ||
				!strings.Contains(err.Error(), "ration ledger copy") {
				t.Errorf("%s: %v; want ErrLedgerConfig that says what to do", key, err)
			}
		}
		newLog(t, open(t, server.URL(), &Options{Import: true}), key).append(l.next())
		if got := l.all(); len(got) != 1 {
			t.Errorf("%v; want the log that was imported", got)
		}
	}
}

// TestConcurrentAppendsKeepTheBound: of 64 callers that append on condition,
// each batch is in the log once, and no total is above the bound.
func TestConcurrentAppendsKeepTheBound(t *testing.T) {
	server := servers.StartRedis(t)
	ledgers := []*Ledger{open(t, server.URL(), nil), open(t, server.URL(), nil)}
	const callers, bound = 64, 500
	var wg sync.WaitGroup
	var appended atomic.Int64
	for i := range callers {
		l := newLog(t, ledgers[i%2], "a")
		wg.Go(func() {
			for tries := 0; tries < 1000; tries++ {
				a := l.next()
				a.Any, a.Data, a.Adds = false, batch(i<<16+tries, 45), []engine.Total{{Index: 5, Amount: 1}}
				a.Conditions = []engine.Condition{condition(bound-1, 5)}
				tail, err := l.Append(context.Background(), "a", a)
				switch {
				case err != nil || tail.Diverged:
					t.Errorf("%+v, %v", tail, err)
					return
				case tail.Appended:
					appended.Add(1)
					l.known = engine.Known{Epoch: tail.Epoch, After: tail.Position, Tag: tagOf(a.Data)}
				case tail.Totals[5] >= bound:
					return
				default:
					l.known = following(tail).Known
				}
			}
		})
	}
	wg.Wait()
	got := newLog(t, ledgers[0], "a").all()
	slices.Sort(got)
	if n := len(slices.Compact(got)); n != bound || appended.Load() != bound {
		t.Errorf("%d batches, %d answered as appended; want %d", n, appended.Load(), bound)
	}
}

func ExampleLedger_errors() {
	_, err := Open("redis://me:s3cret@host:port/0", nil)
	fmt.Println(err)
	// Output: redisledger: the redis URL has a port that is not a number from 1 to 65535; write redis://HOST:PORT/DB
}

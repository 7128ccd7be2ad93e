package inbound_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota/inbound"
	"github.com/ration-dev/ration/quota/inbound/redisstore"
	"github.com/ration-dev/ration/quota/inbound/sqlitestore"
)

// countLines returns how many lines of a text are line.
func countLines(text, line string) (n int) {
	for l := range strings.Lines(text) {
		if strings.TrimSpace(l) == line {
			n++
		}
	}
	return n
}

// openFile opens the file of a store with a connection of its own.
func openFile(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// lock takes the write lock of a file until unlock is called.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	tx, err := openFile(t, path).Begin()
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = tx.Rollback() }
}

// visit counts one request of each of n clients, a second apart.
func visit(t *testing.T, store inbound.Store, clock *clock, n int) {
	t.Helper()
	for i := range n {
		clock.Add(time.Second)
		r := &inbound.Request{Client: fmt.Sprint(i), Limits: both(10, time.Minute), Cost: 1,
			At: clock.Now().UnixMicro()}
		if _, err := store.Count(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAFileKeepsNoExpiredClients: an SQLite file keeps no more clients than
// came within the time for which they have an effect.
func TestAFileKeepsNoExpiredClients(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inbound.db")
	store, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	visit(t, store, newClock(), 1000)
	var rows int
	if err := openFile(t, path).QueryRow("SELECT count(*) FROM windows").Scan(&rows); err != nil || rows > 2*(121+8) {
		t.Errorf("%d rows, %v; want those of two minutes at most, and of the requests since they were deleted", rows,
			err)
	}
}

// TestEachKeyExpires: each key in Redis expires within two minutes and a
// minute after its last request, a limit of a minute.
func TestEachKeyExpires(t *testing.T) {
	server := servers.StartRedis(t)
	store, err := redisstore.Open(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	visit(t, store, newClock(), 20)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	keys, err := client.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 40 {
		t.Fatalf("%d keys, %v; want 40", len(keys), err)
	}
	for _, key := range keys {
		if ttl := client.PTTL(t.Context(), key).Val(); ttl <= time.Minute || ttl > 3*time.Minute {
			t.Errorf("%s expires in %s; want 1m to 3m", key, ttl)
		}
	}
}

// TestLostReplyIsCountedOnce: if the connection is cut before the reply, the
// request is an error and counts once, with a client that retries by default.
func TestLostReplyIsCountedOnce(t *testing.T) {
	server := servers.StartRedis(t)
	plain := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer plain.Close()
	r := &inbound.Request{Client: "a", Limits: both(10, time.Hour), Cost: 1}
	direct := redisstore.New(plain)
	if _, err := direct.Count(t.Context(), r); err != nil { // loads the script
		t.Fatal(err)
	}
	cutting := redis.NewClient(&redis.Options{Addr: cutReplies(t, server.Addr), Protocol: 2, DisableIdentity: true})
	store := redisstore.New(cutting)
	defer store.Close()
	if answer, err := store.Count(t.Context(), r); err == nil {
		t.Fatalf("%+v; want an error", answer)
	}
	answer, err := direct.Count(t.Context(), r)
	if err != nil || answer.WindowUsages[0].Used != 3 || answer.WindowUsages[1].Used != 3 {
		t.Errorf("%+v, %v; want 3 requests counted", answer, err)
	}
}

// cutReplies returns the address of a proxy that passes commands on, and closes
// the connection in place of the reply to a script.
func cutReplies(t *testing.T, addr string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go cutReply(conn, addr)
		}
	}()
	return listener.Addr().String()
}

func cutReply(conn net.Conn, addr string) {
	defer conn.Close()
	upstream, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer upstream.Close()
	command, reply := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := conn.Read(command)
		if err != nil {
			return
		}
		_, sent := upstream.Write(command[:n])
		m, received := upstream.Read(reply)
		if errors.Join(sent, received) != nil || strings.Contains(strings.ToLower(string(command[:n])), "evalsha") {
			return
		}
		if _, err := conn.Write(reply[:m]); err != nil {
			return
		}
	}
}

// TestAMalformedAddressShowsNoPassword: the error of a malformed address does
// not repeat its password.
func TestAMalformedAddressShowsNoPassword(t *testing.T) {
	for _, address := range []string{"redis://:secret@host:port/0", "redis://:secret@%zz/0", "http://:secret@host",
		"redis://:secret@host/x", "sec\x7fret"} {
		store, err := redisstore.Open(address)
		if err == nil {
			store.Close()
			t.Errorf("%q: no error", address)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestUserWithFewCommandsIsEnough: a user of Redis with the commands and keys
// that docs/inbound.md names is enough.
func TestUserWithFewCommandsIsEnough(t *testing.T) {
	server := servers.StartRedis(t)
	admin := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer admin.Close()
	rules := strings.Fields("ACL SETUSER guard on >secret ~inbound:* +eval +evalsha +time +get +set +del +lindex " +
		"+lpop +lrange +rpush +pexpire")
	line := make([]any, len(rules))
	for i, rule := range rules {
		line[i] = rule
	}
	if err := admin.Do(t.Context(), line...).Err(); err != nil {
		t.Fatal(err)
	}
	store, err := redisstore.Open("redis://guard:secret@" + server.Addr + "/0")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r := &inbound.Request{Client: "a", Limits: both(1, time.Hour), Cost: 1}
	for i, at := range []int64{0, 0, time.Now().Add(-3 * time.Hour).UnixMicro()} { // the last one deletes the log
		r.At = at
		if answer, err := store.Count(t.Context(), r); err != nil || answer.Admitted != (i != 1) {
			t.Errorf("request %d: %+v, %v", i, answer, err)
		}
	}
}

package redisledger_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestDeletedListGrantsTwice: the totals of a list that another client deleted
// begin anew when it is filled again. What the process knew of the old ones
// made its window look emptier than it was.
func TestDeletedListGrantsTwice(t *testing.T) {
	server, clock := redistest.Start(t), &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	l, search := fresh(t, server.URL(), clock.Now), charge("search", 10, quota.Sliding(20*time.Minute), "search")
	for range 7 {
		clock.Add(time.Second)
		mustSpend(t, l, "search", 1, day, search)
	}
	clock.Add(2 * time.Hour)
	for range 10 {
		clock.Add(15 * time.Second)
		mustSpend(t, l, "search", 1, day, search)
	}
	client := raw(t, server)
	for _, key := range do(t, client, "keys", "*:log:????????????").([]any) {
		do(t, client, "del", key)
	}
	clock.Add(time.Millisecond) // within the second for which the process sends what it knows
	if _, err := spend(t, l, "search", 1, day, search); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("%v; want a refusal of the 11th search of 20 minutes", err)
	}
}

// TestStoreForgets clears the script cache, the database, and single keys
// between calls.
func TestStoreForgets(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	search := charge("search", 1000, quota.Sliding(time.Hour), "search")
	del := func(pattern string) {
		do(t, client, append([]any{"del"}, do(t, client, "keys", pattern).([]any)...)...)
	}
	for _, c := range []struct {
		name   string
		forget func()
		all    quota.Units // what day then holds, of 100 for the search and 1 for the list
		search quota.Units
		method string // of the first entry, if it is there
	}{
		{"scripts", func() { do(t, client, "script", "flush") }, 101, 100, "search"},
		{"everything", func() { do(t, client, "flushall") }, 0, 0, ""},
		{"meta", func() { del("*:meta") }, 101, 101, "other"}, // counts too much, never too little
		{"the search budget's list", func() { del("*:log:????????????") }, 101, 100, "search"},
		{"the log", func() { del("*:log") }, 0, 100, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := fresh(t, server.URL(), nil)
			mustSpend(t, l, "search", 100, day, search)
			mustSpend(t, l, "list", 1, day)
			c.forget()
			mustSpend(t, l, "later", 5, day)
			mustSpend(t, l, "search", 10, day, search)
			mustSpend(t, l, "list", 3, day)
			if all, some := used(t, l, day), used(t, l, search); all != c.all+18 || some != c.search+10 {
				t.Errorf("%d units, %d of them searches; want %d and %d", all, some, c.all+18, c.search+10)
			}
			if c.name == "meta" { // give a label's number of the earlier life to another label
				record := do(t, client, "lindex", redisledger.LogKey(l, account), 0).(string)
				meta := do(t, client, "keys", "*:meta").([]any)[0]
				do(t, client, "hset", meta, fmt.Sprint("l", int(record[17])<<8|int(record[18])), "\x05wrong\x00\x00\x00")
			}
			log := entries(t, l)
			if first := log[0].Method; c.method != "" && first != c.method {
				t.Errorf("the first entry is of %q; want %q", first, c.method)
			}
			var last []string
			for _, e := range log[len(log)-3:] {
				last = append(last, fmt.Sprint(e.Method, e.Units))
			}
			if got := strings.Join(last, " "); got != "later5 search10 list3" {
				t.Errorf("the last entries are %q", got)
			}
		})
	}
}

func TestConfigurationIsNotDown(t *testing.T) {
	const secret = "s3cret-word"
	server := redistest.Start(t, "--requirepass", secret)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Password: secret})
	t.Cleanup(func() { _ = client.Close() })
	do(t, client, "acl", "setuser", "few", "on", ">"+secret, "~*", "+@all", "-evalsha")
	do(t, client, "acl", "setuser", "elsewhere", "on", ">"+secret, "~else*", "+@all")
	do(t, client, "acl", "setuser", "enough", "on", ">"+secret, "~t*", "-@all", "+evalsha", "+eval", "+hget", "+hmget", "+hset", "+hdel",
		"+lindex", "+llen", "+lrange", "+lset", "+ltrim", "+rpush", "+get", "+set", "+del", "+exists", "+hexists", "+hincrby", "+time", "+pexpire", "+pttl")
	for _, c := range []struct {
		name, url string
		want      error
	}{
		{"right", "redis://:" + secret + "@" + server.Addr, nil},
		{"least rights", "redis://enough:" + secret + "@" + server.Addr, nil},
		{"no password", "redis://" + server.Addr, quota.ErrLedgerConfig},
		{"wrong password", "redis://:not-" + secret + "@" + server.Addr, quota.ErrLedgerConfig},
		{"a command is not allowed", "redis://few:" + secret + "@" + server.Addr, quota.ErrLedgerConfig},
		{"the keys are not allowed", "redis://elsewhere:" + secret + "@" + server.Addr, quota.ErrLedgerConfig},
		{"no such database", "redis://:" + secret + "@" + server.Addr + "/99", quota.ErrLedgerConfig},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := fresh(t, c.url, nil)
			_, err := spend(t, l, "m", 1, day)
			if !errors.Is(err, c.want) || errors.Is(err, quota.ErrLedgerDown) {
				t.Fatalf("%v; want %v", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Fatalf("the password is in %q", err)
			}
		})
	}
}

// TestServerThatRepeatsThePassword: a server without HELLO and AUTH names their
// arguments in its error.
func TestServerThatRepeatsThePassword(t *testing.T) {
	server := redistest.Start(t, "--rename-command", "HELLO", "no-hello", "--rename-command", "AUTH", "no-auth")
	_, err := spend(t, fresh(t, "redis://:s3cret-word@"+server.Addr, nil), "m", 1, day)
	if !errors.Is(err, quota.ErrLedgerConfig) || !strings.Contains(err.Error(), "[hidden]") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v; want ErrLedgerConfig without the password", err)
	}
}

// TestOurKeyOfAnotherType: half a batch must not be written either.
func TestOurKeyOfAnotherType(t *testing.T) {
	server := redistest.Start(t)
	client := raw(t, server)
	for _, kind := range []string{"meta", "cool", "log", "search"} {
		do(t, client, "flushall")
		l := fresh(t, server.URL(), nil)
		search := charge("search", 1000, quota.Sliding(time.Hour), "search")
		mustSpend(t, l, "search", 1, day, search)
		if kind == "cool" { // without a cooldown the key is not read
			if err := l.SetCooldown(t.Context(), quota.Cooldown{Account: account, Budget: "x", Until: time.Now().Add(time.Hour)}); err != nil {
				t.Fatal(err)
			}
		}
		pattern := "*:" + kind
		if kind == "search" {
			pattern = "*:log:????????????"
		}
		found := do(t, client, "keys", "*").([]any)
		base, _, _ := strings.Cut(found[0].(string), "}:")
		key := base + "}:" + kind
		if matching := do(t, client, "keys", pattern).([]any); len(matching) > 0 {
			key = matching[0].(string)
			do(t, client, "del", key)
		}
		do(t, client, "xadd", key, "*", "a", "b")
		before := do(t, client, "dbsize")
		if _, err := spend(t, l, "search", 1, day, search); !errors.Is(err, quota.ErrLedgerConfig) {
			t.Errorf("%s is a stream: %v; want ErrLedgerConfig", kind, err)
		}
		if after := do(t, client, "dbsize"); after != before {
			t.Errorf("%s is a stream: %v keys, before %v", kind, after, before)
		}
	}
}

func TestDownIsSaidWithinASecond(t *testing.T) {
	if testing.Short() {
		t.Skip("waits five times for a second")
	}
	server := redistest.Start(t)
	client := raw(t, server)
	l := fresh(t, server.URL(), nil)
	mustSpend(t, l, "m", 1, day)
	expect := func(name string, l *redisledger.Ledger, want error) {
		t.Helper()
		began := time.Now()
		_, err := spend(t, l, "m", 1, day)
		if took := time.Since(began); !errors.Is(err, want) || took > 3*time.Second {
			t.Errorf("%s: %v after %s; want %v in about a second", name, err, took, want)
		}
	}
	do(t, client, "config", "set", "maxmemory", "1mb")
	expect("out of memory", l, quota.ErrLedgerDown)
	do(t, client, "config", "set", "maxmemory", "0")
	expect("memory again", l, nil)
	do(t, client, "replicaof", "127.0.0.1", "1")
	expect("a replica", l, quota.ErrLedgerDown)
	do(t, client, "replicaof", "no", "one")
	do(t, client, "config", "set", "min-replicas-to-write", "1")
	expect("too few replicas", l, quota.ErrLedgerDown)
	do(t, client, "config", "set", "min-replicas-to-write", "0")
	expect("up again", l, nil)
	server.Stop()
	expect("dead port", fresh(t, server.URL(), nil), quota.ErrLedgerDown)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	expect("silence", fresh(t, "redis://"+silent.Addr().String(), nil), quota.ErrLedgerDown)
	slow := redis.NewClient(&redis.Options{Addr: silent.Addr().String()}) // with its defaults, four tries of five seconds
	defer slow.Close()
	expect("silence, a client with its defaults", redisledger.New(slow, nil), quota.ErrLedgerDown)
}

func TestOpenShowsNoPassword(t *testing.T) {
	for _, url := range []string{"", "s3cret@host", "redis+sentinel://:s3cret@host", "s3cret://host", "redis://:s3cret@host:port/0",
		"redis://u:s3/cret@host", "redis://:s3cret@host/zero", "redis://:s3cret@host/0?nothing=1", "redis://:s3%zzcret@host"} {
		l, err := redisledger.Open(url, nil)
		if err == nil || l != nil || !errors.Is(err, quota.ErrLedgerConfig) {
			t.Errorf("%s: %v; want ErrLedgerConfig", url, err)
			continue
		}
		if strings.Contains(err.Error(), "cret") && !strings.HasPrefix(url, "s3cret") {
			t.Errorf("the password is in %q", err)
		}
	}
}

// TestDeadlineOfALookUp: a decision whose time ran out before the log was
// searched for what its caller knows failed with the deadline's error, which
// says neither that the ledger is down nor that the call was not charged.
func TestDeadlineOfALookUp(t *testing.T) {
	server := redistest.Start(t)
	for _, id := range []quota.ID{{}, {Client: quota.NewClient(), Seq: 1}} {
		l, isLate := fresh(t, server.URL(), nil), false
		redisledger.SetHost(l, func() time.Time {
			if isLate {
				isLate = false
				<-time.After(redisledger.Patience)
			}
			return time.Now()
		})
		known := mustSpend(t, l, "m", 1, day)
		isLate = true
		_, err := l.Spend(t.Context(), &quota.Batch{Account: account, Client: id.Client, Seq: id.Seq, Known: known,
			Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{day}}}})
		if !errors.Is(err, quota.ErrLedgerDown) || errors.Is(err, quota.ErrInDoubt) {
			t.Errorf("batch %v: %v; want a ledger that is down", id, err)
		}
	}
}

package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/redisledger"
)

// upstream counts the requests that reach it. It is the judge of these tests,
// and shares no code with the guard.
type upstream struct {
	*httptest.Server
	hits atomic.Int64
}

func startUpstream(t *testing.T) *upstream {
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { u.hits.Add(1) }))
	t.Cleanup(u.Close)
	return u
}

// send makes calls of one unit until one fails, at most most, and returns
// its error.
func (u *upstream) send(t *testing.T, g *quota.Guard, most int) error {
	t.Helper()
	for range most {
		if _, err := g.Spend(context.Background(), quota.Call{Account: account, Method: "m", Units: 1}); err != nil {
			return err
		}
		response, err := http.Get(u.URL)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	return nil
}

// spend makes calls that must all be granted.
func (u *upstream) spend(t *testing.T, g *quota.Guard, calls int) {
	t.Helper()
	if err := u.send(t, g, calls); err != nil {
		t.Fatalf("after %d calls: %v", u.hits.Load(), err)
	}
}

// exhaust makes calls until the ledger refuses one.
func (u *upstream) exhaust(t *testing.T, g *quota.Guard) {
	t.Helper()
	if err := u.send(t, g, 3*int(budgets[0].Limit)); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("after %d calls: %v; want a refusal", u.hits.Load(), err)
	}
}

// forgetful is a Redis server and a way for it to forget.
type forgetful struct {
	args   []string
	before func(*testing.T, *redistest.Server) // when a part of the calls has been made
	forget func(*testing.T, *redistest.Server)
}

func killed(t *testing.T, s *redistest.Server) {
	s.Stop()
	s.Restart(t)
}

var aof = []string{"--appendonly", "yes", "--appendfsync", "everysec"}

var forgetfuls = map[string]forgetful{
	"kill -9 without AOF":   {forget: killed},
	"kill -9 with AOF":      {args: aof, forget: killed},
	"kill -9 with RDB only": {forget: killed, before: func(t *testing.T, s *redistest.Server) { s.Do(t, "save") }},
	"FLUSHALL":              {forget: func(t *testing.T, s *redistest.Server) { s.Do(t, "flushall") }},
	"DEL of each key":       {forget: func(t *testing.T, s *redistest.Server) { deleteAll(t, s, "*") }},
	"DEL of the log":        {forget: func(t *testing.T, s *redistest.Server) { deleteAll(t, s, "*:log") }},
	"DEL of meta":           {forget: func(t *testing.T, s *redistest.Server) { deleteAll(t, s, "*:meta") }},
	"DEL of the sources":    {forget: func(t *testing.T, s *redistest.Server) { deleteAll(t, s, "*:[0-9a-f]*") }},
	"allkeys-lru":           {forget: evicting("allkeys-lru")},
	"allkeys-random":        {forget: evicting("allkeys-random")},
	"volatile-lru":          {forget: evicting("volatile-lru")},
	"AOF tail cut":          {args: aof, forget: rewriting(func(data, _ []byte) []byte { return data[:len(data)-30] })},
	"AOF cut to half":       {args: aof, forget: rewriting(func(data, _ []byte) []byte { return data[:len(data)/2] })},
	"older copy of the AOF": {args: aof, before: copyAOF, forget: rewriting(func(_, older []byte) []byte { return older })},
}

func deleteAll(t *testing.T, s *redistest.Server, pattern string) {
	t.Helper()
	keys := s.Do(t, "keys", pattern).([]any)
	if len(keys) == 0 {
		t.Logf("no key matches %s: %v", pattern, s.Do(t, "keys", "*"))
	}
	for _, key := range keys {
		s.Do(t, "del", key)
	}
}

// evicting fills the server's memory until the policy has evicted a key of
// the account.
func evicting(policy string) func(*testing.T, *redistest.Server) {
	return func(t *testing.T, s *redistest.Server) {
		t.Helper()
		c, ctx := s.Client(t), t.Context()
		keys := func() int { return len(c.Keys(ctx, "*{"+account+"}*").Val()) }
		had := keys()
		var used int
		for line := range strings.SplitSeq(c.Info(ctx, "memory").Val(), "\r\n") {
			_, _ = fmt.Sscanf(line, "used_memory:%d", &used)
		}
		s.Do(t, "config", "set", "maxmemory-policy", policy)
		s.Do(t, "config", "set", "maxmemory", used+200<<10)
		filler := string(bytes.Repeat([]byte("x"), 4<<10))
		for i := 0; keys() == had; i++ {
			if err := c.Set(ctx, fmt.Sprintf("filler%d", i), filler, redis.KeepTTL).Err(); err != nil && keys() == had {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %d of %d keys are left", policy, keys(), had)
		s.Do(t, "config", "set", "maxmemory", 0)
	}
}

// aofFile is the file to which the server appends, and its copy.
func aofFile(t *testing.T, s *redistest.Server) (file, older string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof"))
	if len(files) == 0 { // before Redis 7
		files, err = []string{filepath.Join(s.Dir, "appendonly.aof")}, nil
	}
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return files[0], filepath.Join(s.Dir, "older")
}

func copyAOF(t *testing.T, s *redistest.Server) {
	file, older := aofFile(t, s)
	data, err := os.ReadFile(file)
	if err := errors.Join(err, os.WriteFile(older, data, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// rewriting kills the server and changes its AOF before it starts again.
func rewriting(change func(data, older []byte) []byte) func(*testing.T, *redistest.Server) {
	return func(t *testing.T, s *redistest.Server) {
		t.Helper()
		s.Stop()
		file, copied := aofFile(t, s)
		older, _ := os.ReadFile(copied) // most have none
		data, err := os.ReadFile(file)
		if err := errors.Join(err, os.WriteFile(file, change(data, older), 0o600)); err != nil {
			t.Fatal(err)
		}
		s.Restart(t)
	}
}

// forgetting is one run of a fault: three hosts on one Redis.
type forgetting struct {
	*upstream
	server *redistest.Server
	hosts  []*host
	guards []*quota.Guard
}

func startForgetting(t *testing.T, fault forgetful) *forgetting {
	f := &forgetting{upstream: startUpstream(t), server: redistest.Start(t, fault.args...)}
	open := func() quota.Ledger {
		l, err := redisledger.Open(f.server.URL(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for range 3 {
		h := newHost(t, open)
		f.hosts, f.guards = append(f.hosts, h), append(f.guards, h.process())
	}
	f.spend(t, f.guards[1], 60)
	f.spend(t, f.guards[0], 40)
	if fault.before != nil {
		fault.before(t, f.server)
	}
	f.spend(t, f.guards[2], 70)
	f.spend(t, f.guards[1], 30)
	return f
}

// restart makes new processes of all hosts.
func (f *forgetting) restart() {
	for i, h := range f.hosts {
		f.guards[i] = h.process()
	}
}

func (f *forgetting) judge(t *testing.T, want int64) {
	t.Helper()
	if hits := f.hits.Load(); hits != want {
		t.Errorf("%d calls reached the upstream; want %d", hits, want)
	}
}

// noticed fails the test if a host that came back has reported nothing, or if
// its later processes do not know of it.
func (f *forgetting) noticed(t *testing.T, h *host) {
	t.Helper()
	report, ok := errors.AsType[*journal.RestoredError](errors.Join(h.seen...))
	if !ok {
		t.Fatalf("the host reported %v; want the restoration", h.seen)
	}
	later := journal.New(nil, h.dir, &journal.Options{Budgets: budgets})
	t.Cleanup(func() { _ = later.Close() })
	repairs, err := later.Repairs(account)
	want := journal.Repair{Account: account, Lost: true, Entries: report.Entries, Units: report.Units, Noted: report.Noted}
	if len(repairs) == 1 {
		want.At = repairs[0].At
	}
	if err != nil || len(repairs) != 1 || repairs[0] != want || report.Noted == 0 || time.Since(want.At).Abs() > time.Hour {
		t.Errorf("the journal keeps %+v (%v); want %+v", repairs, err, want)
	}
}

// TestForgetfulRedisGrantsTwice: whatever Redis forgets, the upstream sees the
// limit and not one call more: with one host of three that comes back, since it
// had heard of all calls, and with all of them.
func TestForgetfulRedisGrantsTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Redis 28 times, 18 seconds; TestFlushedRedisGrantsTwice is short")
	}
	t.Parallel()
	for name, fault := range forgetfuls {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %v", name, restarted), func(t *testing.T) {
				t.Run("one host returns", func(t *testing.T) {
					f := startForgetting(t, fault)
					f.spend(t, f.guards[0], 20)
					fault.forget(t, f.server)
					if restarted {
						f.restart()
					}
					f.exhaust(t, f.guards[0])
					f.judge(t, 500)
					f.exhaust(t, f.guards[1])
					f.exhaust(t, f.guards[2])
					f.judge(t, 500)
				})
				t.Run("all return", func(t *testing.T) {
					f := startForgetting(t, fault)
					fault.forget(t, f.server)
					if restarted {
						f.restart()
					}
					for _, g := range f.guards {
						f.spend(t, g, 10)
					}
					f.exhaust(t, f.guards[0])
					f.exhaust(t, f.guards[1])
					f.exhaust(t, f.guards[2])
					f.judge(t, 500)
				})
			})
		}
	}
}

// TestHostThatHadNotHeardGrantsTwice: a host that returns alone repeats at most
// what the others have spent since it last heard.
func TestHostThatHadNotHeardGrantsTwice(t *testing.T) {
	f := startForgetting(t, forgetful{})
	f.server.Do(t, "flushall")
	f.exhaust(t, f.guards[0]) // it had heard of 100 calls, and 100 followed
	f.judge(t, 600)
	f.exhaust(t, f.guards[1])
	f.exhaust(t, f.guards[2])
	f.judge(t, 600)
	f.noticed(t, f.hosts[0])
}

// TestUsedCopyGrantsTwice: the host that returns first misses nothing in an
// older copy of the log, and spends. What it heard there is later than what
// others heard of the calls that the copy lacks, and no statement about these.
func TestUsedCopyGrantsTwice(t *testing.T) {
	t.Parallel()
	fault := forgetfuls["older copy of the AOF"]
	f := startForgetting(t, fault)
	fault.forget(t, f.server) // the calls of guards 1 and 2 after the first 100
	f.spend(t, f.guards[0], 10)
	f.spend(t, f.guards[1], 10)
	f.exhaust(t, f.guards[0])
	f.judge(t, 500)
	f.exhaust(t, f.guards[1])
	f.exhaust(t, f.guards[2])
	f.judge(t, 500)
}

// TestStrangerRecreatesTheLog: a host notices the loss of its log although a
// client without a journal has spent since.
func TestStrangerRecreatesTheLog(t *testing.T) {
	f := startForgetting(t, forgetful{})
	f.spend(t, f.guards[0], 1)
	deleteAll(t, f.server, "*:log")
	stranger, err := quota.NewGuard(f.hosts[0].open(), budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.spend(t, stranger, 1)
	f.exhaust(t, f.guards[0])
	f.judge(t, 500)
}

// TestAcceptedLossIsRestored: hosts restore what an operator has given up.
func TestAcceptedLossIsRestored(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		f := startForgetting(t, forgetful{})
		f.server.Do(t, "flushall")
		must(t, f.guards[0].AcceptLoss(t.Context(), account))
		if restarted {
			f.restart()
		}
		before := f.hits.Load()
		for _, g := range f.guards {
			f.spend(t, g, 100)
		}
		f.exhaust(t, f.guards[2])
		f.judge(t, before+500)
		for _, h := range f.hosts {
			if err := errors.Join(h.seen...); err != nil {
				t.Errorf("a host has reported: %v", err)
			}
		}
	}
}

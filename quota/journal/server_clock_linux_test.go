package journal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
)

// movedServer is a redis-server whose clock the test moves while it runs.
type movedServer struct {
	*redistest.Server
	file string // what libfaketime adds to the time
}

// startMoved starts a server under libfaketime. Without that, it skips the
// test, or fails it if RATION_REQUIRE_TOOLS=1.
func startMoved(t *testing.T) *movedServer {
	t.Helper()
	libs, err := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	must(t, err)
	if len(libs) == 0 && os.Getenv("RATION_REQUIRE_TOOLS") == "1" {
		t.Fatal("no libfaketime on this machine, and RATION_REQUIRE_TOOLS=1; install libfaketime")
	}
	if len(libs) == 0 {
		t.Skip("no libfaketime on this machine")
	}
	s := &movedServer{file: filepath.Join(t.TempDir(), "offset")}
	s.write(t, 0)
	// With libc's malloc: that of jemalloc asks for the time before libfaketime
	// can answer.
	preload := "LD_PRELOAD=" + libs[0] + ":libc.so.6"
	s.Server = redistest.StartBy(t, []string{"/usr/bin/env", preload, "FAKETIME_TIMESTAMP_FILE=" + s.file, "FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1"})
	return s
}

func (s *movedServer) write(t *testing.T, by time.Duration) {
	t.Helper()
	next := s.file + ".next"
	must(t, os.WriteFile(next, fmt.Appendf(nil, "%+d", int(by.Seconds())), 0o600))
	must(t, os.Rename(next, s.file)) // the server reads it at any time
}

// lead returns how far the server's clock is ahead of the true time.
func (s *movedServer) lead(t *testing.T) time.Duration {
	t.Helper()
	now := s.Do(t, "time").([]any)
	seconds, err := strconv.ParseInt(now[0].(string), 10, 64)
	must(t, err)
	return time.Until(time.Unix(seconds, 0))
}

// move sets how far the server's clock is ahead, and waits until it is.
func (s *movedServer) move(t *testing.T, by time.Duration) {
	t.Helper()
	s.write(t, by)
	redistest.Await(t, "the server's clock", func() bool { return (s.lead(t) - by).Abs() < 2*time.Second })
}

// expire moves the clock ahead for a second, and longer if Redis has not yet
// deleted by itself what the clock says has expired.
func (s *movedServer) expire(t *testing.T, by time.Duration) {
	t.Helper()
	s.move(t, 0)
	s.Do(t, "set", "canary", "sings", "px", (by - time.Minute).Milliseconds())
	expired := func() string {
		_, rest, _ := strings.Cut(s.Do(t, "info", "stats").(string), "expired_keys:")
		n, _, _ := strings.Cut(rest, "\r\n")
		return n
	}
	before, began := expired(), time.Now()
	s.move(t, by)
	redistest.Await(t, "keys to expire", func() bool { return expired() != before && time.Since(began) > time.Second })
	s.move(t, 0)
}

// TestMovedServerClockGrantsTwice: the clock of a Redis server moves while it
// runs. Nothing is granted while it is ahead, a clock that is behind frees
// nothing, and once it is right again calls go on up to the limit.
func TestMovedServerClockGrantsTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for Redis to delete keys, three seconds")
	}
	for _, journaled := range []bool{false, true} {
		t.Run(fmt.Sprint("journal ", journaled), func(t *testing.T) {
			t.Parallel()
			server := startMoved(t)
			h := redisHost(t, server.Server)
			process := h.process
			if !journaled {
				process = func() *quota.Guard {
					l := h.open()
					t.Cleanup(func() { _ = l.Close() })
					g, err := quota.NewGuard(l, budgets, nil)
					must(t, err)
					return g
				}
			}
			moveClock(t, server, process)
		})
	}
}

// moveClock moves a server's clock and counts the calls that are sent
// meanwhile.
func moveClock(t *testing.T, server *movedServer, process func() *quota.Guard) {
	u, first := startUpstream(t), process()
	both := func() []*quota.Guard { return []*quota.Guard{first, process()} } // one that has caches, and a new one
	sent := int64(0)
	stopped := func(ahead time.Duration) {
		t.Helper()
		server.move(t, ahead)
		for _, g := range both() {
			redistest.Await(t, "a ClockError with both times", func() bool { // a refusal is remembered for up to a second
				err := u.send(t, g, 1000)
				wrong, ok := errors.AsType[*quota.ClockError](err)
				if !ok && !errors.Is(err, quota.ErrRefused) || u.hits.Load() != sent {
					t.Fatalf("%s ahead: %d calls were sent, then %v; want %d and a ClockError", ahead, u.hits.Load(), err, sent)
				}
				return ok && (wrong.Ledger.Sub(wrong.Caller)-ahead).Abs() < time.Minute
			})
		}
	}
	goOn := func(calls int) {
		t.Helper()
		for _, g := range both() {
			u.spend(t, g, calls/2)
		}
		sent += int64(calls)
	}
	refused := func(when string) {
		t.Helper()
		for _, g := range both() {
			if err := u.send(t, g, 1000); !errors.Is(err, quota.ErrRefused) || u.hits.Load() != sent {
				t.Fatalf("%s: %d calls were sent, then %v; want %d and a refusal", when, u.hits.Load(), err, sent)
			}
		}
	}
	goOn(200)
	for _, ahead := range []time.Duration{25 * time.Hour, 49 * time.Hour} {
		stopped(ahead)
	}
	server.move(t, 0)
	goOn(100)
	server.expire(t, 49*time.Hour)
	goOn(100)
	server.move(t, -25*time.Hour)
	goOn(100)
	refused("spent, 25 hours behind")
	server.move(t, 0)
	refused("spent, right again")
	for _, ahead := range []time.Duration{25 * time.Hour, 49 * time.Hour} {
		stopped(ahead)
		server.expire(t, ahead)
		refused(fmt.Sprint("spent, after a second of ", ahead))
	}
	if sent != 500 {
		t.Errorf("%d calls were sent; want the limit of 500", sent)
	}
}

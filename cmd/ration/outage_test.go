package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/allowance"
	"github.com/ration-dev/ration/quota/memledger"
)

// failingLedger is a ledger that is down while it is told to be.
type failingLedger struct {
	quota.Ledger
	down atomic.Bool
}

func (l *failingLedger) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if l.down.Load() {
		return nil, fmt.Errorf("%w: redis at x: connection refused; see that it is up and can be reached", quota.ErrLedgerDown)
	}
	return l.Ledger.Spend(ctx, batch)
}

// TestADeadLedgerIsInvisible: calls that went out without the ledger were
// reported as if nothing had happened. Each outage is said once, at its first
// call, and its end once, with what went out; the mark in the state folder
// keeps the beginning for the processes that come later.
func TestADeadLedgerIsInvisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var stderr bytes.Buffer
		open := func() (*app, *quota.Guard, *failingLedger) {
			a := &app{stdout: &stderr, stderr: &stderr, stateDir: dir, getenv: func(string) string { return "" }}
			inner := &failingLedger{Ledger: memledger.Open(nil)}
			var allowed *allowance.Ledger
			watch := a.watchOutages("redis://x", func() (quota.Units, error) { return allowed.Unrecorded("p") })
			allowed = allowance.New(&underAllowance{inner, watch}, filepath.Join(dir, "allowance"),
				&allowance.Options{Allow: func(quota.Call) quota.Units { return 20 }})
			t.Cleanup(func() { allowed.Close() })
			guard, err := quota.NewGuard(&overAllowance{allowed, watch}, []quota.Budget{{Account: "p", Name: "b", Limit: 1000, Window: quota.Sliding(time.Hour)}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return a, guard, inner
		}
		a, guard, inner := open()
		spend := func(want error) {
			t.Helper()
			if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 3}); !errors.Is(err, want) {
				t.Fatalf("%v; want %v", err, want)
			}
		}
		said := func(want string) {
			t.Helper()
			if got := stderr.String(); strings.Count(got, "\n") != strings.Count(want, "\n") || !strings.Contains(got, strings.TrimSpace(want)) {
				t.Fatalf("it says %q; want %q", got, want)
			}
			stderr.Reset()
		}
		spend(nil)
		began := time.Now().UTC().Truncate(time.Second)
		inner.down.Store(true)
		spend(nil)
		said("ration: the ledger redis://x is down since " + quota.Stamp(began) + ": redis at x: connection refused; calls go out within the allowance of when_ledger_down, and no budget shows them (3 units from this host in the last 24 hours)\n")
		time.Sleep(time.Minute)
		spend(nil)
		said("")
		if s := a.ledgerState(); !s.Down || s.Granted != 6 || *s.Unrecorded != 6 {
			t.Fatalf("%+v", s)
		}

		_, guard, other := open() // another process knows since when
		other.down.Store(true)
		spend(nil)
		said("is down since " + quota.Stamp(began) + ": redis at x: connection refused; calls go out within the allowance of when_ledger_down, and no budget shows them (9 units from this host in the last 24 hours)\n")
		other.down.Store(false)
		time.Sleep(time.Minute)
		spend(nil)
		said("ration: the ledger redis://x is back after 2m; 3 units went out from here without it, which no budget shows\n")
		if _, marked := readOutage(filepath.Join(dir, outageFile)); marked {
			t.Error("the mark stays")
		}
		other.down.Store(true) // another outage
		spend(nil)
		said("is down since " + quota.Stamp(began.Add(2*time.Minute)) + ": redis at x: connection refused; calls go out within the allowance of when_ledger_down, and no budget shows them (12 units from this host in the last 24 hours)\n")
	})
}

// TestDeadLedgerInTheMiddleOfARun kills the Redis of a run, and of a serve, whose
// regions are fetched one after the other, and starts it again when calls have
// gone out without it: both say it once each, off a terminal and with -q.
func TestDeadLedgerInTheMiddleOfARun(t *testing.T) {
	for _, command := range []string{"run", "serve"} {
		t.Run(command, func(t *testing.T) {
			s := newStand(t, &youtubetest.Options{Latency: 200 * time.Millisecond}, plentyOfUnits, "[{trending: {pages: 4}}]", eight...)
			s.write(t, "costs.yaml", mustRead(t, filepath.Join(s.dir, "costs.yaml"))+"when_ledger_down: {default: {allow: 100}}\n")
			url, restart := redisProcess(t, "--appendonly", "yes")
			args := []string{command, "-q", "--parallel", "1", "--ledger", url}
			if command == "serve" {
				args = append(args, "--jitter", "0s")
			}
			d := s.start(t, nil, args...)
			await := func(pages int64) {
				t.Helper()
				for end := time.Now().Add(time.Minute); s.upstream.Total() < pages; runtime.Gosched() {
					if time.Now().After(end) {
						t.Fatalf("%d pages within a minute:\n%s", s.upstream.Total(), d.text())
					}
				}
			}
			await(2)
			restart(func() {
				d.says("the ledger redis://127.0.0.1:[0-9]+/0 is down since 20.*; calls go out within the allowance of when_ledger_down")
				await(s.upstream.Total() + 1)
			})
			d.says("the ledger redis://127.0.0.1:[0-9]+/0 is back after .*; [0-9]+ units went out from here without it, which no budget shows")
			if command == "serve" {
				d.ends(syscall.SIGTERM)
			} else {
				<-d.done
				d.Wait()
			}
			if text := d.text(); strings.Count(text, "is down since") != 1 || strings.Count(text, "is back after") != 1 {
				t.Errorf("it says\n%s", text)
			}
		})
	}
}

// TestOutageIsSaidOnceByManyCalls: calls at once say it once.
func TestOutageIsSaidOnceByManyCalls(t *testing.T) {
	var stderr bytes.Buffer
	a := &app{stdout: &stderr, stderr: &stderr, stateDir: t.TempDir(), getenv: func(string) string { return "" }}
	watch := a.watchOutages("redis://x", func() (quota.Units, error) { return 1, nil })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			watch.failed(quota.ErrLedgerDown)
			watch.granted(1)
		})
	}
	wg.Wait()
	if got := strings.Count(stderr.String(), "\n"); got != 1 || watch.state().Granted != 8 {
		t.Errorf("%d lines, %+v; want one", got, watch.state())
	}
}

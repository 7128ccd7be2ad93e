package redisledger_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestGivenClientWaitsForAServerThatHangs: go-redis ignores deadlines without
// ContextTimeoutEnabled. Cooldowns, Keys, Accounts and Inspect waited for as
// long as a given client does, and ignored the end of their contexts.
func TestGivenClientWaitsForAServerThatHangs(t *testing.T) {
	server := redistest.Start(t)
	given := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: -1})
	t.Cleanup(func() { _ = given.Close() })
	l := redisledger.New(given, nil)
	mustSpend(t, l, "m", 1, day)
	server.Hang(t)
	goesOn := time.AfterFunc(10*time.Second, func() { server.GoOn(t) })
	defer server.GoOn(t)
	defer goesOn.Stop()
	var reads sync.WaitGroup
	began := time.Now()
	for name, read := range map[string]func(context.Context) error{
		"cooldowns": func(ctx context.Context) error { _, err := l.Cooldowns(ctx, account); return err },
		"inspect":   func(ctx context.Context) error { _, err := l.Inspect(ctx); return err },
		"keys": func(ctx context.Context) error {
			for _, err := range l.Keys(ctx, account) {
				return err
			}
			return nil
		},
		"accounts": func(ctx context.Context) error {
			for _, err := range l.Accounts(ctx) {
				return err
			}
			return nil
		},
	} {
		reads.Go(func() {
			if err := read(t.Context()); !errors.Is(err, quota.ErrLedgerDown) {
				t.Errorf("%s: %v; want that the ledger is down", name, err)
			}
			if took := time.Since(began); took > 8*time.Second {
				t.Errorf("%s took %s; want a second, or 3 of Inspect", name, took)
			}
		})
		reads.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			time.AfterFunc(50*time.Millisecond, cancel)
			err := read(ctx)
			if isEnded := errors.Is(err, context.Canceled) || name == "inspect"; !isEnded || time.Since(began) > 8*time.Second {
				t.Errorf("%s, canceled: %v after %s", name, err, time.Since(began))
			}
		})
	}
	reads.Wait()
}

// TestNamedCallerLeaves: a call with an id whose context ended waited for the
// ledger, for as long as that may take. It returns at once; its batch goes on,
// and repeating it by its id charges it once.
func TestNamedCallerLeaves(t *testing.T) {
	server := redistest.Start(t)
	l := fresh(t, server.URL(), nil)
	mustSpend(t, l, "m", 1, day)
	batch := &quota.Batch{Account: account, Client: quota.NewClient(), Seq: 1, Once: true,
		Requests: []quota.Request{{Method: "m", Units: 5, Charges: []*quota.Charge{day}}}}
	server.Hang(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := l.Spend(ctx, batch)
	server.GoOn(t)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, quota.ErrInDoubt) {
		t.Errorf("%v; want the caller's deadline, and that the call is in doubt", err)
	}
	if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
		t.Errorf("repeated: %v, %v", answers, err)
	}
	if standings, err := l.Standings(t.Context(), account, "", []*quota.Charge{day}); err != nil || standings[0].Used != 6 {
		t.Errorf("%+v, %v; want 6 used", standings, err)
	}
}

// TestCloseWaitsForSums: Close waited until a Sums had ended that read a long
// log, or asked a server that hangs. It ends that Sums.
func TestCloseWaitsForSums(t *testing.T) {
	server := redistest.Start(t)
	l, err := redisledger.OpenPatient(server.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	mustSpend(t, l, "m", 1, day)
	server.Hang(t)
	defer server.GoOn(t)
	ended := make(chan error, 1)
	go func() {
		for _, err := range l.Sums(t.Context(), quota.Query{Account: account}) {
			ended <- err
		}
	}()
	redistest.Await(t, "a Sums", func() bool { return redisledger.IsSumming(l) })
	began := time.Now()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("closed after %s; want at once", took)
	}
	if err := <-ended; !errors.Is(err, quota.ErrLedgerClosed) || time.Since(began) > 10*time.Second {
		t.Errorf("Sums: %v after %s; want that the ledger is closed", err, time.Since(began))
	}
}

// TestSlowMasterIsAskedAgain: behind sentinels, a master that was busy for more
// than 250 ms counted as silent, as a sentinel does, and was dialled anew.
func TestSlowMasterIsAskedAgain(t *testing.T) {
	server := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, server.Port(), 2) // one alone begins no failover
	l, err := redisledger.OpenPatient("redis+sentinel://"+sentinel.Addr+"/"+redistest.Master, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	mustSpend(t, l, "m", 1, day)
	other := raw(t, server)
	connections := func() string {
		for line := range strings.Lines(do(t, other, "info", "stats").(string)) {
			if strings.HasPrefix(line, "total_connections_received") {
				return line
			}
		}
		return ""
	}
	before := connections()
	server.Hang(t)
	time.AfterFunc(600*time.Millisecond, func() { server.GoOn(t) })
	mustSpend(t, l, "m", 1, day)
	if after := connections(); after != before || after == "" {
		t.Errorf("%q connections after the call, %q before it; want as many", after, before)
	}
}

package sqliteledger_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/filelock"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestRefusalNeedsNoLock: a refusal from the cache does not wait, and is valid
// until another handle or time returns units.
func TestRefusalNeedsNoLock(t *testing.T) {
	l, clock := timed(t)
	o := &sqliteledger.Options{Now: clock.Now, Sync: sqliteledger.Normal}
	day := charge("day", 5, hour)
	ask := func(l *sqliteledger.Ledger) (quota.Receipt, bool) {
		t.Helper()
		answers, err := l.Spend(t.Context(), one(1, day))
		if err != nil || answers[0].Err != nil && !errors.Is(answers[0].Err, quota.ErrRefused) {
			t.Fatal(answers, err)
		}
		return answers[0].Receipt, answers[0].Err == nil
	}
	var receipt quota.Receipt
	for range 5 {
		receipt, _ = ask(l)
		clock.Add(time.Second)
	}
	other := open(t, l.Path(), o)
	refuse := func(l *sqliteledger.Ledger) {
		t.Helper()
		if _, granted := ask(l); granted {
			t.Error("granted; want a refusal")
		}
	}
	refuse(l) // from now on it is cached
	lock := lockOf(t, l)
	began := time.Now()
	for range 10 {
		refuse(l)
	}
	if took := time.Since(began); took > time.Second/2 {
		t.Errorf("took %s while another had the turn", took)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := other.Refund(t.Context(), receipt); err != nil {
		t.Fatal(err)
	}
	if _, granted := ask(l); !granted {
		t.Error("refused after another handle gave a unit back")
	}
	refuse(l)
	refuse(l)
	clock.Add(time.Hour - 5*time.Second)
	if _, granted := ask(l); !granted {
		t.Error("refused after the first unit left the window")
	}
	refuse(l)
	clock.Add(time.Hour)
	if _, granted := ask(other); !granted {
		t.Error("refused by an empty window")
	}
}

// TestResentBatchIsRefusedFromMemory: batches with an id are refused from the
// cache too, unless they were granted before.
func TestResentBatchIsRefusedFromMemory(t *testing.T) {
	l, clock := timed(t)
	watcher := open(t, l.Path(), &sqliteledger.Options{Now: clock.Now})
	day := charge("day", 100, hour)
	ask := func(client, seq uint64) quota.Answer {
		t.Helper()
		batch := one(60, day)
		batch.Client, batch.Seq = client, seq
		answers, err := l.Spend(t.Context(), batch)
		if err != nil || answers[0].Err != nil && !errors.Is(answers[0].Err, quota.ErrRefused) {
			t.Fatal(answers, err)
		}
		return answers[0]
	}
	first := ask(7, 1)
	for _, id := range [][2]uint64{{9, 1}, {7, 5}} { // an unknown client, and one with another batch
		if answer := ask(id[0], id[1]); answer.Err == nil {
			t.Errorf("client %d, batch %d was granted", id[0], id[1])
		}
		before, err := watcher.Commits()
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if answer := ask(id[0], id[1]); answer.Err == nil {
				t.Errorf("client %d, batch %d was granted", id[0], id[1])
			}
			if again := ask(7, 1); again.Err != nil || again.Receipt != first.Receipt {
				t.Errorf("%+v; want the first answer, %+v", again, first)
			}
		}
		if after, err := watcher.Commits(); after != before || err != nil {
			t.Errorf("%d commits, %v; want none", after-before, err)
		}
	}
}

// TestCanceledWhileBusy: an operation that the handle was too busy to begin
// before the caller's context ended returns an error.
func TestCanceledWhileBusy(t *testing.T) {
	l, _ := timed(t)
	day := charge("day", 100, hour)
	receipt := spend(t, l, 40, day)
	l.Occupied(func() {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if s, err := l.Standings(ctx, "my-project", "", []*quota.Charge{day}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("standings %+v, %v; want the context's end", s, err)
		}
		for name, write := range map[string]func(context.Context) error{
			"settle": func(ctx context.Context) error { return l.Settle(ctx, receipt, 1) },
			"refund": func(ctx context.Context) error { return l.Refund(ctx, receipt) },
			"cooldown": func(ctx context.Context) error {
				return l.SetCooldown(ctx, quota.Cooldown{Account: "my-project", For: time.Hour})
			},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if err := write(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v; want the context's end", name, err)
			}
			cancel()
		}
	})
	if n := used(t, l, day); n != 40 {
		t.Errorf("%d used; want 40, since nothing was done", n)
	}
}

// lockOf returns the lock of a ledger's file, held.
// TestSpendOnAHungDisk: a spend that another transaction of its process keeps
// waiting, with or without an id, ends as busy.
func TestSpendOnAHungDisk(t *testing.T) {
	day := charge("day", 10, hour)
	synctest.Test(t, func(t *testing.T) {
		l := open(t, fresh(t), &sqliteledger.Options{Now: time.Now})
		l.Occupied(func() {
			named := one(1, day)
			named.Client, named.Seq = 1, 1
			for _, batch := range []*quota.Batch{named, one(1, day)} {
				if _, err := l.Spend(t.Context(), batch); !errors.Is(err, quota.ErrLedgerBusy) {
					t.Errorf("%v; want ErrLedgerBusy", err)
				}
			}
		})
	})
}

func lockOf(t *testing.T, l *sqliteledger.Ledger) *filelock.Lock {
	t.Helper()
	lock, err := filelock.Open(l.Path() + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	if err := lock.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	return lock
}

// TestCachedRefusalNamesTheNewLog: a log of counters alone was refused before
// it was written, and the cached refusal went on without its epoch.
func TestCachedRefusalNamesTheNewLog(t *testing.T) {
	l, clock := timed(t)
	batch := one(1, charge("hour", 5, quota.Counter(time.Hour)))
	stop := quota.Cooldown{Account: batch.Account, Until: clock.Now().Add(time.Hour), Reason: "stop"}
	if err := l.SetCooldown(t.Context(), stop); err != nil {
		t.Fatal(err)
	}
	var done quota.RestoreResult
	for range 2 {
		answers, err := l.Spend(t.Context(), batch)
		if err != nil || answers[0].Receipt.Epoch != done.Known.Epoch {
			t.Fatalf("%+v, %v; want the epoch %x", answers, err, done.Known.Epoch)
		}
		if done, err = l.Restore(t.Context(), &quota.Restoration{Account: batch.Account}); err != nil {
			t.Fatal(err)
		}
	}
}

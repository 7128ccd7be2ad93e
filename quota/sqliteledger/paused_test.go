package sqliteledger_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// offline is a ledger whose disk may be gone.
type offline struct {
	*sqliteledger.Ledger
	isDown bool
}

func (o *offline) err() error {
	if o.isDown {
		return fmt.Errorf("the disk is gone: %w", quota.ErrLedgerDown)
	}
	return nil
}

func (o *offline) Spend(ctx context.Context, b *quota.Batch) ([]quota.Answer, error) {
	if err := o.err(); err != nil {
		return nil, err
	}
	return o.Ledger.Spend(ctx, b)
}

func (o *offline) Standings(ctx context.Context, account, key string, c []*quota.Charge) ([]quota.Standing, error) {
	if err := o.err(); err != nil {
		return nil, err
	}
	return o.Ledger.Standings(ctx, account, key, c)
}

// TestOutageOfAPausedMachine: a machine is paused for an hour, and an outage
// begins while its clock, which is right, is in doubt. The calls of the outage
// were dated by the earlier of the two times.
func TestOutageOfAPausedMachine(t *testing.T) {
	dir := t.TempDir()
	inner, err := sqliteledger.Open(filepath.Join(dir, "ration.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	clock, up, isSynced := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), time.Hour, false
	pass := func(d time.Duration) { clock, up = clock.Add(d), up+d }
	uptime := func() time.Duration { return up }
	inner.SetHost(func() time.Time { return clock }, 7, uptime, func() bool { return isSynced })
	ledger := &offline{Ledger: inner}
	budgets := []quota.Budget{{Account: "p", Name: "hours", Limit: 10, Window: quota.Sliding(2 * time.Hour)}}
	calls := func(most int) (granted int) { // of one process
		l := journal.New(ledger, filepath.Join(dir, "journal"), &journal.Options{Budgets: budgets, Allow: func(quota.Call) quota.Units { return 10 },
			Now: func() time.Time { return clock }, Uptime: func() (uint64, time.Duration) { return 7, up }})
		guard, err := quota.NewGuard(l, budgets, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range most {
			if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: 1}); err == nil {
				granted++
			}
		}
		return granted
	}
	calls(1)
	clock = clock.Add(time.Hour) // paused
	pass(4 * time.Hour)
	ledger.isDown = true
	if n := calls(9); n != 9 {
		t.Fatalf("%d calls in the outage; want 9", n)
	}
	made := clock
	pass(time.Minute)
	ledger.isDown = false
	calls(1) // in doubt
	pass(time.Minute)
	isSynced = true // a time server says that the clock is right
	calls(1)
	pass(time.Hour)
	if n := calls(20); n != 0 {
		t.Errorf("9 calls at %s, one since, and %d at %s; want 10 in two hours", made, n, clock)
	}
	for e, err := range inner.Entries(t.Context(), quota.Query{Account: "p"}) {
		if err != nil {
			t.Fatal(err)
		}
		if early := made.Sub(e.At); e.Units > 0 && early > time.Second && early < 2*time.Hour {
			t.Errorf("a call is dated %s early", early)
		}
	}
}

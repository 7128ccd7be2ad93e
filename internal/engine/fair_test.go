package engine_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/memledger"
)

// distant is a ledger that is a time away.
type distant struct {
	engine.Ledger
	away time.Duration
}

func (l *distant) travel(ctx context.Context) {
	if l.away > 0 {
		select {
		case <-time.After(l.away):
		case <-ctx.Done():
		}
	}
}

func (l *distant) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	l.travel(ctx)
	return l.Ledger.Append(ctx, account, a)
}

func (l *distant) Read(ctx context.Context, account string, r *engine.Read) (*engine.Tail, error) {
	l.travel(ctx)
	return l.Ledger.Read(ctx, account, r)
}

// waits spends again and again, waiting its turn with a ticket, until a time.
func waits(ctx context.Context, t *testing.T, a *engine.Account, b *engine.Budget, granted *atomic.Int64) {
	for ctx.Err() == nil {
		var ticket engine.ID
		for {
			answers, err := a.Spend(context.Background(), &engine.Request{
				Labels: engine.Labels{Method: "list"}, Amounts: engine.Amounts{Units: 1, Calls: 1},
				Budgets: []*engine.Budget{b}, Ticket: ticket, Wait: 20_000_000})
			if err != nil {
				t.Error(err)
				return
			}
			if answers[0].Refusal == nil {
				granted.Add(1)
				break
			}
			ticket = answers[0].Ticket
			select {
			case <-time.After(time.Until(time.UnixMicro(answers[0].Refusal.RetryAt))):
			case <-ctx.Done():
				return
			}
		}
	}
}

// TestADistantProcessGetsItsShare: four processes wait for room in a budget of
// 200 in two seconds, for twenty, one of them 20 ms away. Each gets at least
// half of an equal share, and so do three when one of them has died.
func TestADistantProcessGetsItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		alive, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		mortal, kill := context.WithTimeout(t.Context(), 20*time.Second)
		defer kill()
		var granted [4]atomic.Int64
		var wg sync.WaitGroup
		for i := range granted {
			ctx, away := alive, time.Duration(0)
			switch i {
			case 0:
				away = 20 * time.Millisecond
			case 3:
				ctx = mortal // with a ticket, which nobody ends
			}
			a := engine.New(&distant{ledger, away}, nil).Account(account)
			b := sliding("short", 200, 2*time.Second)
			wg.Go(func() { waits(ctx, t, a, b, &granted[i]) })
		}
		check := func(processes int64, shares []int64) {
			t.Helper()
			total := int64(0)
			for _, share := range shares {
				total += share
			}
			t.Logf("granted %d, %d in all", shares, total)
			for i, share := range shares {
				if share < total/processes/2 {
					t.Errorf("process %d got %d of %d; want half of an equal share", i, share, total)
				}
			}
		}
		<-mortal.Done()
		var shares [4]int64
		for i := range granted {
			shares[i] = granted[i].Swap(0)
		}
		check(4, shares[:])
		wg.Wait()
		for i := range granted {
			shares[i] = granted[i].Load()
		}
		check(3, shares[:3])
		checkSliding(t, logOf(t, ledger), sliding("short", 200, 2*time.Second))
	})
}

// TestAHigherLaneComesFirst: a call of a lane with a higher priority is granted
// before those that have waited for longer.
func TestAHigherLaneComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		spend := func(a *engine.Account, priority int64, ticket engine.ID) *engine.Answer {
			answers, err := a.Spend(context.Background(), &engine.Request{Labels: engine.Labels{Method: "list"},
				Amounts: engine.Amounts{Units: 1, Calls: 1},
				Budgets: []*engine.Budget{sliding("short", 1, time.Second)},
				Wait:    20_000_000, Priority: priority, Ticket: ticket})
			if err != nil {
				t.Fatal(err)
			}
			return answers[0]
		}
		low, high := engine.New(ledger, nil).Account(account), engine.New(ledger, nil).Account(account)
		spend(low, 0, engine.ID{})
		waitsLow := spend(low, 0, engine.ID{})
		waitsHigh := spend(high, 1, engine.ID{})
		time.Sleep(time.Second + time.Millisecond)
		if early := spend(low, 0, waitsLow.Ticket); early.Refusal == nil {
			t.Error("the lower lane was granted before the higher one")
		}
		if no := spend(high, 1, waitsHigh.Ticket).Refusal; no != nil {
			t.Errorf("the higher lane was refused until %d", no.RetryAt)
		}
	})
}

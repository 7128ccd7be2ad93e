package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/memledger"
)

// gatedLedger counts appends, and holds each back until the gate lets it pass;
// nil lets all pass.
type gatedLedger struct {
	engine.Ledger
	gate    chan struct{}
	appends atomic.Int64
}

func (l *gatedLedger) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	l.appends.Add(1)
	if l.gate != nil {
		<-l.gate
	}
	return l.Ledger.Append(ctx, account, a)
}

// TestACallerWhoseContextEndsReturnsPromptlyAndIsRefunded ends the contexts of
// callers whose grant is being appended, who wait behind it, and who have just
// been told to lead.
func TestACallerWhoseContextEndsReturnsPromptlyAndIsRefunded(t *testing.T) {
	ledger := &gatedLedger{Ledger: memledger.Open(nil), gate: make(chan struct{})}
	a := engine.New(ledger, nil).Account(account)
	day := sliding("day", 1000, time.Hour)
	request := &engine.Request{Amounts: engine.Amounts{Units: 5, Calls: 1}, Budgets: []*engine.Budget{day}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for range 8 {
		go func() {
			_, err := a.Spend(ctx, request)
			ended <- err
		}()
	}
	for ledger.appends.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	for range 8 {
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v; want the context's", err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("a caller still waits for the ledger after its context has ended")
		}
	}
	close(ledger.gate)
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		used := int64(-1)
		if err := a.View(t.Context(), func(v *engine.View) { used = v.Held(day, "").Used }); err != nil {
			t.Fatal(err)
		}
		if used == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d units are still charged; want a refund", used)
		}
	}
}

// TestContextsThatEndAtAnyTimeLeaveNoChargeAndNoCallerBehind ends contexts at
// random while other callers go on.
func TestContextsThatEndAtAnyTimeLeaveNoChargeAndNoCallerBehind(t *testing.T) {
	a := engine.New(memledger.Open(nil), nil).Account(account)
	day := sliding("day", 1<<40, time.Hour)
	request := &engine.Request{Amounts: engine.Amounts{Units: 1, Calls: 1}, Budgets: []*engine.Budget{day}}
	var granted atomic.Int64
	var wg sync.WaitGroup
	for caller := range 16 {
		wg.Go(func() {
			for i := range 200 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration((caller*i)%50)*time.Microsecond)
				if caller%4 == 0 {
					cancel()
					ctx, cancel = context.Background(), func() {}
				}
				if _, err := a.Spend(ctx, request); err == nil {
					granted.Add(1)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	used := int64(-1)
	for deadline := time.Now().Add(5 * time.Second); used != granted.Load() && time.Now().Before(deadline); {
		if err := a.View(t.Context(), func(v *engine.View) { used = v.Held(day, "").Used }); err != nil {
			t.Fatal(err)
		}
	}
	if used != granted.Load() {
		t.Errorf("%d units are charged for %d calls that were granted", used, granted.Load())
	}
}

// TestCallersOfAProcessShareAppends lets 64 callers ask while an append is in
// flight.
func TestCallersOfAProcessShareAppends(t *testing.T) {
	ledger := &gatedLedger{Ledger: memledger.Open(nil), gate: make(chan struct{})}
	a := engine.New(ledger, nil).Account(account)
	request := &engine.Request{Amounts: engine.Amounts{Units: 1, Calls: 1},
		Budgets: []*engine.Budget{sliding("day", 1000, time.Hour)}}
	var wg sync.WaitGroup
	var started sync.WaitGroup
	ids := make(chan engine.ID, 64)
	for range 64 {
		started.Add(1)
		wg.Go(func() {
			started.Done()
			answers, err := a.Spend(t.Context(), request)
			if err != nil || answers[0].Refusal != nil {
				t.Error(err, answers)
				return
			}
			ids <- answers[0].IDs[0]
		})
	}
	started.Wait()
	time.Sleep(50 * time.Millisecond) // until all are queued
	close(ledger.gate)
	wg.Wait()
	close(ids)
	if n := ledger.appends.Load(); n > 8 {
		t.Errorf("64 callers took %d appends; want them to share", n)
	}
	different := map[engine.ID]bool{}
	for id := range ids {
		different[id] = true
	}
	if len(different) != 64 {
		t.Errorf("%d different ids; want 64", len(different))
	}
}

// lossyLedger loses the answers to some appends. Of every three that are lost,
// one is appended, one is never appended, and one is appended later, after what
// is appended next.
type lossyLedger struct {
	engine.Ledger
	mu    sync.Mutex
	count int
	lost  int
	late  *engine.Append
}

func (l *lossyLedger) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count++; l.count%3 == 0 && l.late == nil {
		l.lost++
		switch l.lost % 3 {
		case 0:
			_, _ = l.Ledger.Append(ctx, account, a)
		case 1:
			l.late = copyOf(a)
		}
		return nil, fmt.Errorf("answer %d is lost: %w", l.lost, engine.ErrInDoubt)
	}
	tail, err := l.Ledger.Append(ctx, account, a)
	if late := l.late; late != nil {
		l.late = nil
		late.Any, late.NotAfter = true, 0 // the worst case: nothing keeps it out
		if t, lateErr := l.Ledger.Append(ctx, account, late); lateErr == nil && t.Diverged {
			return nil, errors.New("a late append has diverged")
		}
	}
	return tail, err
}

// copyOf copies what the engine uses again after Append has returned.
func copyOf(a *engine.Append) *engine.Append {
	c := *a
	c.Adds = append([]engine.Total(nil), a.Adds...)
	c.Conditions = nil
	return &c
}

// TestALostAnswerChargesACallExactlyOnce cuts 200 answers of the ledger while
// callers of two processes spend, and compares what was granted with the log.
func TestALostAnswerChargesACallExactlyOnce(t *testing.T) {
	ledger := &lossyLedger{Ledger: memledger.Open(nil)}
	accounts := []*engine.Account{engine.New(ledger, nil).Account(account), engine.New(ledger, nil).Account(account)}
	var requests []*engine.Request // of two processes, each with a budget of its own
	for range accounts {
		requests = append(requests, &engine.Request{Amounts: engine.Amounts{Units: 1, Calls: 1},
			Budgets: []*engine.Budget{sliding("day", 1<<40, time.Hour)}})
	}
	var mu sync.Mutex
	granted := map[engine.ID]bool{}
	isDone := func() bool {
		ledger.mu.Lock()
		defer ledger.mu.Unlock()
		return ledger.lost >= 200
	}
	var wg sync.WaitGroup
	for caller := range 8 {
		wg.Go(func() {
			for !isDone() {
				answers, err := accounts[caller%2].Spend(t.Context(), requests[caller%2])
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if id := answers[0].IDs[0]; granted[id] {
					t.Errorf("the id %s was granted twice", id)
				} else {
					granted[id] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, a := range accounts {
		if _, err := a.Spend(t.Context(), requests[0]); err != nil { // so that nothing stays in doubt
			t.Fatal(err)
		}
	}
	counted := countedGrants(logOf(t, ledger.Ledger))
	missing := 0
	for id := range granted {
		if counted[id] != 1 {
			missing++
		}
	}
	if missing > 0 || len(counted) != len(granted)+len(accounts) {
		t.Errorf("%d calls were granted, %d of them without one record that counts; %d records count in the log",
			len(granted), missing, len(counted)-len(accounts))
	}
}

// countedGrants returns how many records that count there are of each grant.
func countedGrants(records []engine.Record) map[engine.ID]int {
	counted := map[engine.ID]int{}
	for _, r := range records {
		if r.Kind == engine.KindGrant {
			counted[r.ID]++
		}
	}
	for _, r := range records {
		if r.Kind == engine.KindVoid {
			delete(counted, r.Ref)
		}
	}
	return counted
}

// forgetfulLedger loses its log together with the answer to an append, which
// was not carried out, once.
type forgetfulLedger struct {
	engine.Ledger
	isDue bool
}

func (l *forgetfulLedger) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	if l.isDue {
		l.isDue, l.Ledger = false, memledger.Open(nil)
		return nil, fmt.Errorf("the ledger restarts: %w", engine.ErrInDoubt)
	}
	return l.Ledger.Append(ctx, account, a)
}

// TestALogThatIsLostWithAnAnswerHasARecordOfTheCall restores the log while an
// append is in doubt.
func TestALogThatIsLostWithAnAnswerHasARecordOfTheCall(t *testing.T) {
	ledger := &forgetfulLedger{Ledger: memledger.Open(nil)}
	a := engine.New(ledger, nil).Account(account)
	request := &engine.Request{Amounts: engine.Amounts{Units: 1, Calls: 1},
		Budgets: []*engine.Budget{sliding("day", 1000, time.Hour)}}
	for i := range 3 {
		ledger.isDue = i == 2
		answers, err := a.Spend(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if counted := countedGrants(logOf(t, ledger.Ledger)); counted[answers[0].IDs[0]] != 1 || len(counted) != i+1 {
			t.Errorf("call %d was granted, and %d records count in the log; want %d with its own", i, len(counted), i+1)
		}
	}
}

package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ration-dev/ration/quota"
)

// Operation is one operation of one of several concurrent clients of a ledger,
// with its result and times. Processes exchange operations as JSON.
type Operation struct {
	Client       int
	Call, Return int64 // nanoseconds since the epoch, by the host's clock
	Spend        bool
	Units        quota.Units // of a spend; for a settle or refund, by how much it changed what is used
	Granted      bool
	Remaining    quota.Units // as a refusal says
}

// shared is the budget of a history. It is small, so that it is nearly spent
// most of the time.
var shared = charge("shared", 60, quota.Sliding(24*time.Hour))

// Play spends, settles and refunds n times as one of several clients of a fresh
// ledger. The clients are goroutines or processes of one host. It returns its
// operations; those of all clients together are the input of CheckHistory.
func Play(ctx context.Context, l quota.Ledger, client, n int) ([]Operation, error) {
	type held struct {
		receipt quota.Receipt
		units   quota.Units
	}
	random := rand.New(rand.NewPCG(uint64(client), 20261120))
	var history []Operation
	var grants []held
	for len(history) < n {
		op := Operation{Client: client, Call: time.Now().UnixNano()}
		var err error
		if n := len(grants); n > 0 && random.IntN(2) == 0 {
			i := random.IntN(n)
			to := max(0, quota.Units(random.IntN(int(grants[i].units)+4))-2) // now and then nothing, or one more than it was
			op.Units = to - grants[i].units
			if to == 0 {
				err = l.Refund(ctx, grants[i].receipt)
			} else {
				err = l.Settle(ctx, grants[i].receipt, to)
			}
			switch grants[i].units = to; {
			case errors.Is(err, quota.ErrStays):
				op.Units, err = 0, nil
				fallthrough
			case to == 0:
				grants = slices.Delete(grants, i, i+1)
			}
		} else {
			op.Spend, op.Units = true, 1+quota.Units(random.IntN(12))
			var answers []quota.Answer
			answers, err = l.Spend(ctx, &quota.Batch{Account: account, Requests: []quota.Request{request("m", op.Units, shared)}})
			if err == nil {
				refused, isRefusal := errors.AsType[*quota.RefusedError](answers[0].Err)
				switch {
				case answers[0].Err == nil:
					op.Granted, grants = true, append(grants, held{answers[0].Receipt, op.Units})
				case isRefusal:
					op.Remaining = refused.Remaining
				default:
					err = answers[0].Err
				}
			}
		}
		if op.Return = time.Now().UnixNano(); err != nil {
			return history, fmt.Errorf("operation %d of client %d: %w", len(history), client, err)
		}
		history = append(history, op)
	}
	return history, nil
}

// CheckHistory checks that the operations of all clients are linearizable:
// there is an order of them, consistent with their times, in which each
// spend is granted if its units fit and refused with the right remainder if
// they do not.
func CheckHistory(t testing.TB, history []Operation) {
	t.Helper()
	granted, refused := 0, 0
	for _, op := range history {
		if op.Spend && op.Granted {
			granted++
		} else if op.Spend {
			refused++
		}
	}
	t.Logf("%d operations: %d spends granted, %d refused", len(history), granted, refused)
	if granted == 0 || refused == 0 {
		t.Error("nothing granted or nothing refused: such a history says little")
	}
	if result := linearizable(history); result != porcupine.Ok {
		t.Errorf("linearizability of the history: %s; want %s", result, porcupine.Ok)
	}
}

func linearizable(history []Operation) porcupine.CheckResult {
	operations := make([]porcupine.Operation, len(history))
	for i, op := range history {
		operations[i] = porcupine.Operation{ClientId: op.Client, Output: op, Call: op.Call, Return: op.Return}
	}
	return porcupine.CheckOperationsTimeout(budgetModel(), operations, time.Minute)
}

// budgetModel models the budget; its state is the used units.
func budgetModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return quota.Units(0) },
		Step: func(state, _, output any) (bool, any) {
			used, op := state.(quota.Units), output.(Operation)
			fits := used+op.Units <= shared.Limit
			switch {
			case !op.Spend:
				return true, used + op.Units
			case op.Granted:
				return fits, used + op.Units
			}
			return !fits && op.Remaining == max(0, shared.Limit-used), used
		},
	}
}

// concurrentHistory plays with eight goroutines.
func concurrentHistory(w *world) {
	var mu sync.Mutex
	var all sync.WaitGroup
	var history []Operation
	for client := range 8 {
		all.Go(func() {
			mine, err := Play(w.ctx, w, client, 60)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				w.Error(err)
			}
			history = append(history, mine...)
		})
	}
	all.Wait()
	CheckHistory(w, history)
}

package quota_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// meanwhile is a ledger of one process on which others act while the process's
// next append is on its way.
type meanwhile struct {
	quota.Ledger
	act  func()
	lose bool           // the append is not carried out, and its answer is lost
	lost *engine.Append // what arrives later
}

func (l *meanwhile) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	if act := l.act; act != nil {
		l.act = nil
		if act(); l.lose {
			l.lost = &engine.Append{Known: a.Known, NewEpoch: a.NewEpoch, Any: true, Data: a.Data, Count: a.Count,
				Adds: slices.Clone(a.Adds)}
			return nil, fmt.Errorf("%w: the connection broke", quota.ErrInDoubt)
		}
	}
	return l.Ledger.Append(ctx, account, a)
}

// twoProcesses returns the guards of two processes on one ledger, and the view
// that the second has of it.
func twoProcesses(t *testing.T) (first, second *quota.Guard, ledger *meanwhile) {
	ledger = &meanwhile{Ledger: memledger.Open(nil)}
	guardOn := func(l quota.Ledger) *quota.Guard {
		guard, err := quota.NewGuard(l, []quota.Budget{budget("day", 1000, 24*time.Hour)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return guard
	}
	first, second = guardOn(ledger.Ledger), guardOn(ledger)
	if _, err := second.Spend(t.Context(), call("search", 1)); err != nil {
		t.Fatal(err)
	}
	return first, second, ledger
}

func named(name string, units quota.Units) quota.Call {
	c := call("search", units)
	c.ID = quota.NameID(name, "")
	return c
}

// TestCallOfTwoProcessesAtOnceIsChargedOnce: both get the same grants.
func TestCallOfTwoProcessesAtOnceIsChargedOnce(t *testing.T) {
	for _, count := range []int{1, 3} {
		first, second, ledger := twoProcesses(t)
		var theirs []*quota.Grant
		var theirErr error
		ledger.act = func() { theirs, theirErr = first.SpendTogether(t.Context(), named("a name", 100), count, 0) }
		ours, err := second.SpendTogether(t.Context(), named("a name", 100), count, 0)
		if err := errors.Join(err, theirErr); err != nil {
			t.Fatal(err)
		}
		for i := range count {
			if ours[i].Token() != theirs[i].Token() {
				t.Errorf("call %d of %d: two grants; want one", i, count)
			}
		}
		if n := used(t, first); n != 1+100*quota.Units(count) {
			t.Errorf("%d calls of 100: %d units; want each charged once", count, n)
		}
	}
}

// TestCallThatIsRefundedMeanwhileIsChargedAnew: a call is not granted by a
// record that another process has refunded.
func TestCallThatIsRefundedMeanwhileIsChargedAnew(t *testing.T) {
	first, second, ledger := twoProcesses(t)
	ledger.act = func() {
		grant, err := first.Spend(t.Context(), named("a name", 100))
		if err == nil {
			err = grant.Refund(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if _, err := second.Spend(t.Context(), named("a name", 100)); err != nil || used(t, first) != 101 {
			t.Errorf("%v, %d units; want a grant, and 101", err, used(t, first))
		}
	}
}

// TestIDOfAnotherCallMeanwhileIsAnError: the call that was recorded first has
// the ID.
func TestIDOfAnotherCallMeanwhileIsAnError(t *testing.T) {
	first, second, ledger := twoProcesses(t)
	ledger.act = func() {
		if _, err := first.Spend(t.Context(), named("a name", 100)); err != nil {
			t.Error(err)
		}
	}
	other := named("a name", 100)
	other.Method = "videos"
	if _, err := second.Spend(t.Context(), other); !errors.Is(err, quota.ErrReused) || used(t, first) != 101 {
		t.Errorf("%v, %d units; want that the ID was used, and 101", err, used(t, first))
	}
}

// TestRefusedCallAfterALostAnswerIsChargedWhenItIsGranted: an append is lost,
// and the call is refused since another process has spent its units. Granted at
// last, it must be in the log.
func TestRefusedCallAfterALostAnswerIsChargedWhenItIsGranted(t *testing.T) {
	first, second, ledger := twoProcesses(t)
	var most *quota.Grant
	ledger.lose = true
	ledger.act = func() {
		var err error
		if most, err = first.Spend(t.Context(), call("search", 950)); err != nil {
			t.Error(err)
		}
	}
	if _, err := second.Spend(t.Context(), named("a name", 100)); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("%v; want a refusal", err)
	}
	if err := most.Refund(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Spend(t.Context(), call("search", 10)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := second.Spend(t.Context(), named("a name", 100)); err != nil || used(t, first) != 111 {
			t.Errorf("%v, %d units; want a grant, and 111", err, used(t, first))
		}
	}
}

// TestCallThatArrivesLateAndIsAskedAgainStaysCharged: the append of a call that
// was refused arrives after all, and another process is granted the call by it.
func TestCallThatArrivesLateAndIsAskedAgainStaysCharged(t *testing.T) {
	first, second, ledger := twoProcesses(t)
	ledger.lose = true
	ledger.act = func() {
		if _, err := first.Spend(t.Context(), call("search", 950)); err != nil {
			t.Error(err)
		}
	}
	if _, err := second.Spend(t.Context(), named("a name", 100)); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("%v; want a refusal", err)
	}
	if tail, err := ledger.Append(t.Context(), account, ledger.lost); err != nil || !tail.Appended {
		t.Fatalf("%+v, %v", tail, err)
	}
	if _, err := first.Spend(t.Context(), named("a name", 100)); err != nil {
		t.Fatal(err)
	}
	if err := second.Note(t.Context(), quota.Note{Call: call("search", 1)}); err != nil {
		t.Fatal(err)
	}
	if n := used(t, first); n != 1052 {
		t.Errorf("%d units; want 1052, with the call that was granted", n)
	}
}

// TestCallThatIsAskedAgainAfterAHangUpStaysCharged: the caller's context ends
// while its call is recorded. The call that is asked again may be sent, so it
// must not be refunded for the first.
func TestCallThatIsAskedAgainAfterAHangUpStaysCharged(t *testing.T) {
	_, second, ledger := twoProcesses(t)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan bool)
	ledger.act = func() {
		cancel()
		<-gone
	}
	if _, err := second.Spend(ctx, named("a name", 100)); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v; want the context's error", err)
	}
	close(gone)
	for range 3 {
		if _, err := second.Spend(t.Context(), named("a name", 100)); err != nil || used(t, second) != 101 {
			t.Errorf("%v, %d units; want the grant, and 101", err, used(t, second))
		}
	}
}

package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/internal/engine"
)

// spender is a process that spends on a ledger until it is told that the
// account has moved, and then on the new one until the budget is spent. It
// settles each call to one unit.
type spender struct {
	from, to *engine.Engine
	calls    []engine.ID
}

func (s *spender) run(ctx context.Context, limit int64, began func()) error {
	e, b := s.from, budget(limit)
	for {
		answer, err := trySpend(ctx, e, b)
		if errors.Is(err, engine.ErrLedgerBusy) {
			continue
		}
		if err != nil {
			return err
		}
		switch r := answer.Refusal; {
		case r == nil:
			s.calls = append(s.calls, answer.IDs[0])
			if err := e.Account(project).Settle(ctx, answer.IDs[0], engine.Amounts{Units: 1, Calls: 1}); err != nil {
				return err
			}
			if len(s.calls) == 5 {
				began()
			}
		case r.Moved != nil && e == s.from:
			e = s.to
		case r.Moved != nil && r.Moved.Name == engine.Arriving:
		default:
			return nil
		}
	}
}

// TestAMoveLosesAndDoublesNothing moves an account between all kinds of ledger
// while processes spend. Each call that was granted is in the new ledger once,
// and as settled; together they are the limit.
func TestAMoveLosesAndDoublesNothing(t *testing.T) {
	kinds := makers(t)
	for fromKind, newFrom := range kinds {
		for toKind, newTo := range kinds {
			t.Run(fromKind+" to "+toKind, func(t *testing.T) {
				testMoveWhileSpending(t, newFrom(t), newTo(t))
			})
		}
	}
}

func testMoveWhileSpending(t *testing.T, from, to store) {
	const limit = 400
	var running, begun sync.WaitGroup
	spenders := make([]*spender, 4)
	failures := make([]error, len(spenders))
	for i := range spenders {
		s := &spender{from: engine.New(from.connect(), nil), to: engine.New(to.connect(), nil)}
		spenders[i] = s
		begun.Add(1)
		running.Go(func() {
			began := sync.OnceFunc(begun.Done)
			defer began()
			failures[i] = s.run(t.Context(), limit, began)
		})
	}
	begun.Wait()
	c := copyOf(from, to)
	moving, err := c.Move(t.Context(), project)
	if err != nil {
		t.Fatal(err)
	}
	running.Wait()
	if err := moving.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	entries, units := counted(t, c.To)
	calls := 0
	for i, s := range spenders {
		if failures[i] != nil {
			t.Fatal(failures[i])
		}
		for _, id := range s.calls {
			calls++
			if e, ok := entries[id]; !ok || e.Amounts.Units != 1 {
				t.Errorf("call %s: %t, %+v; want 1 unit", id, ok, e.Amounts)
			}
		}
	}
	// A call needs 2 units to be granted, and each of the others may have held a
	// ticket for 2 when the last one was refused.
	least := int64(limit + 1 - 2*len(spenders))
	if calls != len(entries) || units != int64(calls) || units < least || units >= limit {
		t.Errorf("%d calls, %d entries, %d units; want all equal, and nearly %d", calls, len(entries), units, limit)
	}
	checkComplete(t, c.From, c.To)
	checkMoved(t, from, "", to.name)
}

// fill gives a log every kind of record.
func fill(t *testing.T, l engine.Ledger) {
	t.Helper()
	e, b := engine.New(l, &engine.Options{Host: "a"}), budget(1000)
	b.Config, b.Identity = "config", "day"
	a := e.Account(project)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var ids []engine.ID
	for range 10 {
		ids = append(ids, granted(t, e, b))
	}
	check(a.Settle(t.Context(), ids[0], engine.Amounts{Units: 30, Calls: 1}))
	check(a.Settle(t.Context(), ids[1], engine.Amounts{}))
	_, err := a.Spend(t.Context(),
		&engine.Request{Kind: engine.KindNote, Force: true, Name: "correction", Text: "by hand",
			Amounts: engine.Amounts{Units: 7}},
		&engine.Request{Labels: engine.Labels{Key: "shop", Host: "h"}, Budgets: []*engine.Budget{b}, Lease: 1e9,
			Amounts: engine.Amounts{Units: 1, Calls: 1, More: []engine.Amount{{Measure: "tokens", N: 5}}}},
		&engine.Request{Wait: 20e6, Budgets: []*engine.Budget{b}, Amounts: engine.Amounts{Units: 990}})
	check(err)
	check(a.Cool(t.Context(), "day", "", 3600e6, 0, 0, "quota exceeded"))
	_, err = a.Claim(t.Context(), engine.ClaimRequest{Name: "pass IN", Owner: "me", Hold: 10 * time.Minute})
	check(err)
	unknown := &engine.Record{Kind: engine.KindVoid, Ref: ids[2], Kept: true, At: 5, ID: engine.ID{Client: 1, Seq: 1}}
	log := newLog(l, "", project)
	check(log.read(t.Context(), nil))
	check(log.add(t.Context(), []*engine.Record{unknown}))
}

// TestAMoveCopiesEveryKindOfRecord between all kinds of ledger, and reports
// what the old one holds.
func TestAMoveCopiesEveryKindOfRecord(t *testing.T) {
	kinds := makers(t)
	for fromKind, newFrom := range kinds {
		for toKind, newTo := range kinds {
			t.Run(fromKind+" to "+toKind, func(t *testing.T) {
				from, to := newFrom(t), newTo(t)
				fill(t, from.connect())
				c := copyOf(from, to)
				planned, err := c.Plan(t.Context(), project)
				if err != nil {
					t.Fatal(err)
				}
				if tail, err := c.To.Read(t.Context(), project, &engine.Read{}); err != nil || tail.Epoch != 0 {
					t.Errorf("%+v, %v; want that a plan changes nothing", tail, err)
				}
				names, err := c.Accounts(t.Context(), []string{"known"})
				if diff := cmp.Diff([]string{"known", project}, names); diff != "" || err != nil {
					t.Error(err, diff)
				}
				var moved []*Report
				all, err := c.MoveAll(t.Context(), names, func(r *Report) { moved = append(moved, r) })
				if err == nil {
					err = FollowAll(t.Context(), all, 0)
				}
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(planned, moved[1]); diff != "" || planned.Units != 30+7*2+7+1 ||
					planned.Entries != 11 ||
					planned.Keys != 1 || len(planned.Cooldowns) != 1 {
					t.Errorf("%+v %s", planned, diff)
				}
				checkComplete(t, c.From, c.To)
				was, used := counted(t, c.From)
				is, uses := counted(t, c.To)
				if diff := cmp.Diff(was, is); diff != "" || used != uses {
					t.Error(diff)
				}
				checkMoved(t, from, "", to.name)
				again, err := c.Move(t.Context(), project)
				if err != nil || again.Report().State != Moved || again.Report().Late != 0 {
					t.Errorf("%+v, %v", again, err)
				}
			})
		}
	}
}

// TestAnInterruptedMoveGoesOn cuts a move off at each of its appends, which was
// not sent or whose answers are lost, and completes it by running it again. The
// new ledger is never open before it holds everything.
func TestAnInterruptedMoveGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("moves an account again and again, 3 seconds")
	}
	for _, isSent := range []bool{false, true} {
		for appends, isDone := int64(0), false; !isDone; appends++ {
			t.Run(fmt.Sprint(isSent, appends), func(t *testing.T) { isDone = testInterruption(t, appends, isSent) })
			if isDone && appends < 5 {
				t.Errorf("%d appends are enough", appends)
			}
		}
	}
}

// testInterruption reports whether the move was completed with as many appends.
func testInterruption(t *testing.T, appends int64, isSent bool) (isDone bool) {
	from, to := memory("memory:from"), memory("memory:to")
	spends := engine.New(from.connect(), nil)
	source := newLog(from.connect(), "", project)
	for n := range uint64(3) {
		var batch []*engine.Record
		for i := range uint64(maxBatch) {
			batch = append(batch, &engine.Record{Kind: engine.KindGrant, ID: engine.ID{Client: 1, Seq: n*maxBatch + i},
				Kept: true, At: time.Now().UnixMicro(), Amounts: engine.Amounts{Units: 1, Calls: 1}})
		}
		if err := source.add(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	c, left := copyOf(from, to), new(atomic.Int64)
	left.Store(appends)
	broken := *c
	broken.From, broken.To = &faulty{c.From, left, isSent}, &faulty{c.To, left, isSent}
	_, err := broken.Move(t.Context(), project)
	if err == nil {
		return true
	}
	wasOpen := spend(t, spends, budget(1e6)).Refusal == nil
	arriving := newLog(to.connect(), "", project)
	if err := arriving.read(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	unfinished, ok := errors.AsType[*UnfinishedError](err)
	isOpened := !arriving.isClosed() && len(records(t, c.To)) > 0
	saysClosed := ok == arriving.arrives() || isOpened
	saysOpen := !ok || isSent || unfinished.FromOpen == wasOpen
	if !saysClosed || !saysOpen || !errors.Is(err, errLost) {
		t.Errorf("%v, while the old ledger is open: %t, and the new one: %+v", err, wasOpen, arriving.moved)
	}
	if isOpened && (wasOpen || len(records(t, c.To)) < len(records(t, c.From))) {
		t.Errorf("the new ledger is open with %d records of %d", len(records(t, c.To)), len(records(t, c.From)))
	}
	if _, err := c.Move(t.Context(), project); err != nil {
		t.Fatal(err)
	}
	checkComplete(t, c.From, c.To)
	if was, is := len(records(t, c.From)), len(records(t, c.To)); was != is {
		t.Errorf("%d records; want %d", is, was)
	}
	return false
}

// TestSeveralProcessesMoveAnAccount: the same copy may run twice.
func TestSeveralProcessesMoveAnAccount(t *testing.T) {
	from, to := memory("memory:from"), memory("memory:to")
	fill(t, from.connect())
	var wg sync.WaitGroup
	failures := make([]error, 4)
	for i := range failures {
		wg.Go(func() { _, failures[i] = copyOf(from, to).Move(t.Context(), project) })
	}
	wg.Wait()
	if err := errors.Join(failures...); err != nil {
		t.Fatal(err)
	}
	checkComplete(t, from.connect(), to.connect())
	if l := newLog(to.connect(), "", project); l.read(t.Context(), nil) != nil || l.isClosed() {
		t.Errorf("the new ledger is closed: %+v", l.moved)
	}
}

// TestCallsInFlightSettleInTheNewLedger: what the old one learns later is
// copied, and does not replace what the new one has learned since.
func TestCallsInFlightSettleInTheNewLedger(t *testing.T) {
	from, to := memory("memory:from"), memory("memory:to")
	e := engine.New(from.connect(), nil)
	ids := []engine.ID{granted(t, e, budget(100)), granted(t, e, budget(100)), granted(t, e, budget(100))}
	c := copyOf(from, to)
	moving, err := c.Move(t.Context(), project)
	if err != nil {
		t.Fatal(err)
	}
	settle := func(l engine.Ledger, id engine.ID, units int64) {
		t.Helper()
		cost := engine.Amounts{Units: units, Calls: 1}
		if err := engine.New(l, nil).Account(project).Settle(t.Context(), id, cost); err != nil {
			t.Fatal(err)
		}
	}
	settle(c.From, ids[0], 50)
	settle(c.From, ids[1], 0)
	settle(c.From, ids[2], 9)
	settle(c.To, ids[2], 10)
	if err := moving.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	settle(c.From, ids[1], 1)
	again, err := c.Move(t.Context(), project)
	if err != nil {
		t.Fatal(err)
	}
	if _, units := counted(t, c.To); units != 50+1+10 || moving.Report().Late != 3 || again.Report().Late != 1 {
		t.Errorf("%d units, %d and %d late", units, moving.Report().Late, again.Report().Late)
	}
}

// TestAnAccountReturns to the ledger that it has left, with what it spent
// elsewhere.
func TestAnAccountReturns(t *testing.T) {
	kinds := makers(t)
	for kind, newFrom := range kinds {
		t.Run(kind, func(t *testing.T) {
			from, to := newFrom(t), memory("memory:to")
			away, home := copyOf(from, to), copyOf(to, from)
			for n := range int64(3) {
				granted(t, engine.New(from.connect(), nil), budget(100))
				if _, err := away.Move(t.Context(), project); err != nil {
					t.Fatal(err)
				}
				checkMoved(t, from, "", to.name)
				granted(t, engine.New(to.connect(), nil), budget(100))
				if _, err := home.Move(t.Context(), project); err != nil {
					t.Fatal(err)
				}
				checkMoved(t, to, "", from.name)
				if _, units := counted(t, home.To); units != 4*(n+1) {
					t.Errorf("%d units; want %d", units, 4*(n+1))
				}
			}
		})
	}
}

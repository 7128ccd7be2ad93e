package journal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

const account = "my-project"

var (
	noon    = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	errDown = fmt.Errorf("dial tcp 127.0.0.1:6379: refused: %w", quota.ErrLedgerDown)
)

// faulty is a ledger that fails with a given error.
type faulty struct {
	quota.Ledger
	err  atomic.Pointer[error]
	hang time.Duration // before it fails
	asks atomic.Int32
}

func failing(err error) *faulty {
	f := &faulty{Ledger: memledger.Open(nil)}
	f.fail(err)
	return f
}

func (f *faulty) fail(err error) { f.err.Store(&err) }

// ask returns the error after a while, if there is one.
func (f *faulty) ask(ctx context.Context) error {
	f.asks.Add(1)
	err := *f.err.Load()
	if err == nil {
		return nil
	}
	select {
	case <-time.After(f.hang):
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *faulty) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if err := f.ask(ctx); err != nil {
		return nil, err
	}
	return f.Ledger.Spend(ctx, batch)
}

func (f *faulty) Restore(ctx context.Context, r *quota.Restoration) (quota.RestoreResult, error) {
	if *f.err.Load() != nil {
		return quota.RestoreResult{}, f.ask(ctx)
	}
	return f.Ledger.Restore(ctx, r)
}

func (f *faulty) Standings(ctx context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	if errors.Is(*f.err.Load(), quota.ErrLedgerDown) {
		return nil, f.ask(ctx)
	}
	return f.Ledger.Standings(ctx, account, key, charges)
}

func allow(units quota.Units) *journal.Options {
	return &journal.Options{Allow: func(quota.Call) quota.Units { return units }}
}

func spend(ctx context.Context, l quota.Ledger, method string, units quota.Units) (quota.Receipt, error) {
	answers, err := l.Spend(ctx, &quota.Batch{Account: account, Requests: []quota.Request{{Method: method, Units: units}}})
	if err != nil {
		return quota.Receipt{}, err
	}
	return answers[0].Receipt, answers[0].Err
}

// TestLargestCallIsReadAgain: a call of the most units there may be is granted
// and counted, and the file stays readable.
func TestLargestCallIsReadAgain(t *testing.T) {
	l := journal.New(failing(errDown), t.TempDir(), allow(quota.MaxUnits+1))
	defer l.Close()
	if _, err := spend(t.Context(), l, "videos.list", quota.MaxUnits); err != nil {
		t.Fatal(err)
	}
	grant(t, l, 1)
	if used, err := l.Unrecorded(account); err != nil || used != quota.MaxUnits+1 {
		t.Errorf("%d units, %v; want %d", used, err, quota.MaxUnits+1)
	}
}

// grant checks that exactly this many calls of one unit are granted.
func grant(t *testing.T, l quota.Ledger, want int) {
	t.Helper()
	for got := range want + 1 {
		if _, err := spend(t.Context(), l, "videos.list", 1); (err == nil) != (got < want) {
			t.Fatalf("call %d: %v; want %d grants", got, err, want)
		}
	}
}

func unrecorded(t *testing.T, l *journal.Ledger, want quota.Units) {
	t.Helper()
	if got, err := l.Unrecorded(account); err != nil || got != want {
		t.Fatalf("unrecorded: %d, %v; want %d", got, err, want)
	}
}

// A ledger that is up behaves as if there were no allowance.
func TestContractWhileUp(t *testing.T) {
	ledgertest.Run(t, func(t testing.TB, now func() time.Time) quota.Ledger {
		return journal.New(memledger.Open(&memledger.Options{Now: now}), t.TempDir(), allow(1000))
	})
}

// Only a ledger that is down is replaced by the allowance; other errors
// are returned.
func TestOnlyDownFallsBack(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped")
	cancel(stop)
	tests := []struct {
		name string
		ctx  context.Context
		err  error
		want error // nil: granted
	}{
		{"down", t.Context(), errDown, nil},
		{"down after a timeout of its own", t.Context(), fmt.Errorf("%w: %w", quota.ErrLedgerDown, context.DeadlineExceeded), nil},
		{"in doubt", t.Context(), quota.ErrInDoubt, quota.ErrInDoubt},
		{"misconfigured", t.Context(), quota.ErrLedgerConfig, quota.ErrLedgerConfig},
		{"down for its configuration", t.Context(), errors.Join(errDown, quota.ErrLedgerConfig), quota.ErrLedgerConfig},
		{"down, or in doubt", t.Context(), errors.Join(errDown, quota.ErrInDoubt), quota.ErrInDoubt},
		{"lost", t.Context(), quota.ErrLedgerLost, quota.ErrLedgerLost},
		{"deadline", t.Context(), context.DeadlineExceeded, context.DeadlineExceeded},
		{"caller gone", ended, errDown, stop},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := journal.New(failing(test.err), t.TempDir(), allow(5))
			if _, err := spend(test.ctx, l, "m", 1); !errors.Is(err, test.want) {
				t.Fatalf("got %v; want %v", err, test.want)
			}
			want := quota.Units(0)
			if test.want == nil {
				want = 1
			}
			unrecorded(t, l, want)
		})
	}
}

// Options.Allow gets every field of a call.
func TestAllowGetsTheCaller(t *testing.T) {
	var seen []quota.Call
	l := journal.New(failing(errDown), t.TempDir(), &journal.Options{Allow: func(call quota.Call) quota.Units {
		seen = append(seen, call)
		if call.Caller.Lane == "backfill" || call.Caller.Job == "export" {
			return 0
		}
		return 50
	}})
	for caller, want := range map[quota.Caller]error{
		{Lane: "cron", Job: "trending", Region: "IN"}: nil,
		{Lane: "backfill"}:                            quota.ErrLedgerDown,
		{Lane: "cron", Job: "export"}:                 quota.ErrLedgerDown,
	} {
		seen = nil
		answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Key: "k", Requests: []quota.Request{{Method: "m", Units: 2, Caller: caller}}})
		if err != nil || !errors.Is(answers[0].Err, want) || want == nil && answers[0].Err != nil {
			t.Errorf("%+v: %v, %v; want %v", caller, answers, err, want)
		}
		for _, call := range seen {
			if call != (quota.Call{Account: account, Key: "k", Method: "m", Units: 2, Caller: caller}) {
				t.Errorf("asked for %+v", call)
			}
		}
		if len(seen) == 0 {
			t.Error("not asked for")
		}
	}
}

// An account has one count, each method its own limit, and each request of a
// batch its own answer.
func TestLimitByMethod(t *testing.T) {
	rules := map[string]quota.Units{"videos.list": 50, "channels.list": 20}
	l := journal.New(failing(errDown), t.TempDir(), &journal.Options{
		Allow: func(call quota.Call) quota.Units { return rules[call.Method] }, AllowIn: "the rules"})
	small := &quota.Charge{Budget: "small", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 5, Window: quota.Sliding(time.Hour)}
	tests := []struct {
		request quota.Request
		want    error
		says    string
	}{
		{request: quota.Request{Method: "search.list", Units: 1}, want: quota.ErrLedgerDown, says: "search.list has no allowance in the rules: "},
		{request: quota.Request{Method: "channels.list", Units: 15}},
		{request: quota.Request{Method: "channels.list", Units: 6}, want: quota.ErrLedgerDown, says: "channels.list needs 6 units, 5 of 20 are left of the allowance in the rules for all outages in 24 hours: "},
		{request: quota.Request{Method: "channels.list", Units: 5}},
		{request: quota.Request{Method: "videos.list", Units: 30}},
		{request: quota.Request{Method: "videos.list", Units: 1}, want: quota.ErrLedgerDown, says: "needs 1 unit, 0 of 50 are left"},
		{request: quota.Request{Method: "videos.list", Units: 6, Charges: []*quota.Charge{small}}, want: quota.ErrNeverFits},
		{request: quota.Request{Method: "videos.list", Units: -1}, want: quota.ErrBadCall},
		{request: quota.Request{Method: "search.list", Units: 7, Force: true}}, // it has happened already
	}
	var batch quota.Batch
	for _, test := range tests {
		batch.Requests = append(batch.Requests, test.request)
	}
	if _, err := l.Spend(t.Context(), &batch); !errors.Is(err, quota.ErrBadCall) {
		t.Fatalf("no account: %v", err)
	}
	batch.Account = account
	answers, err := l.Spend(t.Context(), &batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, test := range tests {
		err := answers[i].Err
		if !errors.Is(err, test.want) || test.says != "" && (!strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "journal: ")) {
			t.Errorf("request %d: %v; want %v, %q", i, err, test.want, test.says)
		}
		if (answers[i].Receipt == quota.Receipt{}) != (err != nil) {
			t.Errorf("request %d: receipt %v with %v", i, answers[i].Receipt, err)
		}
	}
	unrecorded(t, l, 15+5+30+7)
	if _, err := spend(t.Context(), journal.New(failing(errDown), t.TempDir(), nil), "m", 1); !errors.Is(err, quota.ErrLedgerDown) {
		t.Fatalf("nothing is allowed by default: %v", err)
	}
}

// TestCallsTogetherFitTheAllowance: calls that do not fit together were granted
// as far as there was room, and withdrawn.
func TestCallsTogetherFitTheAllowance(t *testing.T) {
	l := journal.New(failing(errDown), t.TempDir(), &journal.Options{Budgets: budgets, Allow: func(quota.Call) quota.Units { return 50 },
		Granted: func(quota.Units) { t.Error("some of the calls were granted") }})
	guard, err := quota.NewGuard(l, budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = guard.SpendTogether(t.Context(), quota.Call{Account: account, Method: "m", Units: 3}, 20, 0)
	const want = "20 calls of m need 60 units, 50 of 50 are left of the allowance for all outages in 24 hours: "
	if !errors.Is(err, quota.ErrLedgerDown) || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v; want %q", err, want)
	}
}

// TestNotesNeedTheLedger: a note or a correction is not sent, so that there is
// nothing to count while the ledger is down.
func TestNotesNeedTheLedger(t *testing.T) {
	l := journal.New(failing(errDown), t.TempDir(), allow(10))
	guard, err := quota.NewGuard(l, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Note(t.Context(), quota.Note{Call: quota.Call{Account: account, Method: "reconcile", Units: 5}}); !errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("%v; want ErrLedgerDown", err)
	}
	unrecorded(t, l, 0)
}

// The count is of the trailing day, survives restarts, and no step of the clock
// back frees anything early.
func TestTrailingDay(t *testing.T) {
	clock, dir := &ledgertest.Clock{}, t.TempDir()
	steps := []struct {
		at      time.Duration // since noon
		granted bool
		used    quota.Units
	}{
		{0, true, 1},
		{time.Hour, true, 2},
		{-30 * time.Minute, false, 2}, // a step back
		{24*time.Hour - time.Microsecond, false, 2},
		{24 * time.Hour, true, 2},
		{25*time.Hour - time.Microsecond, false, 2},
		{25 * time.Hour, true, 2},
		{10 * time.Hour, false, 4}, // those of the first day count again
		{26 * time.Hour, false, 2},
	}
	for i, step := range steps {
		clock.Set(noon.Add(step.at))
		o := allow(2)
		o.Now = clock.Now
		l := journal.New(failing(errDown), dir, o)
		if _, err := spend(t.Context(), l, "m", 1); (err == nil) != step.granted {
			t.Fatalf("step %d: %v; want granted %v", i, err, step.granted)
		}
		unrecorded(t, l, step.used)
	}

	// What is granted after a step back is no older than what was
	// granted before.
	clock.Set(noon.Add(50 * time.Hour))
	o := allow(2)
	o.Now = clock.Now
	l := journal.New(failing(errDown), dir, o)
	before, _ := spend(t.Context(), l, "m", 1)
	clock.Add(-time.Hour)
	if after, err := spend(t.Context(), l, "m", 1); err != nil || !after.At.After(before.At) {
		t.Fatalf("stamped %v after %v, %v", after.At, before.At, err)
	}
}

// A grant within the allowance is settled and refunded in its file, by its
// guard or with its receipt; the ledger is not called.
func TestSettleAndRefund(t *testing.T) {
	inner := failing(errDown)
	l := journal.New(inner, t.TempDir(), allow(10))
	guard, err := quota.NewGuard(l, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	call := quota.Call{Account: account, Key: "203.0.113.9", Method: "m", Units: 4}
	granted, err := guard.Spend(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	for _, units := range []quota.Units{1, 25, 0, 7} {
		if err := granted.Settle(t.Context(), units); err != nil {
			t.Fatal(err)
		}
		unrecorded(t, l, units)
	}
	if _, err := guard.Spend(t.Context(), call); !errors.Is(err, quota.ErrLedgerDown) {
		t.Fatalf("4 of 3 left: %v", err)
	}
	if err := granted.Refund(t.Context()); err != nil {
		t.Fatal(err)
	}
	unrecorded(t, l, 0)

	// A batch with an id of its own is granted once, and may be settled.
	batch := &quota.Batch{Account: account, Client: 7, Seq: 40, Requests: []quota.Request{{Method: "m", Units: 6}, {Method: "m", Units: 6}}}
	first, _ := l.Spend(t.Context(), batch)
	again, _ := l.Spend(t.Context(), batch)
	if first[0].Err != nil || again[0].Receipt != first[0].Receipt || again[0].Err != nil || again[1].Err == nil {
		t.Fatalf("answered %v, resent %v", first, again)
	}
	other := *batch
	other.Seq, other.Once = 50, true
	if answers, err := l.Spend(t.Context(), &other); err != nil || !errors.Is(answers[0].Err, quota.ErrReused) {
		t.Fatalf("another batch of a client with one: %v, %v", answers, err)
	}
	if err := l.Settle(t.Context(), first[0].Receipt, -1); !errors.Is(err, quota.ErrBadCall) {
		t.Fatalf("settled to -1: %v", err)
	}
	if err := l.Settle(t.Context(), first[0].Receipt, 5); err != nil {
		t.Fatal(err)
	}
	unrecorded(t, l, 5)

	// A receipt from the ledger is settled there.
	inner.fail(nil)
	receipt, err := spend(t.Context(), journal.New(inner, t.TempDir(), nil), "m", 3)
	if err != nil || l.Settle(t.Context(), receipt, 2) != nil {
		t.Fatal(err)
	}
	for e := range l.Entries(t.Context(), quota.Query{Account: account}) {
		if e.Units != 2 {
			t.Fatalf("the ledger holds %d units; want 2", e.Units)
		}
	}
}

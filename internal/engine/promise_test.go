package engine_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/memledger"
)

// testClock is a clock that tests move.
type testClock struct{ micros atomic.Int64 }

func newTestClock() *testClock {
	c := &testClock{}
	c.micros.Store(time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *testClock) Now() time.Time      { return time.UnixMicro(c.micros.Load()) }
func (c *testClock) Add(d time.Duration) { c.micros.Add(d.Microseconds()) }

const account = "my-project"

// failer is a test, or one of rapid's.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// logOf reads a whole log, and folds nothing.
func logOf(t failer, ledger engine.Ledger) (records []engine.Record) {
	t.Helper()
	known := engine.Known{}
	for {
		tail, err := ledger.Read(context.Background(), account, &engine.Read{Known: known})
		if err != nil {
			t.Fatal(err)
		}
		for i := range tail.Batches {
			b := &tail.Batches[i]
			part, err := engine.Unpack(b)
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, part...)
			known = engine.Known{Epoch: tail.Epoch, After: b.Position, Tag: b.Tag()}
		}
		if !tail.More {
			return records
		}
	}
}

// checkSliding is an independent checker: no trailing window of the log holds
// more than the limit.
func checkSliding(t failer, records []engine.Record, b *engine.Budget) {
	t.Helper()
	settled := map[engine.ID]engine.Amounts{}
	for _, r := range records {
		if r.Kind == engine.KindSettle {
			settled[r.Ref] = r.Amounts
		}
	}
	type counted struct{ at, amount int64 }
	var all []counted
	for _, r := range records {
		if r.Kind != engine.KindGrant {
			continue
		}
		amounts := r.Amounts
		if s, ok := settled[r.ID]; ok {
			amounts = s
		}
		all = append(all, counted{r.At, amounts.Of(b.Coverage.Measure)})
	}
	from, sum := 0, int64(0)
	for i := range all {
		for sum += all[i].amount; all[from].at <= all[i].at-b.Window.Length; from++ {
			sum -= all[from].amount
		}
		if sum > b.Limit {
			t.Fatalf("%s holds %d of %d at record %d", b.Name, sum, b.Limit, i)
		}
	}
}

func sliding(name string, limit int64, length time.Duration) *engine.Budget {
	return &engine.Budget{Name: name, Limit: limit,
		Window: engine.Window{Kind: engine.Sliding, Length: length.Microseconds()}}
}

// TestCompetingProcessesNeverExceedALimit lets engines compete on one ledger in
// real time, far from a limit and at it.
func TestCompetingProcessesNeverExceedALimit(t *testing.T) {
	for _, limit := range []int64{10, 400, 1_000_000} {
		ledger := memledger.Open(nil)
		var granted, refused atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			e := engine.New(ledger, nil)
			day, short := sliding("day", 2*limit, time.Minute), sliding("short", limit, 20*time.Millisecond)
			for range 4 {
				wg.Go(func() {
					for i := range 300 {
						answers, err := e.Account(account).Spend(t.Context(), &engine.Request{
							Labels:  engine.Labels{Method: "list"},
							Amounts: engine.Amounts{Units: 1 + int64(i%3), Calls: 1},
							Budgets: []*engine.Budget{day, short}})
						switch {
						case err != nil:
							t.Error(err)
						case answers[0].Refusal == nil:
							granted.Add(1)
						default:
							refused.Add(1)
						}
					}
				})
			}
		}
		wg.Wait()
		records := logOf(t, ledger)
		checkSliding(t, records, sliding("day", 2*limit, time.Minute))
		checkSliding(t, records, sliding("short", limit, 20*time.Millisecond))
		records = slices.DeleteFunc(records, func(r engine.Record) bool { return r.Kind != engine.KindGrant })
		if granted.Load() != int64(len(records)) {
			t.Fatalf("limit %d: %d granted, %d records", limit, granted.Load(), len(records))
		}
		t.Logf("limit %d: %d granted, %d refused", limit, granted.Load(), refused.Load())
	}
}

// TestARefusalIsTruthful draws spends, settles and pauses of two processes, and
// checks that a refused call fits at its retry time and not a microsecond
// before.
func TestARefusalIsTruthful(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := newTestClock()
		ledger := memledger.Open(&memledger.Options{Now: clock.Now})
		budgets := append([]*engine.Budget{sliding("day", 60, time.Hour), sliding("short", 25, time.Minute)},
			&engine.Budget{Name: "bucket", Limit: 30,
				Window: engine.Window{Kind: engine.Bucket, Restore: 2, Every: 7_000_000}},
			&engine.Budget{Name: "steps", Limit: 40, Window: engine.Window{Kind: engine.Calendar, Zone: time.UTC,
				Unit:   engine.Steps,
				Length: 300_000_000, Margin: 1_000_000}})
		budgets = rapid.SliceOfNDistinct(rapid.SampledFrom(budgets), 1, len(budgets), rapid.ID).Draw(t, "budgets")
		engines := []*engine.Engine{engine.New(ledger, &engine.Options{TestClock: true}),
			engine.New(ledger, &engine.Options{TestClock: true})}
		spend := func(e *engine.Engine, units int64) *engine.Answer {
			answers, err := e.Account(account).Spend(context.Background(), &engine.Request{
				Labels: engine.Labels{Method: "list"}, Amounts: engine.Amounts{Units: units, Calls: 1},
				Budgets: budgets})
			if err != nil {
				t.Fatal(err)
			}
			return answers[0]
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			e := rapid.SampledFrom(engines).Draw(t, "process")
			clock.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "pause")) * time.Second)
			units := rapid.Int64Range(1, 20).Draw(t, "units")
			answer := spend(e, units)
			if answer.Refusal == nil {
				if rapid.Bool().Draw(t, "settle") {
					err := e.Account(account).Settle(context.Background(), answer.IDs[0],
						engine.Amounts{Units: rapid.Int64Range(0, units).Draw(t, "cost"), Calls: 1})
					if err != nil {
						t.Fatal(err)
					}
				}
				continue
			}
			now := clock.Now().UnixMicro()
			if clock.micros.Store(answer.Refusal.RetryAt - 1); answer.Refusal.RetryAt-1 >= now {
				if early := spend(engines[0], units); early.Refusal == nil {
					t.Fatalf("granted a microsecond before its retry time %d: %+v %+v\n%+v", answer.Refusal.RetryAt,
						answer.Refusal, answer.Refusal.Held, logOf(t, ledger))
				}
			}
			clock.micros.Store(answer.Refusal.RetryAt)
			if again := spend(engines[1], units); again.Refusal != nil {
				t.Fatalf("refused at its retry time, until %d", again.Refusal.RetryAt-answer.Refusal.RetryAt)
			}
		}
		for _, b := range budgets {
			if b.Window.Kind == engine.Sliding {
				checkSliding(t, logOf(t, ledger), b)
			}
		}
	})
}

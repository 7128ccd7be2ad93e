package quota_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestACallIsChargedInEachMeasure, all or none, and settled in each.
func TestACallIsChargedInEachMeasure(t *testing.T) {
	input := budget("input", 1000, time.Hour)
	input.Measure = "input_tokens"
	dollars := budget("dollars", 5_000_000, time.Hour)
	dollars.Measure = quota.USD
	calls := budget("calls", 10, time.Hour)
	calls.Measure = quota.Calls
	guard := newGuard(t, nil, input, dollars, calls)
	chat := quota.Call{Account: account, Method: "chat", Measures: map[quota.Measure]quota.Units{"input_tokens": 800,
		quota.USD: 2_000}}
	grant, err := guard.Spend(t.Context(), chat)
	if err != nil {
		t.Fatal(err)
	}
	_, err = guard.Spend(t.Context(), chat)
	no, ok := errors.AsType[*quota.RefusedError](err)
	if !ok || no.Budget != "input" || no.Measure != "input_tokens" || no.Needed != 800 || no.Remaining != 200 {
		t.Fatalf("got %v; want input_tokens to refuse it", err)
	}
	holds := func(want ...quota.Units) {
		t.Helper()
		balances, err := guard.Balances(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range balances {
			if b.Used != want[i] {
				t.Errorf("%s holds %d; want %d", b.Budget.Name, b.Used, want[i])
			}
		}
	}
	holds(800, 2_000, 1)
	real := quota.Amounts{Calls: 1, Named: map[quota.Measure]quota.Units{"input_tokens": 3_000}}
	if err := grant.SettleTo(t.Context(), real); err != nil {
		t.Fatal(err)
	}
	holds(3_000, 2_000, 1) // what was not said stays as it is
	redeemed, err := guard.Redeem(grant.Token())
	if err != nil {
		t.Fatal(err)
	}
	if err := redeemed.SettleTo(t.Context(),
		quota.Amounts{Named: map[quota.Measure]quota.Units{"input_tokens": 0}}); err != nil {
		t.Fatal(err)
	}
	holds(0, 2_000, 0)
	for entry, err := range guard.Entries(t.Context(), quota.Query{Account: account}) {
		if err != nil || entry.Measures[quota.USD] != 2_000 {
			t.Errorf("the log has %+v, %v; want what it cost", entry, err)
		}
	}
}

// TestRenamedMeasuresAreCounted: a log that held six of an earlier
// configuration counted nothing of a seventh, and its budget was endless.
func TestRenamedMeasuresAreCounted(t *testing.T) {
	ledger := memledger.Open(nil)
	spend := func(names string) (refusal error) {
		t.Helper()
		var budgets []quota.Budget
		amounts := map[quota.Measure]quota.Units{}
		for _, name := range strings.Split(names, "") {
			b := budget(name, 10, time.Hour)
			b.Measure = quota.Measure(name)
			budgets, amounts[b.Measure] = append(budgets, b), 6
		}
		guard, err := quota.NewGuard(ledger, budgets, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, refusal = guard.Spend(t.Context(), quota.Call{Account: account, Method: "chat", Measures: amounts})
		return refusal
	}
	for _, names := range []string{"abcdef", "ghijkl"} {
		if err := spend(names); err != nil {
			t.Fatal(err)
		}
		if err := spend(names); !errors.Is(err, quota.ErrRefused) {
			t.Errorf("12 of 10 in %s: %v; want it refused", names, err)
		}
	}
}

// TestReservedIsNotSpent: what only reservations refuse is refused for a
// moment, says so, and is granted as soon as a settle makes room, also to a
// call that waits in another process.
func TestReservedIsNotSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		day := budget("day", 1000, 24*time.Hour)
		here, there := process(t, ledger, nil, day), process(t, ledger, nil, day)
		reserving := call("m", 900)
		reserving.Lease = 2 * time.Minute
		grant, err := here.Spend(t.Context(), reserving)
		if err != nil {
			t.Fatal(err)
		}
		_, err = there.Spend(t.Context(), call("m", 200))
		no, ok := errors.AsType[*quota.RefusedError](err)
		if !ok || no.Reason != quota.ReasonInFlight || no.RetryAfter > time.Second || no.Open != 900 {
			t.Fatalf("got %v; want a refusal for what is in flight", err)
		}
		began := time.Now()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if _, err := there.Wait(t.Context(), call("m", 200), 20*time.Second); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 1500*time.Millisecond {
				t.Errorf("granted after %s; want right after the settle", took)
			}
		})
		time.Sleep(time.Second)
		if err := grant.Settle(t.Context(), 50); err != nil {
			t.Fatal(err)
		}
		waiting.Wait()
		_, err = there.Spend(t.Context(), call("m", 800))
		if no, ok := errors.AsType[*quota.RefusedError](err); !ok || no.Reason != quota.ReasonSpent ||
			no.RetryAfter < time.Hour {
			t.Errorf("got %v; want a refusal for what is spent", err)
		}
	})
}

// TestNoMoreAreInFlight than the limit, over processes, whether calls end, are
// read to their end, fail or are never heard of again.
func TestNoMoreAreInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(nil)
		few := quota.Budget{Account: account, Name: "few", Limit: 3, Window: quota.InFlight(2 * time.Minute),
			Measure: quota.Calls}
		here, there := process(t, ledger, nil, few), process(t, ledger, nil, few)
		var mu sync.Mutex
		inFlight, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			inFlight += n
			most = max(most, inFlight)
		}
		base := statusTripper(func(r *http.Request) int {
			count(1)
			time.Sleep(time.Second)
			count(-1)
			return http.StatusOK
		})
		var calls sync.WaitGroup
		for i := range 24 {
			guard := here
			if i%2 == 1 {
				guard = there
			}
			calls.Go(func() {
				transport := &quota.Transport{Guard: guard, Price: priced(1), MaxWait: time.Minute, Base: base}
				if i%3 == 0 {
					transport.Feedback = stopFor(time.Minute)
				}
				resp, err := (&http.Client{Transport: transport}).Get("http://upstream/m")
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			})
		}
		calls.Wait()
		if most != 3 {
			t.Errorf("%d were in flight at once; want 3", most)
		}
		for range 3 {
			if _, err := here.Spend(t.Context(), call("m", 1)); err != nil {
				t.Fatal(err) // whose processes die
			}
		}
		_, err := there.Spend(t.Context(), call("m", 1))
		if no, ok := errors.AsType[*quota.RefusedError](err); !ok || no.Reason != quota.ReasonInFlight ||
			!strings.Contains(err.Error(), "in flight") {
			t.Errorf("got %v; want a refusal for what is in flight", err)
		}
		time.Sleep(2*time.Minute + time.Second)
		if _, err := there.Spend(t.Context(), call("m", 1)); err != nil {
			t.Errorf("after the lease: %v", err)
		}
	})
}

// TestABucketRefills at its rate, and admits its size at once.
func TestABucketRefills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := quota.Budget{Account: account, Name: "bucket", Limit: 20, Window: quota.Bucket(1, time.Minute)}
		guard := newGuard(t, nil, bucket)
		for range 20 {
			if _, err := guard.Spend(t.Context(), call("m", 1)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := guard.Spend(t.Context(), call("m", 2))
		no, ok := errors.AsType[*quota.RefusedError](err)
		if !ok || no.RetryAfter < 119*time.Second || no.RetryAfter > 2*time.Minute {
			t.Fatalf("got %v; want a refusal for two minutes", err)
		}
		time.Sleep(no.RetryAfter)
		if _, err := guard.Spend(t.Context(), call("m", 2)); err != nil {
			t.Errorf("when it had refilled: %v", err)
		}
		time.Sleep(time.Hour)
		if got := used(t, guard); got != 0 {
			t.Errorf("it lacks %d after an hour; want 0", got)
		}
	})
}

// TestALateSettleCountsInBothDirections: grants are settled in both directions,
// in any order and however late, while a window sees them.
func TestALateSettleCountsInBothDirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, nil, budget("day", 1_000_000, 24*time.Hour))
		var grants []*quota.Grant
		for range 400 {
			estimate := call("m", 500)
			estimate.Lease = time.Minute
			grant, err := guard.Spend(t.Context(), estimate)
			if err != nil {
				t.Fatal(err)
			}
			grants = append(grants, grant)
		}
		time.Sleep(time.Hour)
		want := quota.Units(0)
		for i, grant := range grants {
			cost := quota.Units(i * 5)
			want += cost
			if err := grant.Settle(t.Context(), cost); err != nil {
				t.Fatal(err)
			}
		}
		if got := used(t, guard); got != want {
			t.Errorf("used %d; want %d", got, want)
		}
	})
}

// TestCoveragesOfDifferentMeasuresDiffer, whatever the measures are called.
func TestCoveragesOfDifferentMeasuresDiffer(t *testing.T) {
	perKey, named := quota.Budget{Measure: "ran", PerKey: true}, quota.Budget{Measure: "rank"}
	if a, b := perKey.Coverage().Text(), named.Coverage().Text(); a == b {
		t.Errorf("both are %q", a)
	}
}

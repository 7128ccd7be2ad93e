package sqliteledger_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestCombinedGrantsSayTheSame: each grant has the balances right after it,
// whatever other calls shared its transaction.
func TestCombinedGrantsSayTheSame(t *testing.T) {
	const callers, each = 64, 20
	l := open(t, fresh(t), &sqliteledger.Options{Sync: sqliteledger.Normal})
	day, list := charge("day", quota.MaxLimit, quota.Sliding(24*time.Hour)), charge("list", quota.MaxLimit, hour, "videos.list")
	estimate := charge("estimate", quota.MaxLimit, quota.Counter(24*365*time.Hour))
	var mu sync.Mutex
	byUsed := map[quota.Units]quota.Answer{}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				answers, err := l.Spend(t.Context(), one(1, day, list, estimate))
				if err != nil || answers[0].Err != nil || len(answers[0].Held) != 3 {
					t.Error(answers, err)
					return
				}
				held := answers[0].Held
				mu.Lock()
				if _, twice := byUsed[held[0].Used]; twice || held[0].Used != held[1].Used || held[0].Used != held[2].Used {
					t.Errorf("%+v; want its own place in every window", held)
				}
				byUsed[held[0].Used] = answers[0]
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	first := byUsed[1].Receipt.At
	for i := quota.Units(1); i <= callers*each; i++ {
		answer, ok := byUsed[i]
		if !ok {
			t.Fatalf("no grant says %d used", i)
		}
		if free := answer.Receipt.At.Add(answer.Held[1].FreesIn); !free.Equal(first.Add(time.Hour)) {
			t.Fatalf("grant %d: the hour frees at %s; want an hour after %s", i, free, first)
		}
	}
}

// TestShortWindowAfterAPause: what a window holds is right whether it begins in
// the cached records or before them.
func TestShortWindowAfterAPause(t *testing.T) {
	l, clock := timed(t)
	second := charge("second", 1000, quota.Sliding(time.Second))
	list := charge("list", 1000, quota.Sliding(10*time.Second), "videos.list")
	model := map[*quota.Charge][]time.Time{}
	for i := range 1500 { // more than a handle caches
		clock.Add(time.Duration(1+i%7*i%11*20) * time.Millisecond)
		if i%400 == 399 {
			clock.Add(time.Minute)
		}
		answers, err := l.Spend(t.Context(), one(1, second, list))
		if err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
		for j, c := range []*quota.Charge{second, list} {
			model[c] = append(model[c], clock.Now())
			for !model[c][0].Add(c.Window.Length()).After(clock.Now()) {
				model[c] = model[c][1:]
			}
			held := answers[0].Held[j]
			frees := model[c][0].Add(c.Window.Length()).Sub(clock.Now())
			if held.Used != quota.Units(len(model[c])) || held.FreesIn != frees {
				t.Fatalf("call %d: %s says %+v; want %d used, the first back in %s", i, c.Budget, held, len(model[c]), frees)
			}
		}
	}
}

// TestWindowBeginsOutsideTheCachedRecords: windows begin at the oldest record
// that a handle caches, before it, and after it.
func TestWindowBeginsOutsideTheCachedRecords(t *testing.T) {
	l, clock := timed(t)
	var charges []*quota.Charge
	for _, calls := range []int{1, 2, 255, 256, 257, 300, 511, 512, 513} {
		charges = append(charges, charge(fmt.Sprint(calls), quota.MaxLimit, quota.Sliding(time.Duration(calls)*time.Millisecond)))
	}
	for i := range 1200 {
		clock.Add(time.Millisecond)
		answers, err := l.Spend(t.Context(), one(3, charges...))
		if err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
		for j, c := range charges {
			calls := min(time.Duration(i+1), c.Window.Length()/time.Millisecond)
			held, frees := answers[0].Held[j], c.Window.Length()-(calls-1)*time.Millisecond
			if held.Used != 3*quota.Units(calls) || held.FreesIn != frees {
				t.Fatalf("call %d: the window of %s calls says %+v; want %d used, the first back in %s", i, c.Budget, held, 3*calls, frees)
			}
		}
	}
}

// TestEntriesLoseTheirLabels: the labels of entries in an unused log are kept
// as long as the entries.
func TestEntriesLoseTheirLabels(t *testing.T) {
	l, clock := timed(t)
	second := charge("second", 1000, quota.Sliding(time.Second))
	idle := one(1, second)
	idle.Account, idle.Requests[0].Caller.Job = "idle", "once"
	if _, err := l.Spend(t.Context(), idle); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		clock.Add(time.Hour)
		batch := one(1, second)
		for j := range 20 {
			r := batch.Requests[0]
			r.Caller.Job = fmt.Sprint("job ", i, " ", j)
			batch.Requests = append(batch.Requests, r)
		}
		if _, err := l.Spend(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		for e, err := range l.Entries(t.Context(), quota.Query{Account: "idle"}) {
			if err != nil || e.Method != "videos.list" || e.Caller.Job != "once" {
				t.Fatalf("after %d hours: %+v, %v; want its method and job", i+1, e, err)
			}
		}
	}
	if rows := count(t, l, "labels"); rows > 30*20+256 {
		t.Errorf("%d labels; want those of the last day", rows)
	}
}

// TestKeysOfSeveralPagesAreListedOnce: there are more keys than in one page,
// and some are deleted during the listing.
func TestKeysOfSeveralPagesAreListedOnce(t *testing.T) {
	const n = 1203
	l, clock := timed(t)
	each := charge("each", 10, quota.Counter(time.Minute))
	visit := func(key string) {
		batch := one(1, each)
		batch.Key = key
		if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
	}
	for i := range n {
		visit(fmt.Sprint("client ", i))
	}
	seen := map[string]int{}
	for key, err := range l.Keys(t.Context(), "my-project") {
		if err != nil {
			t.Fatal(err)
		}
		seen[key]++
	}
	if len(seen) != n {
		t.Errorf("%d keys; want %d", len(seen), n)
	}
	for key, times := range seen {
		if times != 1 {
			t.Errorf("%q %d times", key, times)
		}
	}
	clock.Add(time.Hour)
	listed := 0
	for _, err := range l.Keys(t.Context(), "my-project") {
		if err != nil {
			t.Fatal(err)
		}
		if listed++; listed < 200 {
			visit(fmt.Sprint("zebra ", listed)) // which drops four of the others
		}
	}
	if listed < 500 || listed > n {
		t.Errorf("%d keys listed while they went; want the first page at least", listed)
	}
}

// TestRestampLosesEntries: hundreds of entries, most of them stamped ahead,
// keep their order, their windows and their lists, for every handle.
func TestRestampLosesEntries(t *testing.T) {
	l, clock := timed(t)
	o := &sqliteledger.Options{Now: clock.Now, Sync: sqliteledger.Normal}
	day, list := charge("day", quota.MaxLimit, quota.Sliding(24*time.Hour)), charge("list", quota.MaxLimit, quota.Sliding(24*time.Hour), "videos.list")
	estimate := charge("estimate", quota.MaxLimit, quota.Counter(time.Hour))
	grants(t, l, 10, day, list, estimate)
	clock.Add(12 * time.Hour)
	grants(t, l, 700, day, list, estimate)
	clock.Add(-12*time.Hour + 100*time.Microsecond) // fewer microseconds than entries
	restamper := open(t, l.Path(), o)
	if n, err := restamper.Restamp(t.Context(), "my-project", ""); n != 700 || err != nil {
		t.Fatalf("restamped %d, %v; want 700", n, err)
	}
	clock.Add(time.Millisecond)
	for _, l := range []*sqliteledger.Ledger{l, open(t, l.Path(), o)} {
		log := collect(t, l)
		for i := range log {
			if want := noon.Add(time.Duration(i) * time.Microsecond); !log[i].At.Equal(want) {
				t.Fatalf("entry %d is stamped %s; want %s", i, log[i].At, want)
			}
		}
		for _, c := range []*quota.Charge{day, list, estimate} {
			if n := used(t, l, c); n != 710 {
				t.Errorf("%s holds %d; want 710", c.Budget, n)
			}
		}
		if n, err := l.Restamp(t.Context(), "my-project", ""); n != 0 || err != nil {
			t.Errorf("restamped %d, %v; want none again", n, err)
		}
	}
	clock.Set(noon.Add(700 * time.Microsecond)) // before the newest
	newest := noon.Add(709 * time.Microsecond)
	for i, l := range []*sqliteledger.Ledger{restamper, l} {
		if r := spend(t, l, 1, day, list); !r.At.Equal(newest.Add(time.Duration(i+1) * time.Microsecond)) {
			t.Errorf("stamped %s; want behind %s", r.At, newest)
		}
	}
	clock.Set(noon.Add(24*time.Hour + 399*time.Microsecond))
	grants(t, l, 1, day, list)
	if n, m := used(t, l, day), used(t, l, list); n != 310+2+1 || m != 310+2+1 {
		t.Errorf("%d and %d used; want all but the first 400, and three", n, m)
	}
}

// TestRestampLosesCounts: calls that a counter counted before the log kept
// entries still count, and a counter that was ahead does not change a
// second one.
func TestRestampLosesCounts(t *testing.T) {
	for _, exact := range []bool{false, true} {
		l, clock := timed(t)
		each, list := charge("each", 1000, quota.Counter(time.Hour)), charge("list", 1000, quota.Counter(2*time.Hour), "videos.list")
		clock.Add(100 * time.Hour)
		spend(t, l, 5, each, list)
		day := charge("day", 1000, quota.Sliding(24*time.Hour))
		if exact {
			spend(t, l, 2, each, list, day)
		} else {
			spend(t, l, 2, each, list)
		}
		clock.Set(noon.Add(time.Minute))
		n, err := l.Restamp(t.Context(), "my-project", "")
		if want := map[bool]int{false: 2, true: 1}[exact]; n != want || err != nil {
			t.Errorf("restamped %d, %v; want %d", n, err, want)
		}
		other := open(t, l.Path(), &sqliteledger.Options{Now: clock.Now})
		if n, m := used(t, other, each), used(t, other, list); n != 7 || m != 7 {
			t.Errorf("%d and %d used; want 7", n, m)
		}
		if r := spend(t, other, 1, each); r.At.Sub(clock.Now()) > time.Microsecond {
			t.Errorf("stamped %s; want now, %s", r.At, clock.Now())
		}
	}
}

// TestRestamperForgetsTheNewest: the handle that restamped continues after the
// newest entry.
func TestRestamperForgetsTheNewest(t *testing.T) {
	l, clock := timed(t)
	day := charge("day", quota.MaxLimit, quota.Sliding(24*time.Hour))
	spend(t, l, 1, day)
	clock.Add(12 * time.Hour)
	grants(t, l, 300, day)
	clock.Set(noon.Add(100 * time.Microsecond))
	if n, err := l.Restamp(t.Context(), "my-project", ""); n != 300 || err != nil {
		t.Fatalf("restamped %d, %v; want 300", n, err)
	}
	if r, want := spend(t, l, 1, day), noon.Add(301*time.Microsecond); !r.At.Equal(want) {
		t.Errorf("stamped %s; want %s, behind the newest", r.At, want)
	}
}

// TestALabelInUseIsSwept: a label is marked as in use once an hour, which may
// be longer than the windows of its entries.
func TestALabelInUseIsSwept(t *testing.T) {
	l, clock := timed(t)
	second := quota.Sliding(time.Second)
	all, videos := charge("all", 1000, second), charge("videos", 1000, second, "videos.list")
	spend(t, l, 1, all)
	clock.Add(50 * time.Minute)
	spend(t, l, 7, all)
	crowd := one(1, all)
	for i := range 300 { // more than between two sweeps
		r := crowd.Requests[0]
		r.Method, r.Caller.Job = "search.list", fmt.Sprint("job ", i)
		crowd.Requests = append(crowd.Requests, r)
	}
	crowd.Requests = crowd.Requests[1:]
	if _, err := l.Spend(t.Context(), crowd); err != nil {
		t.Fatal(err)
	}
	if n := used(t, l, videos); n != 7 {
		t.Errorf("%d used by a budget first asked after the sweep; want 7", n)
	}
}

package memledger_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

func TestContract(t *testing.T) {
	ledgertest.Run(t, func(_ testing.TB, now func() time.Time) quota.Ledger {
		return memledger.Open(&memledger.Options{Now: now})
	})
}

// TestWindowChangedInPlace: charges are read-only, but if a program changes the
// window of one, the ledger uses the new window.
func TestWindowChangedInPlace(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	l := memledger.Open(&memledger.Options{Now: clock.Now})
	c := &quota.Charge{Budget: "some", Coverage: quota.NewCoverage(quota.Coverage{Methods: []string{"m"}}), Limit: 10, Window: quota.Sliding(time.Minute)}
	spend := func(units quota.Units) error {
		answers, err := l.Spend(t.Context(), &quota.Batch{Account: "my-project", History: time.Hour, Requests: []quota.Request{{Method: "m", Units: units, Charges: []*quota.Charge{c}}}})
		if err != nil {
			t.Fatal(err)
		}
		return answers[0].Err
	}
	if err := spend(9); err != nil {
		t.Fatal(err)
	}
	clock.Add(10 * time.Minute)
	if err := spend(1); err != nil {
		t.Fatal(err)
	}
	c.Window = quota.Sliding(time.Hour)
	if err := spend(1); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("%v; want a refusal: an hour holds all 10", err)
	}
}

// TestEntriesTakeAtMost52Bytes compares the memory in use with the
// documentation, while entries arrive and after they have left, with a new job
// for each.
func TestEntriesTakeAtMost52Bytes(t *testing.T) {
	const n = 50_000
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	l := memledger.Open(&memledger.Options{Now: clock.Now})
	charges := []*quota.Charge{{Budget: "day", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: quota.MaxLimit, Window: quota.Sliding(24 * time.Hour)}}
	spend := func(i int) {
		batch := &quota.Batch{Account: "my-project", Requests: []quota.Request{{Method: "videos.list", Units: 1, Charges: charges,
			Caller: quota.Caller{Job: fmt.Sprint("job ", i/1000)}}}}
		if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
	}
	before := heap()
	for i := range n {
		spend(i)
	}
	if each := float64(heap()-before) / n; each > 52 {
		t.Errorf("%.0f bytes an entry; want 52 at most", each)
	}
	clock.Add(72 * time.Hour)
	for i := range n / 32 { // each drops up to 64
		spend(n + i)
	}
	if left := heap() - before; left > 5*n {
		t.Errorf("%d bytes when all but the last %d have left", left, n/32)
	}
	runtime.KeepAlive(l)
}

// TestCounterMemory: a counter takes a few bytes for any number of calls.
func TestCounterMemory(t *testing.T) {
	l := memledger.Open(nil)
	charges := []*quota.Charge{{Budget: "each", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: quota.MaxLimit, Window: quota.Counter(10 * time.Minute)}}
	spend := func(n int) {
		for range n {
			batch := &quota.Batch{Account: "my-project", Requests: []quota.Request{{Method: "m", Units: 1, Charges: charges}}}
			if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
				t.Fatal(answers, err)
			}
		}
	}
	spend(100)
	before := heap()
	spend(10_000)
	if grown := heap() - before; grown > 20_000 {
		t.Errorf("%d bytes more after 10,000 calls", grown)
	}
	runtime.KeepAlive(l)
}

// TestIdleKeysAreDropped bounds the memory of clients that never return.
func TestIdleKeysAreDropped(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	l := memledger.Open(&memledger.Options{Now: clock.Now})
	for _, window := range []quota.Window{quota.Sliding(time.Minute), quota.Counter(time.Minute)} {
		charges := []*quota.Charge{{Budget: "each", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 60, Window: window}}
		clients := func(n int) {
			for i := range n {
				batch := &quota.Batch{Account: "my-project", Key: fmt.Sprint(clock.Now().UnixNano(), i), Requests: []quota.Request{{Method: "m", Units: 1, Charges: charges}}}
				if answers, err := l.Spend(t.Context(), batch); err != nil || answers[0].Err != nil {
					t.Fatal(answers, err)
				}
			}
		}
		clients(100) // the tables grow
		before := heap()
		for range 40 {
			clients(1000)
			clock.Add(time.Minute)
		}
		if grown := heap() - before; grown > 8<<20 {
			t.Errorf("%s: %d bytes after 40,000 clients, of whom a few thousand are live", window, grown)
		}
		n := 0
		for _, err := range l.Keys(t.Context(), "my-project") {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n < 2000 || n > 10_000 {
			t.Errorf("%s: %d keys have a log; want those of the last minutes", window, n)
		}
	}
	runtime.KeepAlive(l)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

package usage_test

import (
	"context"
	"iter"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

// totals returns all totals, largest first.
func totals(ctx context.Context, source *usage.LogReader, by string) ([]usage.Total, error) {
	all, err := source.Totals(ctx, by)
	if err != nil {
		return nil, err
	}
	return slices.Collect(all.Largest(0)), nil
}

// manyRuns is a ledger with entries of n runs: two of each, an hour apart.
type manyRuns struct {
	quota.Log
	n int
}

func (m manyRuns) Entries(context.Context, quota.Query) iter.Seq2[quota.Entry, error] {
	return func(yield func(quota.Entry, error) bool) {
		for i := range 2 * m.n {
			run := i % m.n
			e := quota.Entry{At: noon.Add(time.Duration(i/m.n) * time.Hour), ID: quota.ID{Client: uint64(run + 1)}, Method: "list", Units: quota.Units(run % 1000), Calls: 1}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestTotalsOfManyRunsAreSmall: each run of a long log took 157 bytes, and
// several times that while more were added.
func TestTotalsOfManyRunsAreSmall(t *testing.T) {
	const runs = 200_000
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	source := &usage.LogReader{Ledger: manyRuns{n: runs}, Accounts: []string{"p", "q"}}
	all, err := source.Totals(t.Context(), "run")
	if err != nil {
		t.Fatal(err)
	}
	if each := (heap() - before) / (2 * runs); each > 80 {
		t.Errorf("%d bytes for each run", each)
	}
	if all.Len() != 2*runs || all.Accounts() != 2 || all.Units() != 4*runs/1000*(999*1000/2) {
		t.Errorf("%d totals of %d accounts, %d units", all.Len(), all.Accounts(), all.Units())
	}
	got := slices.Collect(all.Largest(3))
	want := []string{"0000000003e8 p", "0000000003e8 q", "0000000007d0 p"}
	for i, total := range got {
		isLarge := total.Units == 2*999 && total.Calls == 2 && total.First.Equal(noon) && total.Last.Equal(noon.Add(time.Hour))
		if name := total.Name + " " + total.Account; name != want[i] || !isLarge {
			t.Errorf("%s: %+v; want %s", name, total, want[i])
		}
	}
}

package engine_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ration-dev/ration/quota/internal/engine"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestOfCallersThatClaimAtOnceOneGetsIt: whether they are of one process or
// of several.
func TestOfCallersThatClaimAtOnceOneGetsIt(t *testing.T) {
	for i := range 300 {
		store := memledger.Open(nil)
		shared := engine.New(store, nil).Account("a")
		var taken atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			a := engine.New(store, nil).Account("a")
			if isOneProcess := i%2 == 0; isOneProcess {
				a = shared
			}
			if err := a.View(t.Context(), func(*engine.View) {}); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				id, _, _, err := a.Claim(t.Context(), claiming("owner"))
				if err != nil {
					t.Error(err)
				}
				if id != (engine.ID{}) {
					taken.Add(1)
				}
			})
		}
		wg.Wait()
		if n := taken.Load(); n != 1 {
			t.Fatalf("%d callers have the claim", n)
		}
	}
}

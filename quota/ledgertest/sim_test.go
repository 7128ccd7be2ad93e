package ledgertest_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"testing/cryptotest"
	"time"
)

// TestThePromiseHoldsThroughFaults runs worlds for RATION_SIM_DURATION, from
// the seed RATION_SIM_SEED on. A failure says how to repeat its world.
func TestThePromiseHoldsThroughFaults(t *testing.T) {
	lasts := 2 * time.Second
	if d, err := time.ParseDuration(os.Getenv("RATION_SIM_DURATION")); err == nil {
		lasts = d
	}
	seed, _ := strconv.ParseUint(os.Getenv("RATION_SIM_SEED"), 10, 64)
	var r result
	for end := time.Now().Add(lasts); time.Now().Before(end) && r.violations < 5; seed++ {
		w := runSeed(t, seed)
		r.worlds++
		r.calls += len(w.calls)
		r.losses += w.losses
		r.days += w.end.Sub(w.began).Hours() / 24
		if w.failure != "" {
			r.violations++
			t.Errorf("%s\nrepeat with: make replay SEED=%d", w.story(60), seed)
		}
	}
	// Printed, because go test shows no log of a test that passes.
	fmt.Printf("%d worlds, %d calls, %d losses of the ledger, %d violations\n", r.worlds, r.calls, r.losses,
		r.violations)
	fmt.Printf("%.1f simulated years\n", r.days/365.25)
}

// runSeed runs one world. Randomness of the code under test comes from the
// seed, too.
func runSeed(t *testing.T, seed uint64) (w *world) {
	t.Run("seed="+strconv.FormatUint(seed, 10), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		w = simulate(t, seed)
	})
	return w
}

// TestOneSeedMakesOneWorld: a failure could not be repeated otherwise.
func TestOneSeedMakesOneWorld(t *testing.T) {
	for seed := range uint64(5) {
		first, second := runSeed(t, seed), runSeed(t, seed)
		for i := range first.trace {
			if i >= len(second.trace) || first.trace[i] != second.trace[i] {
				t.Fatalf("seed %d: two runs differ from this line on: %s", seed, first.trace[i])
			}
		}
	}
}

// TestReplay repeats the world of RATION_SIM_REPLAY and prints all that
// happens.
func TestReplay(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("RATION_SIM_REPLAY"), 10, 64)
	if err != nil {
		t.Skip("set RATION_SIM_REPLAY to a seed, or run make replay SEED=…")
	}
	w := runSeed(t, seed)
	t.Log("\n" + w.story(len(w.trace)))
	if w.failure != "" {
		t.Error(w.failure)
	}
}

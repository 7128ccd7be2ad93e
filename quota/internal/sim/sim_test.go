//go:build !race

// Its goroutines take turns on one processor, which the race detector takes
// for races, and a real file lock that one of them waits for holds the
// simulated time.

package sim

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/ration-dev/ration/internal/filelock"
)

// worldDays is how long one world lasts.
const worldDays = 7

// TestThePromiseHoldsThroughFaults runs worlds for RATION_SIM_DURATION, from
// the seed RATION_SIM_SEED on, by steps of RATION_SIM_STEP: from a seed that
// ends in 9 by steps of 10, each world has a fault a minute. A failure says how
// to repeat its world.
func TestThePromiseHoldsThroughFaults(t *testing.T) {
	lasts := 20 * time.Second
	if testing.Short() {
		lasts = time.Second
	}
	if d, err := time.ParseDuration(os.Getenv("RATION_SIM_DURATION")); err == nil {
		lasts = d
	}
	seed, _ := strconv.ParseUint(os.Getenv("RATION_SIM_SEED"), 10, 64)
	step, _ := strconv.ParseUint(os.Getenv("RATION_SIM_STEP"), 10, 64)
	step = max(step, 1)
	total, worlds, failures, forked := result{}, 0, 0, 0
	for end := time.Now().Add(lasts); time.Now().Before(end) && failures < 5; seed += step {
		r := runSeed(t, seed, false)
		worlds++
		total.days += r.days
		total.calls += r.calls
		total.losses += r.losses
		total.outages += r.outages
		total.repairs += r.repairs
		if r.forked {
			forked++
		}
		if r.failure != "" {
			failures++
			t.Errorf("%s\nrepeat with: make replay SEED=%d", r.failure, seed)
		}
	}
	// Printed, because go test shows no log of a test that passes.
	fmt.Printf("%d worlds, %d calls, %d losses of the ledger, %d outages, %d repairs, %d violations; in %d worlds too much after a fork, within its bound\n", worlds, total.calls, total.losses, total.outages, total.repairs, failures, forked)
	fmt.Printf("%.1f simulated years\n", float64(total.days)/365.25)
}

// runSeed runs one world. Randomness of the code under test comes from the
// seed, too.
func runSeed(t *testing.T, seed uint64, verbose bool) (r result) {
	t.Run("seed="+strconv.FormatUint(seed, 10), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		filelock.Poll = 10 * time.Millisecond
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))  // goroutines that wake at once run in one order,
		defer debug.SetGCPercent(debug.SetGCPercent(-1)) // unless the collector interrupts one
		defer runtime.GC()
		r = simulate(t, seed, worldDays, verbose)
	})
	return r
}

// TestOneSeedMakesTwoWorlds: a failure could not be repeated.
func TestOneSeedMakesTwoWorlds(t *testing.T) {
	seeds := []uint64{1000, 1001}
	if testing.Short() {
		seeds = seeds[:1]
	}
	for _, seed := range seeds {
		first, second := runSeed(t, seed, true), runSeed(t, seed, true)
		if first.sum == second.sum {
			continue
		}
		a, b := strings.Split(first.events, "\n"), strings.Split(second.events, "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("seed %d: two runs differ:\n%s\n%s", seed, a[i], b[i])
			}
		}
	}
}

// TestClosedWorlds: worlds that once held a violation.
func TestClosedWorlds(t *testing.T) {
	for _, seed := range []uint64{
		1795591003, 1795592488, 1795593466, 1795595566, 1795595881, // a refusal at the lower of two limits hid what the log held beyond it
		77003134, 5630, // a note for one budget stood for the later calls of another
		562150153,      // a note became later than the last loss
		991000065,      // a refusal took the place of what a host had restored
		5005778459,     // the answer to a restoration was lost, and the repeated one hid what it had brought
		4001008559,     // a note for all calls, which a budget of a region did not cover, stood for calls that it did
		7700012020729,  // a host forgot what budgets held, since the answer to its next question was lost
		31000015026429, // a host's clock was corrected in an outage: stated since
		1795620424,     // notes of notes grew with each loss until no host could restore the log
	} {
		if r := runSeed(t, seed, false); r.failure != "" {
			t.Error(r.failure)
		}
	}
}

// TestReplay repeats the world of RATION_SIM_REPLAY and prints all
// that happens.
func TestReplay(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("RATION_SIM_REPLAY"), 10, 64)
	if err != nil {
		t.Skip("set RATION_SIM_REPLAY to a seed, or run make replay SEED=…")
	}
	r := runSeed(t, seed, true)
	t.Log("\n" + r.events)
	if r.failure != "" {
		t.Error(r.failure)
	}
}

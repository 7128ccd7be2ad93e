// The simulator runs hosts and processes that share a ledger, and an upstream
// that counts for itself, over days of simulated time. The guard, the engine
// and the replica are the real code; the ledger is one in memory that fails and
// forgets. A world is determined by its seed, and runs in a bubble of
// testing/synctest, one step after another.
//
// The checker knows what the upstream was sent, by the right time. It also
// knows, of each call, which processes, disks and logs can know it: a process
// that uses the ledger learns all that it has and, if it has forgotten, gives
// back all that the process or its host's disk knows. It holds that:
//
//   - at each grant, what the log can know to be sent in any budget's window is
//     within the limit; what it cannot know was sent by hosts that were absent
//     since, or within an outage's allowance, or is on a disk that was lost;
//   - no host sends more in an outage than its allowance;
//   - no grant is made twice;
//   - a refusal says a time within a window, and the call is granted then if
//     nothing else was sent;
//   - a call is refused only if all that was sent, or perhaps charged, in the
//     window leaves no room. After a clock was wrong, this holds a window later;
//   - in the end, the log has each call that any host knows, with what it has
//     really cost, and no others than those in doubt.
//
// While the ledger's clock is wrong, windows are shorter by the error, but by
// five minutes at most if it is ahead.

package ledgertest_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
)

const account = "project"

// world is one simulation.
type world struct {
	seed  uint64
	rng   *rand.Rand
	dir   string
	began time.Time
	end   time.Time

	budgets   []quota.Budget
	allowance quota.Units // of each host, while the ledger is down
	noise     float64     // how often an append has no answer, or its process is killed
	flakyTill time.Time   // until when that is half of the time
	absences  float64     // how often a host goes away
	polls     float64     // how often a host notices at once that something has happened

	store     *store
	hosts     []*host
	processes int
	clocks    []clockError
	lastWrong time.Time // when wrong timestamps look right, or were corrected, whichever is later
	faults    []fault   // that are still to come
	copies    []*log
	lastLoss  time.Time

	calls    []*call
	events   int
	unsent   []unsent
	asked    *quota.Call // that is being decided
	repeats  []repeat
	repeated time.Time // when the call was asked first that is repeated now
	receipts map[string]bool

	losses  int
	trace   []string
	failure string
}

// result is what worlds come to.
type result struct {
	worlds, calls, losses, violations int
	days                              float64
}

// simulate runs one world.
func simulate(t *testing.T, seed uint64) (w *world) {
	dir, err := os.MkdirTemp(os.Getenv("TMPDIR"), "sim")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	synctest.Test(t, func(*testing.T) {
		w = newWorld(seed, dir)
		for time.Now().Before(w.end) && w.failure == "" {
			w.sleep(w.gap())
			w.step()
		}
		if w.failure == "" {
			w.finish()
		}
		for _, h := range w.hosts {
			for _, p := range h.processes {
				p.replica.Close()
			}
		}
	})
	return w
}

func newWorld(seed uint64, dir string) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	time.Sleep(time.Duration(rng.Int64N(int64(365 * 24 * time.Hour)))) // begin at any time of the year
	w := &world{seed: seed, rng: rng, dir: dir, began: time.Now(), receipts: map[string]bool{}}
	w.end = w.began.Add(time.Duration(3+rng.IntN(4)) * 24 * time.Hour)
	w.store = &store{w: w}
	w.budgets = drawBudgets(rng)
	w.allowance = []quota.Units{0, 8, 20}[rng.IntN(3)]
	w.noise = []float64{0, 0.01, 0.06}[rng.IntN(3)]
	w.absences = []float64{0, 0.01, 0.05}[rng.IntN(3)]
	w.polls = []float64{0, 0.5, 1}[rng.IntN(3)]
	w.planFaults()
	for i := range 1 + rng.IntN(3) {
		h := &host{w: w, number: i}
		w.hosts = append(w.hosts, h)
		for place := range 1 + rng.IntN(2) {
			h.start(place)
		}
	}
	return w
}

// drawBudgets returns some budgets, which cover parts of each other.
func drawBudgets(rng *rand.Rand) (drawn []quota.Budget) {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		panic(err)
	}
	day := 24 * time.Hour
	floor := map[string]quota.Units{"EU": 12, "US": 6}
	all := []quota.Budget{
		{Name: "day", Limit: 60, Window: quota.Sliding(day)},
		{Name: "calendar", Limit: 50, Window: quota.Daily(pacific)},
		{Name: "floors", Limit: 55, Window: quota.Daily(pacific), Floor: floor},
		{Name: "ending floors", Limit: 55, Window: quota.Daily(pacific), Floor: floor, FloorUntil: 3 * time.Hour},
		{Name: "sliding floors", Limit: 58, Window: quota.Sliding(day), Floor: floor},
		{Name: "burst", Limit: 3, Window: quota.Sliding(10 * time.Minute), Measure: quota.Calls},
		{Name: "hour", Limit: 14, Window: quota.Sliding(time.Hour)},
		{Name: "search", Limit: 30, Window: quota.Sliding(day), Methods: []string{"search"}},
		{Name: "EU", Limit: 25, Window: quota.Daily(pacific), Regions: []string{"EU"}},
	}
	for _, i := range rng.Perm(len(all))[:2+rng.IntN(3)] {
		all[i].Account = account
		all[i].Config = quota.Config{Name: "costs.yaml", Changed: time.Unix(1, 0)}
		drawn = append(drawn, all[i])
	}
	return drawn
}

// horizon is how old a call can be that a budget still counts.
func (w *world) horizon() (longest time.Duration) {
	for i := range w.budgets {
		longest = max(longest, w.budgets[i].Horizon())
	}
	return longest
}

// gap draws how long nothing happens.
func (w *world) gap() time.Duration {
	most := []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 5 * time.Hour}[min(w.rng.IntN(6), 3)]
	if w.rng.IntN(4) > 0 {
		most = 20 * time.Minute
	}
	return 1500*time.Millisecond + time.Duration(w.rng.Int64N(int64(most)))
}

// sleep lets time pass, and what is due happen meanwhile.
func (w *world) sleep(d time.Duration) {
	until := time.Now().Add(d)
	for len(w.faults) > 0 && !w.faults[0].at.After(until) && w.failure == "" {
		f := w.faults[0]
		w.faults = w.faults[1:]
		time.Sleep(time.Until(f.at))
		w.event("%s", f.name)
		f.occur()
		w.poll()
	}
	time.Sleep(time.Until(until))
	w.store.deliver()
}

// poll lets the hosts that are there look, as those do that serve.
func (w *world) poll() {
	for _, h := range w.hosts {
		if w.rng.Float64() < w.polls && time.Now().After(h.awayUntil) {
			h.processes[0].look()
		}
	}
}

// step lets one process do something.
func (w *world) step() {
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	if time.Now().Before(h.awayUntil) {
		return
	}
	h.restartDead()
	place := w.rng.IntN(len(h.processes))
	p := h.processes[place]
	switch n := w.rng.IntN(100); {
	case w.rng.Float64() < w.absences:
		h.awayUntil = time.Now().Add(time.Duration(1+w.rng.IntN(30)) * time.Hour)
		w.event("host %d goes away until %s", h.number, stamp(h.awayUntil))
	case n < 8:
		h.start(place)
	case n < 12:
		p.look()
	case n < 30:
		p.settleSome()
	case n < 40:
		w.copies = append(w.copies[max(0, len(w.copies)-20):], w.copy())
	case n < 70 && len(w.repeats) > 0:
		w.repeatSome()
	default:
		p.spendSome()
	}
	h.restartDead()
}

func stamp(t time.Time) string { return t.UTC().Format("01-02 15:04:05.000") }

// event adds a line to the trace.
func (w *world) event(format string, args ...any) {
	w.trace = append(w.trace, stamp(time.Now())+" "+fmt.Sprintf(format, args...))
}

// fail notes the first violation.
func (w *world) fail(format string, args ...any) {
	if w.event("VIOLATION "+format, args...); w.failure == "" {
		w.failure = w.trace[len(w.trace)-1]
	}
}

// story returns what has happened, or the end of it.
func (w *world) story(lines int) string {
	from := max(0, len(w.trace)-lines)
	budgets := make([]string, len(w.budgets))
	for i, b := range w.budgets {
		budgets[i] = fmt.Sprintf("%s: %d in %v, floors %v", b.Name, b.Limit, b.Window, b.Floor)
	}
	return fmt.Sprintf("seed %d, began %s, an allowance of %d\n%s\n%s", w.seed, stamp(w.began), w.allowance,
		strings.Join(budgets, "\n"), strings.Join(w.trace[from:], "\n"))
}

// finish lets all hosts meet on a ledger that works, and compares its log with
// what was sent.
func (w *world) finish() {
	w.event("all hosts return")
	w.noise, w.flakyTill = 0, time.Time{}
	for _, f := range w.faults {
		if f.isEnd {
			f.occur()
		}
	}
	w.faults = nil
	for range 2 {
		time.Sleep(time.Minute)
		w.store.deliver()
		for _, h := range w.hosts {
			h.restartDead()
			for _, p := range slices.Clone(h.processes) {
				p.look()
			}
			h.start(len(h.processes)).look()
		}
	}
	w.checkLog(filepath.Join(w.dir, "observer"))
}

//go:build !race

// Package sim simulates hosts, processes, a ledger and an upstream, with the
// faults of all of them, over weeks of simulated time. The guard, the
// transport, the journal, the combiner and the ledger's decisions are the real
// code. The upstream counts for itself. At every arrival and restoration, and
// at the end, it holds:
//
//	I1  no window holds more than its limit, or the lower one of another file that was
//	    asked in the last day, less what the ledger cannot know
//	I2  a call that was refused never reaches the upstream
//	I3  every call that reached it is in the ledger, once its host has restored it
//	I4  nothing else is: no call costs more there than its price, and entries whose
//	    grant reached no process cost at most as much as the calls whose answer was lost
//	I5  no refusal asks for a longer wait than its window
//	I6  no note of others' calls is later than the last loss of all of the log
//
// What the ledger cannot know is exact: what a host sent within its allowance,
// until the next grant to that host; and what the ledger has forgotten, until
// the next grant to the host that was granted it, or, for a budget, to one that
// was told afterwards what that budget holds. By how much calls cost more than
// their price is not exact: I1 allows all of it, and I3 has it restored.
//
// A world is determined by its seed. It runs in a bubble of testing/synctest,
// in which goroutines wake at times that differ, so that they run in one order.
package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
)

const (
	account   = "project"
	allowance = 60
)

var pacific = func() *time.Location {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		panic(err)
	}
	return zone
}()

var budgets = [...]quota.Budget{
	{Account: account, Name: "day", Limit: 500, Window: quota.Sliding(24 * time.Hour)},
	{Account: account, Name: "calendar", Limit: 450, Window: quota.Daily(pacific)},
	{Account: account, Name: "burst", Limit: 4, Window: quota.Sliding(10 * time.Minute), Measure: quota.Calls, Methods: []string{"search"}},
	{Account: account, Name: "burst", Limit: 6, Window: quota.Sliding(40 * time.Minute), Measure: quota.Calls, Methods: []string{"search"}},
	{Account: account, Name: "hour", Limit: 150, Window: quota.Sliding(time.Hour)},
	{Account: account, Name: "search", Limit: 300, Window: quota.Sliding(24 * time.Hour), Methods: []string{"search"}},
	{Account: account, Name: "cron", Limit: 200, Window: quota.Sliding(6 * time.Hour), Lanes: []string{"cron"}},
	{Account: account, Name: "eu", Limit: 150, Window: quota.Daily(pacific), Regions: []string{"EU"}},
}

// limits are those of a file, by budget: 0 of one that it does not have.
type limits [len(budgets)]quota.Units

// A file is the budgets of a costs.yaml: most worlds have the first alone.
var (
	usual     = []int{0, 1, 2}
	nested    = []int{0, 1, 2, 5} // as costs.yaml has them
	callers   = []int{0, 6, 7}
	many      = []int{0, 1, 2, 5, 6, 7} // budgets that cover parts of each other
	short     = []int{3, 4}             // no window of a day
	different = []int{0, 3}             // one in common, one that has the name of another
)

// world is one simulation.
type world struct {
	t        *testing.T
	seed     uint64
	rng      *rand.Rand
	began    time.Time
	days     int
	verbose  bool
	server   *server
	upstream *upstream
	dir      string
	hosts    []*host // all so far
	current  []*host // one in the place of each that is gone

	wobble  time.Duration // how far the ledger's clock may be wrong
	ahead   time.Duration // of the upstream's clock
	goAway  float64       // how often a connection goes away after a request
	coolAt  float64       // how often the upstream asks for a pause
	maxWait time.Duration

	mu        sync.Mutex
	grants    []*sending
	unknown   quota.Units // of all calls that may have been charged
	forgot    time.Time   // when the ledger last did
	isOlder   bool        // it has been an older copy of itself since then
	processes int
	losses    int
	outages   int
	repairs   int
	calls     int
	forked    bool // too much was admitted, as two histories of the log looked like one
	events    strings.Builder
	sum       uint64
	failure   string
}

// result is what a world comes to.
type result struct {
	days, calls, losses, outages, repairs int
	forked                                bool
	sum                                   uint64 // of all events
	failure                               string
	events                                string
}

func simulate(t *testing.T, seed uint64, days int, verbose bool) (r result) {
	dir, err := os.MkdirTemp(memory(t), "sim")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir, seed, days, verbose)
		w.run()
		r = result{w.days, w.calls, w.losses, w.outages, w.repairs, w.forked, w.sum, w.failure, w.events.String()}
	})
	return r
}

// memory is a folder in memory, if there is one: journals are synced.
func memory(t *testing.T) string {
	const shared = "/dev/shm"
	if info, err := os.Stat(shared); err == nil && info.IsDir() {
		return shared
	}
	return t.TempDir()
}

func newWorld(t *testing.T, dir string, seed uint64, days int, verbose bool) *world {
	if isHasty(seed) {
		days = 1
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{t: t, seed: seed, rng: rng, began: time.Now(), days: days, verbose: verbose, server: newServer(), dir: dir}
	w.upstream = &upstream{w: w}
	time.Sleep(time.Duration(rng.Int64N(int64(365 * 24 * time.Hour)))) // begin at any time of the year
	w.began = time.Now()
	w.wobble = time.Duration(rng.IntN(2)) * 10 * time.Second
	w.ahead = time.Duration(rng.Int64N(int64(10*time.Second))) - 5*time.Second
	w.goAway = []float64{0, 0.02, 0.2}[rng.IntN(3)]
	w.coolAt = []float64{0, 0.01, 0.05}[rng.IntN(3)]
	w.maxWait = []time.Duration{0, 5 * time.Second, 15 * time.Minute}[rng.IntN(3)]
	for range 1 + rng.IntN(4) {
		w.current = append(w.current, w.newHost(clockError(rng)))
	}
	return w
}

// clockErrors is the difference between the errors of hosts' clocks at most.
// Beyond five minutes, a clock must be corrected first.
const clockErrors = 8 * time.Minute

// clockError draws how far a host's clock is ahead.
func clockError(rng *rand.Rand) time.Duration {
	return time.Duration(rng.Int64N(int64(clockErrors))) - clockErrors/2
}

// newHost adds a host without a journal.
func (w *world) newHost(ahead time.Duration) *host {
	number := len(w.hosts)
	h := &host{number: number, dir: filepath.Join(w.dir, fmt.Sprint(number), "journal"), ahead: ahead}
	if err := os.MkdirAll(filepath.Dir(h.dir), 0o700); err != nil {
		w.t.Fatal(err)
	}
	w.hosts = append(w.hosts, h)
	w.startHost(h)
	return h
}

// startHost starts a host anew. Its processes do not notice.
func (w *world) startHost(h *host) {
	if w.tellsUptime() {
		h.boot, h.booted = h.boot+1, time.Now()
	}
}

// mostHosts is the number of bits of knowledge.memory.
const mostHosts = 64

// pick draws the host of the next process. In some worlds it is now and then a
// new one, in the place of one that is gone with its journal.
func (w *world) pick() *host {
	place := w.rng.IntN(len(w.current))
	if w.takesTurns() {
		place = int(time.Since(w.began)/turn) % len(w.current)
	}
	if w.hostsGo() && w.rng.IntN(8) == 0 && len(w.hosts) < mostHosts {
		w.current[place] = w.newHost(clockError(w.rng))
		w.event("host %d takes the place of another", w.current[place].number)
	}
	return w.current[place]
}

// isHasty reports whether a world has a fault a minute, and lasts a day.
func isHasty(seed uint64) bool { return seed%10 == 9 }

// twoFiles reports whether the limits of a world's processes come from two
// files with names, of which the lower holds for a day. Else each process knows
// its own alone.
func (w *world) twoFiles() bool { return w.seed%3 == 1 }

// file draws the budgets of a process. In some worlds there are two files that
// have different ones. Each host knows the longest windows, since it uses the
// first file each day.
func (w *world) file(h *host) []int {
	switch {
	case w.hasMany():
		return many
	case w.hasCallers():
		return callers
	case w.seed%7 == 6:
		return nested
	case w.seed%7 != 5 || time.Since(h.usual) > 12*time.Hour || w.rng.IntN(2) == 0:
		h.usual = time.Now()
		return usual
	case w.seed%2 == 0:
		return short
	}
	return different
}

// hasCallers reports whether the calls of a world have lanes and regions.
func (w *world) hasCallers() bool { return w.seed%11 == 9 || w.hasMany() }

// hasMany reports whether a world has budgets of everything.
func (w *world) hasMany() bool { return w.seed%11 == 5 }

// hostsGo reports whether hosts go, and with them what they know.
func (w *world) hostsGo() bool { return w.seed%13 == 4 }

// takesTurns reports whether one host at a time runs processes: what it does
// not notice, no other repairs.
func (w *world) takesTurns() bool { return w.seed%17 == 3 }

// turn is for how long a host of takesTurns is alone.
const turn = 5 * time.Hour

// costsRise reports whether calls turn out to cost more than their price.
func (w *world) costsRise() bool { return w.seed%19 == 7 }

// losesAnswers reports whether three faults in eight are of the network.
func (w *world) losesAnswers() bool { return w.seed%23 == 8 }

// tellsUptime reports whether hosts say how long they run.
func (w *world) tellsUptime() bool { return w.seed%7 != 3 }

// clocksStep reports whether the clocks of hosts are corrected now and then.
func (w *world) clocksStep() bool { return w.seed%13 == 7 }

func (w *world) clock(t time.Time) string {
	if t.Equal(never) {
		return "never"
	}
	return t.UTC().Format("01-02 15:04:05.000000")
}

// event records what happens. The caller may hold mu.
func (w *world) event(format string, args ...any) {
	line := w.clock(time.Now()) + " " + fmt.Sprintf(format, args...) + "\n"
	h := fnv.New64a()
	fmt.Fprintf(h, "%x %s", w.sum, line)
	w.sum = h.Sum64()
	if w.verbose {
		w.events.WriteString(line)
	}
}

// fail records the first violation.
func (w *world) fail(format string, args ...any) {
	if w.failure == "" {
		w.failure = w.clock(time.Now()) + " " + fmt.Sprintf(format, args...)
	}
	w.event("VIOLATION "+format, args...)
}

// run runs the world to its end.
func (w *world) run() {
	end := w.began.Add(time.Duration(w.days) * 24 * time.Hour)
	var running sync.WaitGroup
	running.Go(func() { w.breakThings(end) })
	pause := []time.Duration{10 * time.Minute, time.Hour, 3 * time.Hour}[w.rng.IntN(3)]
	for time.Now().Before(end) && w.failure == "" {
		w.sleep(pause)
		h := w.pick()
		lifetime, part := time.Duration(0), quota.Units(100)
		if w.rng.IntN(4) == 0 {
			lifetime = time.Duration(1 + w.rng.Int64N(int64(5*time.Minute)))
		}
		if w.rng.IntN(8) == 0 {
			part = 25
		}
		p := w.start(h, lifetime, w.file(h), part)
		w.event("process %d starts on host %d with %d%% of the limits: %v", p.number, h.number, part, p.limits)
		running.Go(func() { p.run(uint64(p.number)) })
	}
	running.Wait()
	if w.failure == "" {
		w.settleDown()
	}
}

// sleep sleeps for a random time of at most twice a mean.
func (w *world) sleep(mean time.Duration) { time.Sleep(time.Duration(1 + w.rng.Int64N(int64(2*mean)))) }

package replica_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/replica"
)

// failer is a test, or one of rapid's.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

const (
	dayLimit      = 20
	searchLimit   = 8
	hostAllowance = 3 // of each host while the ledger is down
)

// newStore returns an empty store whose clock is now.
type newStore func(now func() time.Time) engine.Ledger

// world is an upstream, and hosts that share a ledger, which fails.
//
// Its checker is independent of the engine. It knows what the upstream has
// received, and which of that the ledger and each host can know: a host that
// uses the ledger gives it all that it knows, and learns all that it has.
type world struct {
	failer
	dir      string
	newStore newStore
	ledger   *faultyLedger
	now      time.Time
	isReal   bool // time passes by itself, and processes do not read before they decide
	hosts    []*host

	events []event
	inLog  knowledge
	unsent int64 // units of grants that were not sent, or perhaps not made
}

// event is a call that was sent, or what one has really cost.
type event struct {
	grant  int // the index of the call's first event; its own of a grant
	method string
	units  int64

	isOutage bool // the process that made it knows it from the disk
}

type knowledge map[int]bool

// host has one process, and one folder.
type host struct {
	w       *world
	name    string
	replica *replica.Replica
	isFull  bool // its disk
	engine  *engine.Engine
	isNew   bool // its process has not read the disk yet

	known  knowledge // by its process
	onDisk knowledge
	ids    map[int]engine.ID // of its grants
	outage engine.ID
}

// fullDisk is a copy that can be kept only if the disk is not full.
type fullDisk struct {
	*replica.Replica
	host *host
}

func (d fullDisk) Save(account string, known engine.Known, batches []engine.Batch) (isFork bool) {
	return !d.host.isFull && d.Replica.Save(account, known, batches)
}

func newWorld(t failer, dir string, hosts int, isReal bool, store newStore) *world {
	w := &world{failer: t, dir: dir, newStore: store,
		now: noon, isReal: isReal, inLog: knowledge{}}
	w.ledger = &faultyLedger{allowed: -1, Ledger: store(w.clock)}
	for i := range hosts {
		h := &host{w: w, name: fmt.Sprint("host", i), known: knowledge{}, onDisk: knowledge{},
			ids: map[int]engine.ID{}, outage: engine.ID{Client: engine.NewClient()}}
		h.start()
		w.hosts = append(w.hosts, h)
	}
	return w
}

// clock is that of all hosts and of the ledger.
func (w *world) clock() time.Time {
	if w.isReal {
		return time.Now()
	}
	return w.now
}

func (w *world) close() {
	for _, h := range w.hosts {
		h.replica.Close()
	}
	w.ledger.Ledger.Close()
}

func (h *host) folder() string { return filepath.Join(h.w.dir, h.name) }

// start starts a process.
func (h *host) start() {
	h.w.Helper()
	r, err := replica.Open(h.folder(), &replica.Options{Now: h.w.clock})
	if err != nil {
		h.w.Fatalf("%v", err)
	}
	h.replica, h.isNew = r, true
	o := &engine.Options{TestClock: true, Host: h.name, Replica: fullDisk{r, h}}
	if h.w.isReal {
		o.TestClock = false
	}
	h.engine = engine.New(h.w.ledger, o)
}

// restart kills the process, and starts another one that knows the disk.
func (h *host) restart() {
	h.w.Helper()
	h.replica.Close()
	h.known = maps.Clone(h.onDisk)
	h.start()
}

// loseReplica removes the copy. The process lives on.
func (h *host) loseReplica() {
	h.w.Helper()
	if err := os.RemoveAll(h.folder()); err != nil {
		h.w.Fatalf("%v", err)
	}
	if err := os.Mkdir(h.folder(), 0o700); err != nil {
		h.w.Fatalf("%v", err)
	}
	if h.onDisk = (knowledge{}); h.isNew {
		h.known = knowledge{}
	}
}

// tearReplica cuts off the end of the newest file, and restarts the process. Of
// what that had, the checker expects only what was on the disk before.
func (h *host) tearReplica(bytes int64, before knowledge) {
	h.w.Helper()
	files, err := filepath.Glob(filepath.Join(h.folder(), "*.log"))
	if err != nil || len(files) == 0 {
		return
	}
	newest := files[len(files)-1]
	info, err := os.Stat(newest)
	if err == nil {
		err = os.Truncate(newest, max(0, info.Size()-bytes))
	}
	if err != nil {
		h.w.Fatalf("%v", err)
	}
	h.onDisk = before
	h.restart()
}

// meets lets the ledger and a host know what the other one knows, after the
// host has used the ledger.
func (h *host) meets() {
	for i := range h.onDisk {
		if h.w.events[i].isOutage {
			h.known[i] = true
		}
	}
	for i := range h.known {
		h.w.inLog[i] = true
	}
	for i := range h.w.inLog {
		h.learn(i)
	}
}

func (h *host) learn(i int) {
	if !h.known[i] && !h.isFull {
		h.onDisk[i] = true
	}
	h.known[i] = true
}

// happen adds an event that the host knows.
func (h *host) happen(e event) int {
	i := len(h.w.events)
	h.w.events = append(h.w.events, e)
	h.learn(i)
	return i
}

// sum returns the least that counts by what is known, of all methods or of one.
// A correction may be known to the engine though it was then not answered.
func (w *world) sum(known knowledge, method string) (sum int64) {
	for i, e := range w.events {
		if e.grant != i || !known[i] || method != "" && e.method != method {
			continue
		}
		units := e.units
		for later := i + 1; later < len(w.events); later++ {
			if next := w.events[later]; next.grant == i && (known[later] || next.units < units) {
				units = next.units
			}
		}
		sum += units
	}
	return sum
}

// most returns what counts if every correction is lost that would lower it.
func (w *world) most() (most int64) {
	highest := map[int]int64{}
	for _, e := range w.events {
		most += max(0, e.units-highest[e.grant])
		highest[e.grant] = max(e.units, highest[e.grant])
	}
	return most
}

func (w *world) budgets(method string) []*engine.Budget {
	day := engine.Window{Kind: engine.Sliding, Length: (24 * time.Hour).Microseconds()}
	all := []*engine.Budget{{Name: "day", Limit: dayLimit, Window: day}}
	if method == "search" {
		all = append(all, &engine.Budget{Name: "search", Limit: searchLimit, Window: day,
			Coverage: engine.Coverage{Methods: []string{"search"}}})
	}
	return all
}

// spend asks for units, and sends the call if it is granted. It checks that the
// call was within the limits, as far as any process could know.
func (h *host) spend(method string, units int64) (isGranted bool) {
	h.w.Helper()
	answer := h.ask(method, units)
	if answer == nil || answer.Refusal != nil {
		return false
	}
	i := h.happen(event{grant: len(h.w.events), method: method, units: units})
	h.w.inLog[i] = true
	h.ids[i] = answer.IDs[0]
	h.w.check(h, method)
	return true
}

// spendUnsent is a spend of a process that is killed before it sends the call.
func (h *host) spendUnsent(method string, units int64) {
	h.w.Helper()
	if answer := h.ask(method, units); answer != nil && answer.Refusal == nil {
		h.w.unsent += units
	}
	h.restart()
}

// ask asks the engine. It returns nil if the ledger fails.
func (h *host) ask(method string, units int64) *engine.Answer {
	h.w.Helper()
	h.w.now, h.isNew = h.w.now.Add(time.Second), false
	answers, err := h.engine.Account(accountCopy).Spend(context.Background(), &engine.Request{
		Labels:  engine.Labels{Method: method, Host: h.name},
		Amounts: engine.Amounts{Units: units, Calls: 1}, Budgets: h.w.budgets(method)})
	if err != nil {
		if !h.w.ledger.hasFailed() {
			h.w.Fatalf("%s: %v", h.name, err)
		}
		h.w.unsent += units // it may be in the log
		return nil
	}
	h.meets()
	return answers[0]
}

// check is called after a call was sent.
func (w *world) check(h *host, method string) {
	w.Helper()
	if sum := w.sum(w.inLog, ""); sum > dayLimit {
		w.Fatalf("%s was granted beyond the limit: %d of %d, by what it could know", h.name, sum, dayLimit)
	}
	if sum := w.sum(w.inLog, "search"); method == "search" && sum > searchLimit {
		w.Fatalf("%s was granted beyond the limit of a method: %d of %d, by what it could know", h.name, sum,
			searchLimit)
	}
}

// fill spends until it is refused.
func (h *host) fill() {
	h.w.Helper()
	for h.spend("list", 1) {
	}
}

// settle says what a call that the host has sent has really cost.
func (h *host) settle(i int, units int64) {
	h.w.Helper()
	h.w.now, h.isNew = h.w.now.Add(time.Second), false
	err := h.engine.Account(accountCopy).Settle(context.Background(), h.ids[i], engine.Amounts{Units: units, Calls: 1})
	switch {
	case err != nil && !h.w.ledger.hasFailed():
		h.w.Fatalf("%s: %v", h.name, err)
	case err != nil:
		h.w.unsent += units
		return
	}
	if h.meets(); h.w.inLog[i] {
		e := h.w.events[i]
		h.w.inLog[h.happen(event{grant: i, method: e.method, units: units})] = true
	}
}

// spendInOutage asks for a unit of the allowance, and sends the call.
func (h *host) spendInOutage() {
	h.w.Helper()
	h.ask("list", 1) // the engine notices that the ledger is down
	h.outage.Seq++
	if isGranted, err := grantOutage(h.replica, h.outage, h.w.clock(), hostAllowance); err != nil {
		h.w.Fatalf("%s: %v", h.name, err)
	} else if isGranted {
		h.onDisk[len(h.w.events)] = true
		h.w.events = append(h.w.events, event{grant: len(h.w.events), method: "list", units: 1, isOutage: true})
	}
}

// finish lets all hosts meet on a ledger that works. Then each counts all that
// any of them can know, and nothing twice.
func (w *world) finish() {
	w.Helper()
	w.ledger.recover()
	used := make([]int64, len(w.hosts))
	for range 2 {
		for i, h := range w.hosts {
			err := h.engine.Account(accountCopy).View(context.Background(), func(v *engine.View) {
				used[i] = v.Held(w.budgets("")[0], "").Used
			})
			if err != nil {
				w.Fatalf("%s: %v", h.name, err)
			}
			h.meets()
		}
	}
	known, most := w.sum(w.inLog, ""), w.most()+w.unsent
	for i, h := range w.hosts {
		if used[i] < known || used[i] > most {
			w.Fatalf("%s counts %d in the end, want %d to %d", h.name, used[i], known, most)
		}
	}
	for _, h := range w.hosts {
		h.fill()
	}
}

// sortedKeys returns the calls that a host can settle.
func sortedKeys(ids map[int]engine.ID) []int { return slices.Sorted(maps.Keys(ids)) }

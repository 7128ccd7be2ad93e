package redisledger

import (
	"slices"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// account is what a ledger knows of one account's meta. What it knows is good
// for one head, which goes with each batch; when the store's is another one, it
// is learned anew.
type account struct {
	mu      sync.Mutex
	head    string // empty: not known, or the store has none
	life    string // the part of a head that labels are good for
	learned int64  // when the store was last told what is asked here, by this host's clock, µs
	scopes  [2]scope
	labels  map[label]*labelled
	days    map[quota.Window]decide.Day

	unkeyed names                   // of the account's own log
	hints   map[*quota.Charge]int64 // the place in its list at which a window of that log begins
	newest  int64                   // stamp that a batch of this process has in that log, µs
}

// The logs of an account have coverages in common: its own log has some, those
// with a key have others.
const (
	ownLog = iota
	keyedLogs
)

// scopeOf returns the place of a log's scope in account.scopes.
func scopeOf(key string) int {
	if key == "" {
		return ownLog
	}
	return keyedLogs
}

// flag is what scripts call the scope.
func flag(scope int) byte { return 2 << scope }

// scope is what the store keeps for the account's own log, or for each of those with a key.
type scope struct {
	items   []item
	places  map[itemKey]int // in items
	shapes  map[shapeKey]*shape
	horizon int64             // how long a log keeps its entries; if it keeps none, for how long its counters matter, µs
	keeps   bool              // entries
	asked   map[itemKey]asked // what was asked since the store was told; the longest horizon of each
	round   int               // how often the store was told
}

// item is a coverage that the store keeps a list or a counter for.
type item struct {
	id       string
	horizon  int64
	coverage *quota.Coverage
	key      itemKey
}

type itemKey struct {
	coverage string
	length   int64 // of a counter; 0 for a list
}

// labelled is a label's number, and which items of each scope count it.
type labelled struct {
	number int64
	feeds  [2][]int // nil until worked out
}

const (
	idBytes   = 12 // hexadecimal digits
	headBytes = 12
	lifeBytes = 8
	maxLabels = 4096 // that are remembered in the process

	slack = int64(quota.MaxStepBack / time.Microsecond)

	// learnEvery is how often a process that spends tells the store which
	// coverages it asks: a coverage is in use for a day at least.
	learnEvery = int64(15 * time.Minute / time.Microsecond)
)

func (l *Ledger) account(name string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[name]
	if a == nil {
		a = &account{labels: map[label]*labelled{}, days: map[quota.Window]decide.Day{}, unkeyed: l.names(name, "")}
		a.use("", "", [2][]item{})
		a.told()
		l.accounts[name] = a
	}
	return a
}

// use replaces what is known.
func (a *account) use(head, life string, items [2][]item) {
	a.head, a.life = head, life
	for i := range a.scopes {
		s := &a.scopes[i]
		*s = scope{items: items[i], places: map[itemKey]int{}, shapes: map[shapeKey]*shape{}, keeps: true, asked: s.asked, round: s.round}
		counters := int64(0)
		for place, it := range s.items {
			s.places[it.key] = place
			if it.key.length > 0 {
				counters = max(counters, it.horizon)
			} else {
				s.horizon = max(s.horizon, it.horizon)
			}
		}
		if counters > 0 {
			s.keeps = s.horizon > 0
			s.horizon = max(s.horizon, counters)
		}
	}
}

// namesOf returns the keys of one of the account's logs.
func (a *account) namesOf(l *Ledger, batch *quota.Batch) names {
	if batch.Key == "" {
		return a.unkeyed
	}
	return l.names(batch.Account, batch.Key)
}

// tell notes the newest stamp that was granted.
func (a *account) tell(answers []quota.Answer) {
	for i := range slices.Backward(answers) {
		if answers[i].Err == nil {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.newest = max(a.newest, answers[i].Receipt.At.UnixMicro())
			return
		}
	}
}

// asked is a coverage that is asked, with what of its window matters to its item.
type asked struct {
	coverage *quota.Coverage
	key      itemKey
	horizon  int64
}

func ask(coverage *quota.Coverage, window quota.Window) asked {
	q := asked{coverage, itemKey{coverage: coverage.Key()}, window.Horizon().Microseconds()}
	if window.Estimate() {
		q.key.length = window.Length().Microseconds()
	}
	return q
}

// everything is the coverage of a log itself.
var everything = quota.NewCoverage(quota.Coverage{})

// listed asks that entries stay for so long, whatever the windows.
func listed(history time.Duration) asked {
	return asked{everything, itemKey{coverage: everything.Key()}, history.Microseconds()}
}

// asks returns what a charge asks: its own coverage, and then those of its floors.
func asks(c *quota.Charge) []asked {
	all := make([]asked, 1, 1+len(c.Floors))
	all[0] = ask(c.Coverage, c.Window)
	if !c.Window.Estimate() {
		for _, floor := range c.Floors {
			all = append(all, ask(floor.Coverage, c.Window))
		}
	}
	return all
}

// mark notes that q was asked.
func (s *scope) mark(q asked) {
	if have, ok := s.asked[q.key]; !ok || have.horizon < q.horizon {
		s.asked[q.key] = q
	}
}

// told begins to note anew what is asked.
func (a *account) told() {
	for i := range a.scopes {
		a.scopes[i].asked = map[itemKey]asked{}
		a.scopes[i].round++
	}
}

// find returns the place of the item that answers, -1 when there is none.
func (s *scope) find(q asked) int {
	if i, ok := s.places[q.key]; ok && s.items[i].horizon >= q.horizon {
		return i
	}
	return -1
}

// isLog reports whether the log itself is the item's list.
func (i *item) isLog() bool { return i.key == itemKey{coverage: everything.Key()} }

// feeds returns the items of a scope that count a label.
func (a *account) feeds(scope int, l label) []int {
	have := a.labels[l]
	if have.feeds[scope] == nil {
		have.feeds[scope] = []int{}
		items := a.scopes[scope].items
		for i := range items {
			if !items[i].isLog() && items[i].coverage.Covers(l.method, l.caller) {
				have.feeds[scope] = append(have.feeds[scope], i)
			}
		}
	}
	return have.feeds[scope]
}

// day returns the day of a daily window that now lies in.
func (a *account) day(w quota.Window, now int64) decide.Day {
	day, ok := a.days[w]
	if !ok || !day.Holds(now) {
		day = decide.DayOf(w, now)
		a.days[w] = day
	}
	return day
}

// horizonArg returns the horizon of a scope as scripts take it. When nothing is
// known of the account, nothing is too old.
func (a *account) horizonArg(scope int) string {
	horizon := a.scopes[scope].horizon
	if a.head == "" {
		horizon = int64(2 * quota.MaxHistory / time.Microsecond)
	}
	return string(number(nil, horizon, 7))
}

// sourceKeys returns the keys of all items in a log.
func (s *scope) sourceKeys(n names) []string {
	keys := make([]string, len(s.items))
	for i := range s.items {
		keys[i] = n.source(s.items[i].id)
	}
	return keys
}

// unknown reports whether nothing is known of the account, or it was never learned.
func (a *account) unknown() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.head == ""
}

// forget makes what is known of a head be learned anew.
func (a *account) forget(head string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.head == head {
		a.use("", a.life, [2][]item{})
	}
}

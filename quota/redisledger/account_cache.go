package redisledger

import (
	"slices"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// accountCache caches one account's meta key. It is valid for one head, which
// each batch includes; if the server's head differs, the cache is refreshed.
type accountCache struct {
	mu      sync.Mutex
	head    string // empty if unknown, or if the server has none
	life    string // the part of the head that the labels belong to
	learned int64  // when this process last reported its demands, by this host's clock, µs
	scopes  [2]scope
	limits  limits
	labels  map[label]*labelled
	days    map[quota.Window]decide.Day

	unkeyed names                  // of the account's own log
	edges   map[*quota.Charge]edge // where the windows of that log begin
	looked  logSearch
	spelled int64         // when the account's name was checked, by this host's clock, µs; 0 if it was not
	newest  quota.Receipt // of this process in that log
}

// An account has two scopes: its own log, and all its logs with a key. The logs
// of a scope share coverages.
const (
	ownLog = iota
	keyedLogs
)

// scopeOf returns the index of a log's scope in accountCache.scopes.
func scopeOf(key string) int {
	if key == "" {
		return ownLog
	}
	return keyedLogs
}

// flag returns the scope's bit in an item's flags.
func flag(scope int) byte { return 2 << scope }

// scope is what the server stores for the account's own log, or for each of its
// logs with a key.
type scope struct {
	items   []item
	places  map[itemKey]int // in items
	shapes  map[shapeKey]*shape
	horizon int64              // longest horizon of the items, µs
	keeps   bool               // whether the logs keep entries
	demands map[itemKey]demand // in use since the last report to the server, with the longest horizon of each
	round   int                // number of reports
}

// item is a coverage for which the server has a list or a counter.
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

// labelled is a label's number, and the items of each scope that count it.
type labelled struct {
	number int64
	feeds  [2][]int // nil until computed
}

const (
	idBytes   = 12 // hexadecimal digits
	headBytes = 12
	lifeBytes = 8
	maxLabels = 4096 // cached in the process

	slack = int64(quota.MaxStepBack / time.Microsecond)

	// learnEvery is how often a process that spends reports its demands. A
	// coverage that was reported stays in use for at least a day.
	learnEvery = int64(15 * time.Minute / time.Microsecond)
)

// cache returns the cache of an account.
func (l *Ledger) cache(name string) *accountCache {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[name]
	if a == nil {
		a = &accountCache{labels: map[label]*labelled{}, days: map[quota.Window]decide.Day{}, unkeyed: l.names(name, "")}
		a.replace("", "", [2][]item{})
		a.clearDemands()
		l.accounts[name] = a
	}
	return a
}

// replace sets the head and the items, and drops everything derived from them.
func (a *accountCache) replace(head, life string, items [2][]item) {
	a.head = head
	a.life = life
	a.edges = nil
	a.limits.forget()
	for i := range a.scopes {
		s := &a.scopes[i]
		*s = scope{items: items[i], places: map[itemKey]int{}, shapes: map[shapeKey]*shape{}, keeps: true, demands: s.demands, round: s.round}
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
func (a *accountCache) namesOf(l *Ledger, batch *quota.Batch) names {
	if batch.Key == "" {
		return a.unkeyed
	}
	return l.names(batch.Account, batch.Key)
}

// noteNewest records the newest receipt of the answers.
func (a *accountCache) noteNewest(answers []quota.Answer) {
	for i := range slices.Backward(answers) {
		if answers[i].Err == nil {
			a.mu.Lock()
			defer a.mu.Unlock()
			if receipt := answers[i].Receipt; receipt.At.After(a.newest.At) {
				a.newest = receipt
			}
			return
		}
	}
}

// demand is a coverage for which a charge needs an item, and the item's
// least horizon.
type demand struct {
	coverage *quota.Coverage
	key      itemKey
	horizon  int64
}

func demandOf(coverage *quota.Coverage, window quota.Window) demand {
	q := demand{coverage, itemKey{coverage: coverage.Key()}, window.Horizon().Microseconds()}
	if window.Estimate() {
		q.key.length = window.Length().Microseconds()
	}
	return q
}

// everything is the coverage of a log itself.
var everything = quota.NewCoverage(quota.Coverage{})

// historyDemand is the demand that the log keeps its entries for a history.
func historyDemand(history time.Duration) demand {
	return demand{everything, itemKey{coverage: everything.Key()}, history.Microseconds()}
}

// demandsOf returns the demands of a charge: that of its own coverage, then
// those of its floors.
func demandsOf(c *quota.Charge) []demand {
	all := make([]demand, 1, 1+len(c.Floors))
	all[0] = demandOf(c.Coverage, c.Window)
	if !c.Window.Estimate() {
		for _, floor := range c.Floors {
			all = append(all, demandOf(floor.Coverage, c.Window))
		}
	}
	return all
}

// recordUse records that q is in use.
func (s *scope) recordUse(q demand) {
	if have, ok := s.demands[q.key]; !ok || have.horizon < q.horizon {
		s.demands[q.key] = q
	}
}

// clearDemands forgets which demands are in use.
func (a *accountCache) clearDemands() {
	for i := range a.scopes {
		a.scopes[i].demands = map[itemKey]demand{}
		a.scopes[i].round++
	}
}

// find returns the index of the item that serves q, or -1.
func (s *scope) find(q demand) int {
	if i, ok := s.places[q.key]; ok && s.items[i].horizon >= q.horizon {
		return i
	}
	return -1
}

// isLog reports whether the log itself is the item's list.
func (i *item) isLog() bool { return i.key == itemKey{coverage: everything.Key()} }

// feeds returns the indexes of the items of a scope that count a label.
func (a *accountCache) feeds(scope int, l label) []int {
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
func (a *accountCache) day(w quota.Window, now int64) decide.Day {
	day, ok := a.days[w]
	if !ok || !day.Holds(now) {
		day = decide.DayOf(w, now)
		a.days[w] = day
	}
	return day
}

// horizonArg returns the horizon of a scope, as an argument of a script. If the
// cache is empty, it is longer than any history.
func (a *accountCache) horizonArg(scope int) string {
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

// unknown reports whether the cache is empty.
func (a *accountCache) unknown() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.head == ""
}

// isHead reports whether the cache has the given head.
func (a *accountCache) isHead(head string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.head == head
}

// forget empties the cache if it still has the given head.
func (a *accountCache) forget(head string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.head == head {
		a.replace("", a.life, [2][]item{})
	}
}

package redisledger

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// account is what a ledger knows of one account's meta. What it knows is good
// for one head, which goes with each batch; when the store's is another one, it
// is learned anew.
type account struct {
	mu     sync.Mutex
	head   string // empty: not known, or the store has none
	life   string // the part of a head that labels are good for
	items  []item
	places map[itemKey]int // in items
	labels map[label]*labelled
	shapes map[shapeKey]*shape // good for one head
	days   map[quota.Window]decide.Day

	unkeyed names // of the account's own log
	newest  int64 // stamp that a batch of this process has in that log, µs
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

// labelled is a label's number, and which items count it.
type labelled struct {
	number int64
	feeds  []int // nil until worked out
}

const (
	idBytes   = 12 // hexadecimal digits
	headBytes = 12
	lifeBytes = 8
	maxLabels = 4096 // that are remembered in the process

	kept      = int64(26 * 3600e6) // of an account's own log at least, µs
	leastKept = int64(60e6)        // of a keyed log that nobody asks for, µs
	slack     = int64(120e6)       // by which clocks may step back, µs
)

func (l *Ledger) account(name string) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[name]
	if a == nil {
		a = &account{labels: map[label]*labelled{}, shapes: map[shapeKey]*shape{}, days: map[quota.Window]decide.Day{}, unkeyed: l.names(name, "")}
		l.accounts[name] = a
	}
	return a
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

// asked is a coverage that is asked over a window.
type asked struct {
	coverage *quota.Coverage
	window   quota.Window
}

// key returns the key of the item that answers.
func (q asked) key() itemKey {
	key := itemKey{coverage: q.coverage.Key()}
	if q.window.Estimate() {
		key.length = q.window.Length().Microseconds()
	}
	return key
}

// horizon returns that which the item must have at least.
func (q asked) horizon() int64 { return q.window.Horizon().Microseconds() }

// asks returns what a charge asks: its own coverage, and then those of its floors.
func asks(c *quota.Charge) []asked {
	all := make([]asked, 1, 1+len(c.Floors))
	all[0] = asked{c.Coverage, c.Window}
	if !c.Window.Estimate() {
		for _, floor := range c.Floors {
			all = append(all, asked{floor.Coverage, c.Window})
		}
	}
	return all
}

// find returns the place of the item that answers, -1 when there is none.
func (a *account) find(q asked) int {
	if i, ok := a.places[q.key()]; ok && a.items[i].horizon >= q.horizon() {
		return i
	}
	return -1
}

// isLog reports whether the log itself is the item's list.
func (i *item) isLog() bool { return i.key == itemKey{} }

// horizon returns how long a log keeps its entries, in microseconds.
func (a *account) horizon(keyed bool) int64 {
	longest := kept
	if keyed {
		longest = leastKept
	}
	for i := range a.items {
		longest = max(longest, a.items[i].horizon)
	}
	return longest
}

// feeds returns the items that count a label.
func (a *account) feeds(l label) []int {
	have := a.labels[l]
	if have.feeds == nil {
		have.feeds = []int{}
		for i := range a.items {
			if !a.items[i].isLog() && a.items[i].coverage.Covers(l.method, l.caller) {
				have.feeds = append(have.feeds, i)
			}
		}
	}
	return have.feeds
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

// wants is what a batch needs that is not known yet.
type wants struct {
	labels    []label
	coverages []asked
	items     int // that the whole batch asks, those that are known included
}

// mostItems is how many the store remembers, see learn.lua.
const mostItems = 128

// missing returns what of a batch is not known.
func (a *account) missing(p *plan) *wants {
	if len(a.labels) > maxLabels {
		clear(a.labels)
	}
	var w wants
	labels, keys, all := map[label]bool{}, map[itemKey]asked{}, map[itemKey]bool{}
	for _, place := range p.places {
		r := &p.batch.Requests[place]
		if l := (label{r.Method, r.Caller}); a.labels[l] == nil && !labels[l] {
			labels[l] = true
			w.labels = append(w.labels, l)
		}
		for _, c := range r.Charges {
			for _, q := range asks(c) {
				all[q.key()] = true
				if have, ok := keys[q.key()]; a.find(q) < 0 && (!ok || have.horizon() < q.horizon()) {
					keys[q.key()] = q
				}
			}
		}
	}
	for _, q := range keys {
		w.coverages = append(w.coverages, q)
	}
	w.items = len(all)
	return &w
}

// learn asks the store for its head, coverages and numbers of labels, and has
// it take up those that are wanted. A nil w creates nothing.
func (l *Ledger) learn(op *operation, name string, w *wants) error {
	n := l.names(name, "")
	now, _ := l.clock(0)
	var items []byte
	args := []any{now, random(headBytes), nil}
	if w != nil {
		if w.items > mostItems {
			return fmt.Errorf("%w: one batch asks %d coverages, the ledger remembers %d; ask fewer at once", quota.ErrBadCall, w.items, mostItems)
		}
		for _, q := range w.coverages {
			def := define(q.coverage)
			items = append(items, hex.EncodeToString([]byte(random(idBytes/2)))...)
			items = append(items, kind(q.window))
			items = number(number(items, q.horizon(), 7), int64(len(def)), 4)
			items = append(items, def...)
		}
		for _, l := range w.labels {
			args = append(args, random(2)+l.pack())
		}
	}
	args[2] = string(items)
	reply, err := op.ask(&learnScript, []string{n.meta, n.log, n.cooldowns}, args)
	if err != nil {
		return err
	}
	a := l.account(name)
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.apply(reply, w)
}

func kind(w quota.Window) byte {
	if w.Estimate() {
		return 1
	}
	return 0
}

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails since Go 1.24
	return string(b)
}

// apply takes in what learn.lua answered.
func (a *account) apply(reply *reply, w *wants) error {
	head, items := reply.text(), reply.text()
	if reply.bad || (head != "" && len(head) != headBytes) {
		return errGarbled
	}
	if head != a.head {
		if err := a.renew(head, items); err != nil {
			return err
		}
	}
	if w == nil {
		return nil
	}
	for _, l := range w.labels {
		a.labels[l] = &labelled{number: reply.number()}
	}
	if reply.bad {
		a.head, a.life = "", ""
		return errGarbled
	}
	return nil
}

// renew replaces the coverages, and forgets the labels of another life of meta.
func (a *account) renew(head, packed string) error {
	items, places := []item(nil), map[itemKey]int{}
	for packed != "" {
		if len(packed) < idBytes+12 {
			return errGarbled
		}
		counter, horizon := packed[idBytes], value(packed[idBytes+1:idBytes+8])
		n := value(packed[idBytes+8 : idBytes+12])
		if n > int64(len(packed)-idBytes-12) {
			return errGarbled
		}
		coverage, err := parseDefinition(packed[idBytes+12 : idBytes+12+n])
		if err != nil {
			return err
		}
		it := item{id: packed[:idBytes], horizon: horizon, coverage: coverage, key: itemKey{coverage: coverage.Key()}}
		if counter == 1 {
			it.key.length = horizon / 2
		}
		places[it.key] = len(items)
		items = append(items, it)
		packed = packed[idBytes+12+n:]
	}
	life := head[:len(head)*lifeBytes/headBytes]
	if life != a.life {
		clear(a.labels)
		a.newest = 0
	}
	for l, have := range a.labels {
		a.labels[l] = &labelled{number: have.number}
	}
	clear(a.shapes)
	a.head, a.life, a.items, a.places = head, life, items, places
	return nil
}

func (a *account) horizonArg(key string) string {
	return string(number(nil, a.horizon(key != ""), 7))
}

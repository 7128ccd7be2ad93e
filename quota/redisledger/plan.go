package redisledger

import (
	"slices"

	"github.com/ration-dev/ration/quota"
)

// plan is a batch as spend.lua takes it.
type plan struct {
	names
	*account
	batch  *quota.Batch
	scope  int   // of its log
	places []int // of the requests to send
	mode   mode
	try    int64 // how often its answer was lost

	time string // injected
	now  int64  // a guess at the store's, then the store's, µs
	at   int64  // this process' clock, µs

	groups  []group
	keeps   bool // the log keeps entries
	head    string
	keys    []string
	args    []any
	charges []*quota.Charge
	numbers map[*quota.Charge]int // from 1 on, of charges; nil while there are few
}

// shape is all of a request but its units, with what an account knows of it.
type shape struct {
	*labelled
	feeds   []int
	charges []*quota.Charge
	asks    [][]asked // of each charge: its own, and then those of its floors
	items   [][]int   // that answer them
	round   int       // of the scope, when it was last marked as asked
}

// shapeKey finds a shape again. The address is of the first charge in the caller's
// list, which stays where it is while the shape is known.
type shapeKey struct {
	label
	first **quota.Charge
	n     int
}

// maxShapes are remembered in the process.
const maxShapes = 4096

// shape returns what is known of a request, or nil when the store must be asked.
func (a *account) shape(scope int, r *quota.Request) *shape {
	of := &a.scopes[scope]
	key := shapeKey{label: label{r.Method, r.Caller}, n: len(r.Charges)}
	if key.n > 0 {
		key.first = &r.Charges[0]
	}
	s := of.shapes[key]
	if s == nil || !slices.Equal(s.charges, r.Charges) {
		if s = a.newShape(scope, key.label, r.Charges); s == nil {
			return nil
		}
		if len(of.shapes) >= maxShapes {
			clear(of.shapes)
		}
		of.shapes[key] = s
	}
	if s.round != of.round {
		s.round = of.round
		for _, asks := range s.asks {
			for _, q := range asks {
				of.mark(q)
			}
		}
	}
	return s
}

func (a *account) newShape(scope int, l label, charges []*quota.Charge) *shape {
	known := a.labels[l]
	if known == nil {
		return nil
	}
	s := &shape{labelled: known, charges: slices.Clone(charges), asks: make([][]asked, len(charges)), items: make([][]int, len(charges))}
	for i, c := range charges {
		s.asks[i] = asks(c)
		for _, q := range s.asks[i] {
			item := a.scopes[scope].find(q)
			if item < 0 {
				return nil
			}
			s.items[i] = append(s.items[i], item)
		}
	}
	s.feeds = a.feeds(scope, l)
	return s
}

// make packs the batch, or returns what it needs that is not known.
func (p *plan) make() *wants {
	a := p.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.head == "" {
		return a.missing(p)
	}
	if w := a.due(p.at); w != nil {
		return w
	}
	if p.batch.History > 0 {
		q := listed(p.batch.History)
		if a.scopes[p.scope].find(q) < 0 {
			return a.missing(p)
		}
		a.scopes[p.scope].mark(q)
	}
	p.head, p.charges, p.numbers = a.head, p.charges[:0], nil
	of := &a.scopes[p.scope]
	p.keeps = of.keeps
	s := sources{items: of.items, names: p.names}
	var charges []byte
	groups := p.groups[:0]
	var last *group
	for _, place := range p.places {
		r := &p.batch.Requests[place]
		if last == nil || !last.takes(r, place) {
			known := a.shape(p.scope, r)
			if known == nil {
				return a.missing(p)
			}
			groups = append(groups, group{shape: known, request: r, place: place})
			last = &groups[len(groups)-1]
			for _, item := range known.feeds {
				s.number(item)
			}
			for i, c := range known.charges {
				if _, ok := p.numberOf(c); !ok {
					charges = packCharge(charges, a, c, s.numbers(known.items[i]), p.hint(c), p.now)
				}
			}
		}
		last.times++
	}
	p.groups = groups
	b := append(make([]byte, 0, 128), p.head...)
	b = number(b, int64(p.wireMode()|p.more()), 1)
	b = number(b, int64(p.batch.Client), 6)
	b = number(b, int64(p.batch.Seq), 7)
	b = number(b, of.horizon, 7)
	b = number(number(b, int64(len(p.charges)), 2), int64(len(groups)), 2)
	b = append(append(b, charges...), s.packed...)
	for i := range groups {
		b = p.packGroup(b, &groups[i], &s)
	}
	if b = packNames(b, p.charges); len(p.charges) == 0 {
		b = number(b, 0, 4) // plain.lua reads a charge at once, before it knows that there is none
	}
	p.finish(b, &s)
	return nil
}

// wireMode is the mode as the script is told it.
func (p *plan) wireMode() mode {
	if p.mode == fresh && p.head[headBytes-1] != 0 {
		return watched
	}
	return p.mode
}

// lost makes the batch one that is sent again.
func (p *plan) lost(try int64) {
	p.try = try
	switch p.mode {
	case fresh:
		p.mode = resent
	case named:
		p.mode = again
	}
}

// more is what the log adds to the mode.
func (p *plan) more() (m mode) {
	if !p.keeps {
		m |= counting
	}
	if p.named != "" {
		m |= longKey
	}
	return m
}

// hint returns the place at which a window of the account's own log was last heard to begin.
func (p *plan) hint(c *quota.Charge) int64 {
	if p.scope != ownLog {
		return 0
	}
	return p.hints[c]
}

// hear notes where the windows of the account's own log begin.
func (p *plan) hear(a *packed) {
	if len(a.rest) != 4*len(p.charges) || len(a.rest) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hints == nil || len(p.hints) > maxShapes {
		p.hints = map[*quota.Charge]int64{}
	}
	for _, c := range p.charges {
		if place := a.number(4); p.scope == ownLog {
			p.hints[c] = place
		}
	}
}

// finish makes keys and arguments of a packed batch.
func (p *plan) finish(b []byte, s *sources) {
	p.keys = append(append(p.keys[:0], p.meta, p.log), s.keys...)
	if p.wireMode() != fresh {
		p.keys = append(p.keys, p.cooldowns, p.slot(p.batch.Client))
	}
	if p.mode == resent || p.mode == again {
		since := int64(0)
		if p.batch.Key == "" {
			since = max(0, p.newest-slack)
		}
		b = number(number(number(b, int64(len(p.batch.Requests)), 4), since, 7), p.try, 2)
	}
	p.args = append(p.args[:0], b)
	switch {
	case p.named != "":
		p.keys = append(p.keys, p.named)
		p.args = append(p.args, p.time, p.batch.Key)
	case p.time != "":
		p.args = append(p.args, p.time)
	}
}

// group is a run of requests of one batch that differ in nothing.
type group struct {
	*shape
	request *quota.Request // the first
	place   int            // of that in the batch
	times   int
}

// takes reports whether a request goes on the run.
func (g *group) takes(r *quota.Request, place int) bool {
	f := g.request
	return place == g.place+g.times && g.times < 1<<16-1 && r.Units == f.Units && r.Force == f.Force &&
		r.Kind == f.Kind && r.Calls == f.Calls && r.Method == f.Method && r.Caller == f.Caller && slices.Equal(r.Charges, f.Charges)
}

// What stands for every source, and for every charge.
const (
	allSources = 1<<8 - 1
	allCharges = 1<<16 - 1
)

func (p *plan) packGroup(b []byte, g *group, s *sources) []byte {
	units := int64(g.request.Units)
	if g.request.Force {
		units |= 1 << 31
	}
	b = number(number(b, g.number, 2), units, 4)
	place := int64(g.place)
	if g.request.Kind != quota.EntryCall {
		place |= 1 << 31
	}
	b = number(number(b, place, 4), int64(g.times), 2)
	feeds, charges := len(g.feeds), len(g.charges)
	everySource := feeds == len(s.keys)
	everyCharge := slices.Equal(g.charges, p.charges)
	if everySource {
		feeds = allSources
	}
	if everyCharge {
		charges = allCharges
	}
	b = number(number(b, int64(feeds), 1), int64(charges), 2)
	if !everySource {
		for _, item := range g.feeds {
			b = number(b, s.number(item), 1)
		}
	}
	if !everyCharge {
		for _, c := range g.charges {
			n, _ := p.numberOf(c)
			b = number(b, int64(n), 2)
		}
	}
	if g.request.Kind != quota.EntryCall {
		b = number(append(b, byte(g.request.Kind)), int64(g.request.Calls), 4)
	}
	return b
}

// numberOf returns the number of a charge, and whether it had one.
func (p *plan) numberOf(c *quota.Charge) (int, bool) {
	if p.numbers == nil {
		if i := slices.Index(p.charges, c); i >= 0 {
			return i + 1, true
		}
	} else if n, ok := p.numbers[c]; ok {
		return n, true
	}
	p.charges = append(p.charges, c)
	n := len(p.charges)
	if n == 32 { // from here on a map finds them sooner
		p.numbers = map[*quota.Charge]int{}
		for i, c := range p.charges {
			p.numbers[c] = i + 1
		}
	}
	if p.numbers != nil {
		p.numbers[c] = n
	}
	return n, false
}

// sources numbers the items that a script is given; 0 is the log.
type sources struct {
	items []item
	names
	places []int // in items, by number from 1 on
	keys   []string
	packed []byte
}

// numbers returns those of several items.
func (s *sources) numbers(places []int) []int64 {
	all := make([]int64, len(places))
	for i, place := range places {
		all[i] = s.number(place)
	}
	return all
}

func (s *sources) number(place int) int64 {
	if place < 0 || s.items[place].isLog() {
		return 0
	}
	if i := slices.Index(s.places, place); i >= 0 {
		return int64(i + 1)
	}
	it := &s.items[place]
	s.places = append(s.places, place)
	s.keys = append(s.keys, s.source(it.id))
	if it.key.length > 0 {
		s.packed = number(append(s.packed, 1, byte(it.coverage.Measure)), it.key.length, 7)
	} else {
		s.packed = number(append(s.packed, 0, byte(it.coverage.Measure)), it.horizon, 7)
	}
	return int64(len(s.keys))
}

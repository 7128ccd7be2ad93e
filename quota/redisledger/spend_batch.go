package redisledger

import (
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota"
)

// spendBatch is a batch for spend.lua, with its keys and arguments.
type spendBatch struct {
	names
	*accountCache
	batch  *quota.Batch
	scope  int           // of its log
	places []int         // indexes of the requests to decide
	sent   []int         // those of them that fit the limits that hold, however empty the windows are
	unfit  map[int]error // the answers to the others
	mode   mode
	try    int64 // how often its answer was lost

	time string // of the injected clock; "" if there is none
	now  int64  // an estimate of the server's time, then that time, µs
	at   int64  // this host's time, µs

	conn    *redis.Conn // where it was sent, if replicas are waited for
	groups  []group
	keeps   bool // the log keeps entries
	head    string
	keys    []string
	args    []any
	charges []*quota.Charge
	numbers map[*quota.Charge]int // of the charges, from 1; nil while there are few
}

// encode sets the keys and arguments. If the account cache lacks a part of
// them, it returns what must be learned first.
func (p *spendBatch) encode() *learnRequest {
	a := p.accountCache
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.head == "" {
		return a.missing(p)
	}
	if w := a.due(p); w != nil {
		return w
	}
	if p.batch.History > 0 {
		q := historyDemand(p.batch.History)
		if a.scopes[p.scope].find(q) < 0 {
			return a.missing(p)
		}
		a.scopes[p.scope].recordUse(q)
	}
	p.head = a.head
	p.charges = p.charges[:0]
	p.numbers, p.unfit = nil, nil
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
			if err := p.check(r, known); err != nil {
				p.exclude(place, err)
				continue
			}
			groups = append(groups, group{shape: known, request: r, place: place})
			last = &groups[len(groups)-1]
			for _, item := range known.feeds {
				s.number(item)
			}
			for i, c := range known.held {
				if _, ok := p.numberOf(c); !ok {
					charges = packCharge(charges, a, c, s.numbers(known.items[i]), p.edgeOf(c), p.now)
				}
			}
		}
		last.times++
	}
	p.groups, p.sent = groups, p.places
	if p.unfit != nil {
		p.sent = slices.DeleteFunc(slices.Clone(p.places), func(place int) bool { return p.unfit[place] != nil })
	}
	p.pack(&s, charges)
	return nil
}

// pack sets the script's arguments for the groups of requests.
func (p *spendBatch) pack(s *sources, charges []byte) {
	b := p.packHead(make([]byte, 0, 256), len(s.keys))
	if p.guarded() {
		b = packNames(b, p.charges)
	}
	b = append(append(b, charges...), s.packed...)
	for i := range p.groups {
		b = p.packGroup(b, &p.groups[i], s)
	}
	p.setArgs(b, s)
}

// check checks a request against the limits that hold in place of its own.
func (p *spendBatch) check(r *quota.Request, known *shape) error {
	if r.Force || len(r.Charges) == 0 || &known.held[0] == &known.charges[0] {
		return nil
	}
	held := *r
	held.Charges = known.held
	return held.Check(p.batch.Account)
}

// exclude answers a request without sending it.
func (p *spendBatch) exclude(place int, err error) {
	if p.unfit == nil {
		p.unfit = map[int]error{}
	}
	p.unfit[place] = err
}

// chargesOf returns the charges by which the request at a place was decided.
func (p *spendBatch) chargesOf(place int) []*quota.Charge {
	i, _ := slices.BinarySearchFunc(p.groups, place, func(g group, place int) int {
		if g.place+g.times <= place {
			return -1
		}
		return 0
	})
	return p.groups[i].held
}

// packHead appends the fixed fields at the start of a batch, as spend.lua
// reads them.
func (p *spendBatch) packHead(b []byte, sources int) []byte {
	b = append(b, p.head...)
	b = append(b, byte(p.mode)+4*flagOf(p.batch.Once), flagOf(p.keeps), flagOf(p.scope == ownLog))
	b = number(number(b, int64(p.batch.Client), 6), int64(p.batch.Seq), 7)
	b = number(number(b, max(0, p.batch.Known.At.UnixMicro()), 7), max(0, p.batch.Clock.UnixMicro()), 7)
	b = number(b, p.scopes[p.scope].horizon, 7)
	b = number(b, int64(sources), 1)
	b = number(number(b, int64(len(p.charges)), 2), int64(len(p.groups)), 2)
	if p.mode == resent || p.mode == again {
		since := int64(0)
		if p.batch.Key == "" {
			since = max(0, p.newest.At.UnixMicro()-slack)
		}
		b = number(number(number(b, int64(len(p.batch.Requests)), 4), since, 7), p.try, 2)
	}
	return b
}

func flagOf(is bool) byte {
	if is {
		return 1
	}
	return 0
}

// guarded reports whether the account may have cooldowns, or slots of
// retried batches.
func (p *spendBatch) guarded() bool { return p.head[headBytes-1] != 0 }

// lost makes the batch a retry after its answer was lost for the try-th time.
func (p *spendBatch) lost(try int64) {
	p.try = try
	switch p.mode {
	case fresh:
		p.mode = resent
	case named:
		p.mode = again
	}
}

// setArgs sets the keys and arguments of an encoded batch.
func (p *spendBatch) setArgs(b []byte, s *sources) {
	p.keys = append(append(p.keys[:0], p.meta, p.log), s.keys...)
	if p.mode != fresh || p.guarded() {
		p.keys = append(p.keys, p.cooldowns, p.slot(p.batch.Client))
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

// group is a run of consecutive, identical requests of one batch.
type group struct {
	*shape
	request *quota.Request // the first
	place   int            // its index in the batch
	times   int
}

// takes reports whether a request continues the run.
func (g *group) takes(r *quota.Request, place int) bool {
	isNext := place == g.place+g.times && g.times < 1<<16-1
	return isNext && isRepeated(g.request, r)
}

// isRepeated reports whether a request is identical to the one before it.
func isRepeated(before, r *quota.Request) bool {
	switch {
	case r.Units != before.Units || r.Calls != before.Calls:
		return false
	case r.Force != before.Force || r.Kind != before.Kind:
		return false
	}
	return r.Method == before.Method && r.Caller == before.Caller && slices.Equal(r.Charges, before.Charges)
}

func (p *spendBatch) packGroup(b []byte, g *group, s *sources) []byte {
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
	b = number(number(b, int64(len(g.feeds)), 1), int64(len(g.charges)), 2)
	for _, item := range g.feeds {
		b = number(b, s.number(item), 1)
	}
	for _, c := range g.held {
		n, _ := p.numberOf(c)
		b = number(b, int64(n), 2)
	}
	if g.request.Kind != quota.EntryCall {
		b = number(append(b, byte(g.request.Kind)), int64(g.request.Calls), 4)
	}
	return b
}

// numberOf returns the number of a charge in this batch, from 1, and whether
// the charge already had one.
func (p *spendBatch) numberOf(c *quota.Charge) (int, bool) {
	if p.numbers == nil {
		if i := slices.Index(p.charges, c); i >= 0 {
			return i + 1, true
		}
	} else if n, ok := p.numbers[c]; ok {
		return n, true
	}
	p.charges = append(p.charges, c)
	n := len(p.charges)
	if n == 32 { // a map is faster from here on
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

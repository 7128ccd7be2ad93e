package redisledger

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-dev/ration/quota"
)

// What the scripts answer first.
const (
	answered  = 0
	otherHead = 1
	otherDay  = 2 // of spend and standings
	tooLate   = 2 // of settle
	stale     = 3 // of spend: a later batch of this client came first
	logFull   = 3 // of settle, and of one request
)

// maxRounds bounds how often one operation learns, or is told of another day.
const maxRounds = 8

// maxSeq is where numbers in Lua end.
const maxSeq = 1 << 53

var errFull = fmt.Errorf("%w: the log holds more units than can be added up", quota.ErrBadCall)

// spend decides one batch that has an id. ctx carries the deadline.
func (l *Ledger) spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if batch.Client >= 1<<48 || batch.Seq >= maxSeq-uint64(len(batch.Requests)) {
		return nil, fmt.Errorf("%w: the client's id has more than 48 bits, or its sequence more than 53; take one from quota.NewClient", quota.ErrBadCall)
	}
	answers := make([]quota.Answer, len(batch.Requests))
	p := plan{names: l.names(batch.Account, batch.Key), batch: batch}
	for i := range batch.Requests {
		r := &batch.Requests[i]
		if answers[i].Err = r.Check(batch.Account); answers[i].Err == nil {
			p.requests, p.places = append(p.requests, *r), append(p.places, i)
		}
	}
	if len(p.requests) == 0 {
		return answers, nil
	}
	op := &operation{ledger: l, ctx: ctx}
	reply, err := l.decide(op, &p)
	if err != nil {
		return nil, err
	}
	for _, i := range p.places {
		answers[i] = p.answer(reply, i)
	}
	if reply.bad {
		return nil, l.failed(errGarbled, unknown, true)
	}
	return answers, nil
}

// decide sends the batch until the store and this process agree on what its
// numbers mean, and on the day.
func (l *Ledger) decide(op *operation, p *plan) (*reply, error) {
	a := l.account(p.batch.Account)
	var told int64
	for range maxRounds {
		p.time, p.now = l.clock(told)
		a.mu.Lock()
		w := a.missing(p.requests)
		if w == nil {
			p.make(a)
		}
		a.mu.Unlock()
		if w != nil {
			if err := l.learn(op, p.batch.Account, w); err != nil {
				return nil, err
			}
			continue
		}
		reply, err := op.ask(&spendScript, p.keys, p.args)
		if err != nil {
			return nil, err
		}
		code := reply.number()
		if code == answered || code == otherDay {
			p.now = reply.number()
		}
		switch {
		case reply.bad || code > stale:
			return nil, l.failed(errGarbled, unknown, true)
		case code == answered:
			return reply, nil
		case code == stale:
			return nil, l.failed(fmt.Errorf("batch %d came after a later one", p.batch.Seq), unknown, true)
		case code == otherHead:
			a.forget(p.head)
		default:
			told = p.now
		}
	}
	return nil, l.failed(errForgets, down, op.doubt)
}

// forget makes what is known of a head be learned anew.
func (a *account) forget(head string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.head == head {
		a.head, a.items, a.places = "", nil, nil
	}
}

// plan is a batch as spend.lua takes it.
type plan struct {
	names
	batch    *quota.Batch
	requests []quota.Request // those to send
	places   []int           // of each in the batch

	time string // injected
	now  int64

	head    string
	keys    []string
	args    []any
	charges []*quota.Charge
}

// make packs the batch. All of it is known to a, whose lock is held.
func (p *plan) make(a *account) {
	p.head = a.head
	p.charges = p.charges[:0]
	s := sources{account: a, names: p.names, numbers: map[int]int64{}}
	numbers := map[*quota.Charge]int64{}
	var requests []byte
	var charges []any
	for i := range p.requests {
		r := &p.requests[i]
		units := int64(r.Units)
		if r.Force {
			units |= 1 << 31
		}
		l := label{r.Method, r.Caller}
		feeds := a.feeds(l)
		requests = number(requests, int64(p.places[i]), 4)
		requests = number(requests, units, 4)
		requests = number(requests, a.labels[l].number, 2)
		requests = number(requests, int64(len(feeds)), 1)
		requests = number(requests, int64(len(r.Charges)), 2)
		for _, place := range feeds {
			requests = number(requests, s.number(place), 1)
		}
		for _, c := range r.Charges {
			n, ok := numbers[c]
			if !ok {
				p.charges = append(p.charges, c)
				n = int64(len(p.charges))
				numbers[c] = n
				charges = append(charges, packCharge(a, c, s.number(a.find(c)), p.now))
			}
			requests = number(requests, n, 2)
		}
	}
	id := number(number(nil, int64(p.batch.Client), 6), int64(p.batch.Seq), 7)
	p.keys = append([]string{p.meta, p.cooldowns, p.slot(p.batch.Client), p.log}, s.keys...)
	p.args = append([]any{a.head, p.time, string(id), a.horizonArg(p.batch.Key), string(s.packed), string(requests)}, charges...)
}

func (a *account) horizonArg(key string) string {
	return string(number(nil, a.horizon(key != ""), 7))
}

// sources numbers the items that a script is given; 0 is the log.
type sources struct {
	*account
	names
	numbers map[int]int64 // by place in items
	keys    []string
	packed  []byte
}

func (s *sources) number(place int) int64 {
	if place < 0 || s.items[place].isLog() {
		return 0
	}
	n, ok := s.numbers[place]
	if !ok {
		it := &s.items[place]
		s.keys = append(s.keys, s.source(it.id))
		n = int64(len(s.keys))
		s.numbers[place] = n
		if it.key.length > 0 {
			s.packed = number(append(s.packed, 1, byte(it.coverage.Measure)), it.key.length, 7)
		} else {
			s.packed = number(append(s.packed, 0, byte(it.coverage.Measure)), it.horizon, 7)
		}
	}
	return n
}

// packCharge packs one charge as new_charge in common.lua reads it.
func packCharge(a *account, c *quota.Charge, source, now int64) string {
	b := []byte{byte(c.Window.Kind()), byte(source)}
	b = number(b, c.Window.Length().Microseconds(), 7)
	b = number(b, int64(min(max(c.Limit, 1), quota.MaxLimit)), 6)
	if c.Window.Kind() == quota.KindDaily {
		day := a.day(c.Window, now)
		for _, at := range []int64{day.Start, day.Since, day.Opens, day.Next, day.Reopens} {
			b = number(b, max(at, 0), 7)
		}
	}
	return string(append(b, c.Budget...))
}

// answer reads the answer to the request at a place of the batch.
func (p *plan) answer(r *reply, place int) quota.Answer {
	request := &p.batch.Requests[place]
	switch code := r.number(); code {
	case 0:
		id := quota.ID{Client: p.batch.Client, Seq: p.batch.Seq + uint64(place)}
		return quota.Answer{Receipt: quota.Receipt{Account: p.batch.Account, Key: p.batch.Key, ID: id, At: instant(r.number())}}
	case 1, 2:
		return quota.Answer{Err: p.refusal(r, request, code == 2)}
	case logFull:
		return quota.Answer{Err: errFull}
	}
	r.bad = true
	return quota.Answer{}
}

func (p *plan) refusal(r *reply, request *quota.Request, cool bool) *quota.RefusedError {
	n, used, at := r.number(), r.number(), r.number()
	refused := &quota.RefusedError{Account: p.batch.Account, Key: p.batch.Key, Method: request.Method, Reason: quota.ReasonSpent,
		Needed: request.Units, RetryAt: instant(at), RetryAfter: time.Duration(at-p.now) * time.Microsecond}
	if cool {
		refused.Reason, refused.Detail = quota.ReasonCooldown, r.text()
	}
	if n < 0 || n > int64(len(p.charges)) {
		r.bad = true
	} else if n > 0 {
		c := p.charges[n-1]
		refused.Budget, refused.Measure, refused.Limit = c.Budget, c.Coverage.Measure, c.Limit
		refused.Remaining, refused.Needed = max(0, c.Limit-quota.Units(used)), c.Coverage.Amount(request.Units)
	}
	return refused
}

func instant(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

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
	logFull   = 3 // of settle
	searching = 4 // of spend: the log is not searched to its end yet
	outdone   = 5 // of spend: a later try of the batch was decided
)

// What spend.lua answers of some requests.
const (
	runGranted = iota
	runSpent
	runCooled
	runFull
	runKept // for a request that has charges with floors
)

// mode is how spend.lua knows a batch again, see there.
type mode byte

const (
	fresh mode = iota
	named
	resent
	watched
	again = 5

	keyed = 8 // more, when the log has a key
)

// maxRounds bounds how often one operation learns, or is told of another day.
const maxRounds = 8

// maxSeq is where numbers in Lua end, and mostRequests where a batch's numbers of two bytes do.
const (
	maxSeq       = 1 << 53
	mostRequests = 1<<16 - 1
)

var errFull = fmt.Errorf("%w: the log holds more units than can be added up", quota.ErrBadCall)

// spend decides one batch of the combiner's, which is sent for the first time.
// ctx carries the deadline.
func (l *Ledger) spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	return l.spendAs(ctx, batch, fresh)
}

// spendNamed decides one batch whose id is the caller's: it may have come before.
func (l *Ledger) spendNamed(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if batch.Client >= 1<<48 || batch.Seq >= maxSeq-uint64(len(batch.Requests)) {
		return nil, fmt.Errorf("%w: the client's id has more than 48 bits, or its sequence more than 53; take one from quota.NewClient", quota.ErrBadCall)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return l.spendAs(ctx, batch, named)
}

func (l *Ledger) spendAs(ctx context.Context, batch *quota.Batch, as mode) ([]quota.Answer, error) {
	if len(batch.Requests) > mostRequests {
		return nil, fmt.Errorf("%w: a batch of %d requests; send at most %d at once", quota.ErrBadCall, len(batch.Requests), mostRequests)
	}
	answers := make([]quota.Answer, len(batch.Requests))
	p := plan{batch: batch, account: l.account(batch.Account), mode: as, places: make([]int, 0, len(batch.Requests))}
	for i := range batch.Requests {
		if answers[i].Err = batch.Requests[i].Check(batch.Account); answers[i].Err == nil {
			p.places = append(p.places, i)
		}
	}
	if len(p.places) == 0 {
		return answers, nil
	}
	p.names = p.account.namesOf(l, batch)
	op := operation{ledger: l, ctx: ctx}
	reply, err := l.decide(&op, &p)
	if err != nil {
		return nil, err
	}
	if !p.read(reply, answers) {
		return nil, l.failed(errGarbled, unknown, true)
	}
	if batch.Key == "" {
		p.account.tell(answers)
	}
	return answers, nil
}

// decide sends the batch until the store and this process agree on what its
// numbers mean, and on the day.
func (l *Ledger) decide(op *operation, p *plan) (*packed, error) {
	a := p.account
	var told int64
	for rounds := 0; rounds < maxRounds; rounds++ {
		p.time, p.now = l.clock(told)
		w := p.make()
		if w != nil {
			if err := l.learn(op, p.batch.Account, w); err != nil {
				return nil, err
			}
			continue
		}
		value, err := op.try(&spendScript, p.keys, p.args)
		if err != nil {
			lost, err := op.after(&spendScript, err)
			if err != nil {
				return nil, err
			}
			if lost {
				p.lost(p.try + 1) // the ledger is to hold the copies before off, and to search for what they did
			}
			rounds-- // after counts those
			continue
		}
		text, ok := value.(string)
		answer := &packed{rest: text, bad: !ok}
		code := answer.number(1)
		if code == answered || code == otherDay {
			p.now = answer.number(7)
		}
		switch {
		case answer.bad || code > outdone:
			return nil, l.failed(errGarbled, unknown, true)
		case code == answered:
			return answer, nil
		case code == stale:
			return nil, l.failed(fmt.Errorf("batch %d came after a later one", p.batch.Seq), unknown, true)
		case code == otherHead:
			a.forget(p.head)
		case code == searching:
			rounds-- // a page of the log was searched; the deadline ends it
		case code == outdone:
			p.lost(answer.number(2) + 1)
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

// packCharge packs one charge as new_charges in common.lua reads it, with the sources
// of its coverage and, if they matter, of its floors.
func packCharge(b []byte, a *account, c *quota.Charge, sources []int64, now int64) []byte {
	kind := byte(c.Window.Kind())
	if len(sources) > 1 {
		kind += 16
	}
	b = append(b, kind, byte(sources[0]))
	b = number(b, c.Window.Length().Microseconds(), 7)
	b = number(b, limitOf(c), 6)
	if c.Window.Kind() == quota.KindDaily {
		day := a.day(c.Window, now)
		for _, at := range []int64{day.Start, day.Since, day.Opens, day.Next, day.Reopens} {
			b = number(b, max(at, 0), 7)
		}
	}
	if len(sources) > 1 {
		b = number(number(b, int64(len(c.Floors)), 1), max(0, c.FloorUntil.Microseconds()), 7)
		for i, floor := range c.Floors {
			b = number(number(b, sources[1+i], 1), int64(floor.Units), 6)
		}
	}
	return b
}

// limitOf returns a limit as scripts take it.
func limitOf(c *quota.Charge) int64 { return int64(min(max(c.Limit, 1), quota.MaxLimit)) }

// packNames packs the names of the charges' budgets.
func packNames(b []byte, charges []*quota.Charge) []byte {
	for _, c := range charges {
		b = append(number(b, int64(len(c.Budget)), 2), c.Budget...)
	}
	return b
}

// packed reads an answer of spend.lua. What is not there makes it bad.
type packed struct {
	rest string
	bad  bool
}

func (a *packed) text(bytes int64) string {
	if bytes > int64(len(a.rest)) {
		a.bad, a.rest = true, ""
		return ""
	}
	text := a.rest[:bytes]
	a.rest = a.rest[bytes:]
	return text
}

func (a *packed) number(bytes int64) int64 { return value(a.text(bytes)) }

// read reads the answers to the requests that were sent.
func (p *plan) read(a *packed, answers []quota.Answer) bool {
	places := p.places
	for len(places) > 0 {
		code, n := a.number(1), a.number(4)
		if a.bad || n < 1 || n > int64(len(places)) || code > runKept {
			return false
		}
		run := places[:n]
		places = places[n:]
		switch code {
		case runGranted:
			stamp := a.number(7)
			for i, place := range run {
				answers[place].Receipt = quota.Receipt{Account: p.batch.Account, Key: p.batch.Key,
					ID: quota.ID{Client: p.batch.Client, Seq: p.batch.Seq + uint64(place)}, At: instant(stamp + int64(i))}
			}
		case runFull:
			for _, place := range run {
				answers[place].Err = errFull
			}
		default:
			var refusal quota.RefusedError
			if request := &p.batch.Requests[run[0]]; code == runKept {
				refusal = p.refusalBeside(a, request)
			} else {
				refusal = p.refusal(a, request, code == runCooled)
			}
			for _, place := range run {
				own := refusal
				answers[place].Err = &own
			}
		}
	}
	return !a.bad && a.rest == ""
}

// refusal reads why requests were refused that are the same as this one.
func (p *plan) refusal(a *packed, request *quota.Request, cool bool) quota.RefusedError {
	n, used, at := a.number(2), a.number(7), a.number(7)
	refused := quota.RefusedError{Account: p.batch.Account, Key: p.batch.Key, Method: request.Method, Reason: quota.ReasonSpent,
		Needed: request.Units, RetryAt: instant(at), RetryAfter: time.Duration(at-p.now) * time.Microsecond}
	if cool {
		refused.Reason, refused.Detail = quota.ReasonCooldown, a.text(a.number(2))
	}
	if n > int64(len(p.charges)) {
		a.bad = true
	} else if n > 0 {
		c := p.charges[n-1]
		refused.Budget, refused.Measure, refused.Limit = c.Budget, c.Coverage.Measure, c.Limit
		refused.Remaining, refused.Needed = max(0, c.Limit-quota.Units(used)), c.Coverage.Amount(request.Units)
	}
	return refused
}

func instant(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

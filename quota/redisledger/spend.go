package redisledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// Codes that a script's answer begins with.
const (
	answered  = 0
	otherHead = 1
	otherDay  = 2 // of spend and standings
	tooLate   = 2 // of settle
	stale     = 3 // of spend: a later batch of this client was decided
	logFull   = 3 // of settle
	searching = 4 // of spend: the log was searched in part
	outdone   = 5 // of spend: a later try of the batch was decided
	dropped   = 6 // of spend and settle: the log keeps no entries of the calls, or may have dropped them
	forgot    = 7 // of spend: the log ends before an entry that the batch knows
	clockLead = 8 // of spend: the store's clock is far ahead of the caller's and of the log
	reused    = 9 // of spend: the client has another batch
)

// Codes of spend.lua's answer for a run of requests.
const (
	runGranted = iota
	runSpent
	runCooled
	runFull
	runKept  // refused, with floors
	runKnown // granted before
	runAhead // precedes an answer from a log whose newest timestamp is far ahead
	runLast  // precedes a refusal: the log's newest entry but for notes
)

// mode is how the store recognizes a batch, see resent.lua.
type mode byte

const (
	fresh mode = iota
	named
	resent
	again
)

// maxRounds is how often one operation may learn, or be sent again for
// another day.
const maxRounds = 8

// maxSeq is the first number that Lua cannot count to. mostRequests fits in the
// two bytes that number a batch's requests.
const (
	maxSeq       = 1 << 53
	mostRequests = 1<<16 - 1
)

// errNoEntries is why a batch whose answer was lost stays in doubt.
var errNoEntries = errors.New("the log keeps no entries to look the calls up in")

var errFull = fmt.Errorf("%w: the log holds more units than can be added up", quota.ErrBadCall)

// spend decides a batch of the combiner's.
func (l *Ledger) spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	return l.spendAs(ctx, batch, fresh)
}

// spendNamed decides a batch with an id of the caller's, which may be a retry.
func (l *Ledger) spendNamed(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if batch.Client >= 1<<48 || batch.Seq >= maxSeq-uint64(len(batch.Requests)) {
		return nil, fmt.Errorf("%w: the client's id has more than 48 bits, or its sequence more than 53; take one from quota.NewClient", quota.ErrBadCall)
	}
	return l.spendAs(ctx, batch, named)
}

// spendAs decides a batch. It does so when ctx is done too.
func (l *Ledger) spendAs(ctx context.Context, batch *quota.Batch, as mode) ([]quota.Answer, error) {
	ctx, cancel := l.bounded(context.WithoutCancel(ctx), patience)
	defer cancel()
	if len(batch.Requests) > mostRequests {
		return nil, fmt.Errorf("%w: a batch of %d requests; send at most %d at once", quota.ErrBadCall, len(batch.Requests), mostRequests)
	}
	answers := make([]quota.Answer, len(batch.Requests))
	p := spendBatch{batch: batch, accountCache: l.cache(batch.Account), scope: scopeOf(batch.Key), mode: as, places: make([]int, 0, len(batch.Requests))}
	for i := range batch.Requests {
		if answers[i].Err = batch.Requests[i].Check(batch.Account); answers[i].Err == nil {
			p.places = append(p.places, i)
		}
	}
	if len(p.places) == 0 {
		return answers, nil
	}
	p.names = p.accountCache.namesOf(l, batch)
	op, dials := scriptRunner{ledger: l, ctx: ctx}, l.dials.Load()
	defer p.release()
	reply, err := l.decide(&op, &p)
	if err != nil {
		return nil, err
	}
	if !p.read(reply, answers) {
		return nil, l.failed(errMalformed, unknown, true)
	}
	if err := l.awaitReplicas(ctx, &p, answers); err != nil {
		return nil, err
	}
	if l.dials.Load() != dials { // perhaps another server has decided it
		if err := l.lookUp(ctx, batch, p.head); err != nil {
			return nil, l.withdraw(ctx, &p, answers, err)
		}
	}
	if batch.Key == "" {
		p.accountCache.noteNewest(answers)
	}
	return answers, nil
}

// learnAgain learns the head anew, and reports whether it is still the same.
func (l *Ledger) learnAgain(op *scriptRunner, p *spendBatch) (isSame bool, err error) {
	known := p.head
	err = l.learn(op, p.batch.Account, nil)
	return err == nil && p.isHead(known), err
}

// decide sends the batch until the store decides it: with what the account
// cache lacked, the day by the store's clock, or as a retry.
func (l *Ledger) decide(op *scriptRunner, p *spendBatch) (*packed, error) {
	a := p.accountCache
	var serverTime int64
	isFresh := false // the head was learned by this operation
	for rounds := 0; rounds < maxRounds; rounds++ {
		p.time, p.now = l.clock(serverTime)
		p.at = l.elapsed()
		if w := p.encode(); w != nil {
			if err := l.learn(op, p.batch.Account, w); err != nil {
				return nil, err
			}
			isFresh = true
			continue
		}
		if again, err := l.remembers(op, p, isFresh); err != nil {
			return nil, err
		} else if again {
			continue
		}
		if p.mode == resent && !p.keeps {
			return nil, l.failed(errNoEntries, unknown, true)
		}
		if len(p.sent) == 0 { // unless the limits that hold have changed
			if isSame, err := l.learnAgain(op, p); isSame || err != nil {
				return &packed{}, err
			}
			continue
		}
		value, err := l.trySpend(op, p)
		if err != nil {
			if err := p.afterError(op, err); err != nil {
				return nil, err
			}
			rounds-- // after limits these
			continue
		}
		text, ok := value.(string)
		answer := &packed{rest: text, bad: !ok}
		code := answer.number(1)
		if code == answered || code == otherDay || code == clockLead {
			p.now = answer.number(7)
		}
		if err := l.undecided(op.ctx, p, code, answer); err != nil {
			return nil, err
		}
		switch code {
		case answered:
			return answer, nil
		case otherHead:
			a.forget(p.head)
		case otherDay:
			serverTime = p.now
		case searching:
			rounds-- // the deadline limits these
		case outdone:
			p.lost(answer.number(2) + 1)
		}
	}
	return nil, l.failed(errUnstable, down, op.doubt)
}

// afterError prepares the batch to be sent again after an error, or returns why
// it cannot be.
func (p *spendBatch) afterError(op *scriptRunner, err error) error {
	lost, err := op.after(&spendScript, err)
	if lost && err == nil {
		p.lost(p.try + 1) // the store rejects earlier copies and searches for their entries
	}
	return err
}

// undecided returns why a batch stays undecided, if its answer says so or
// is malformed.
func (l *Ledger) undecided(ctx context.Context, p *spendBatch, code int64, answer *packed) error {
	isUnasked := code == forgot && p.batch.Known.At.IsZero()
	switch {
	case answer.bad || code > reused || isUnasked:
		return l.failed(errMalformed, unknown, true)
	case code == stale:
		return l.failed(fmt.Errorf("batch %d came after a later one", p.batch.Seq), unknown, true)
	case code == forgot:
		return l.forgotten(ctx, p.batch)
	case code == clockLead:
		return decide.CheckClock(p.batch.Account, p.batch.Key, p.batch.Clock, p.now, answer.number(7))
	case code == reused:
		return quota.ErrReused
	case code == dropped:
		return l.failed(errNoEntries, unknown, true)
	}
	return nil
}

// packCharge packs a charge as read_charges in windows.lua reads it. sources
// are the numbers of its coverage's source and perhaps its floors'; known is
// the cached begin of its window.
func packCharge(b []byte, a *accountCache, c *quota.Charge, sources []int64, known edge, now int64) []byte {
	b = append(b, byte(c.Window.Kind()), byte(sources[0]), byte(len(sources)-1))
	length := c.Window.Length()
	if c.Window.Kind() == quota.KindDaily {
		length = c.Window.Horizon()
	}
	b = number(number(b, length.Microseconds(), 7), limitOf(c), 6)
	b = number(number(number(b, known.from, 7), known.first, 7), known.before, 6)
	b = number(number(b, known.counts, 4), known.place, 4)
	if c.Window.Kind() == quota.KindDaily {
		day := a.day(c.Window, now)
		for _, at := range []int64{day.Start, day.Since, day.Opens, day.Next, day.Reopens} {
			b = number(b, max(at, 0), 7)
		}
	}
	if len(sources) > 1 {
		b = number(b, max(0, c.FloorUntil.Microseconds()), 7)
		for i, floor := range c.Floors {
			b = number(number(b, sources[1+i], 1), int64(floor.Units), 6)
		}
	}
	return b
}

// limitOf returns the charge's limit within the range that scripts accept.
func limitOf(c *quota.Charge) int64 { return int64(min(max(c.Limit, 1), quota.MaxLimit)) }

// packNames packs the names of the charges' budgets.
func packNames(b []byte, charges []*quota.Charge) []byte {
	for _, c := range charges {
		b = append(number(b, int64(len(c.Budget)), 2), c.Budget...)
	}
	return b
}

package redisledger

import (
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

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
func (p *spendBatch) read(a *packed, answers []quota.Answer) bool {
	for place, err := range p.unfit {
		answers[place].Err = err
	}
	places, ahead := p.sent, int64(0)
	last := quota.Receipt{Epoch: epochOf(p.head)}
	for len(places) > 0 {
		code, n := a.number(1), a.number(4)
		isRun := n >= 1 && n <= int64(len(places)) && code <= runLast
		if a.bad || !isRun {
			return false
		}
		if code == runAhead {
			ahead = a.number(7)
			continue
		}
		if code == runLast {
			last.At, last.ID = decide.Time(a.number(7)), quota.ID{Client: uint64(a.number(6)), Seq: uint64(a.number(4))}
			continue
		}
		run := places[:n]
		places = places[n:]
		switch code {
		case runGranted, runKnown:
			p.readGrants(a, run, answers, ahead, code == runKnown)
		case runFull:
			for _, place := range run {
				answers[place].Err = errFull
			}
		default:
			var refusal quota.RefusedError
			if request := &p.batch.Requests[run[0]]; code == runKept {
				refusal = p.refusalBeside(a, request, p.chargesOf(run[0]), ahead)
			} else {
				refusal = p.refusal(a, request, code == runCooled)
			}
			refusal.Ahead = time.Duration(ahead) * time.Microsecond
			for _, place := range run {
				answers[place] = quota.Answer{Receipt: last, Err: new(refusal)}
			}
		}
		ahead = 0
	}
	p.keepEdges(a)
	return !a.bad && a.rest == ""
}

// readGrants reads the grants of requests that are the same.
func (p *spendBatch) readGrants(a *packed, run []int, answers []quota.Answer, ahead int64, known bool) {
	stamp := a.number(7)
	for i, place := range run {
		answers[place].Receipt = quota.Receipt{Account: p.batch.Account, Key: p.batch.Key,
			ID: quota.ID{Client: p.batch.Client, Seq: p.batch.Seq + uint64(place)}, At: decide.Time(stamp + int64(i)), Epoch: epochOf(p.head)}
	}
	if known {
		return
	}
	request := &p.batch.Requests[run[0]]
	charges := p.chargesOf(run[0])
	all := make([]quota.Held, len(run)*len(charges))
	for n, c := range charges {
		each := int64(0) // what one more of the run adds
		if len(run) > 1 && c.Coverage.Covers(request.Method, request.Caller) {
			each = int64(c.Coverage.Amount(request.Units))
		}
		latest := int64(1<<63 - 1)
		if ahead > 0 {
			latest = p.now + c.Window.Horizon().Microseconds()
		}
		stands := p.readStand(a, c)
		for i := range run {
			used, kept, free := stands(each * int64(i))
			held := &all[i*len(charges)+n]
			held.Used, held.Kept = quota.Units(used), quota.Units(kept)
			if c.OwnLimit > 0 {
				held.Limit = c.Limit + c.Beside
			}
			if free > 0 {
				held.FreesIn = time.Duration(min(free, latest)-stamp-int64(i)) * time.Microsecond
			}
		}
	}
	for i, place := range run {
		answers[place].Held = all[i*len(charges) : (i+1)*len(charges) : (i+1)*len(charges)]
	}
}

// readStand reads how a charge's window stands after the first grant of a run,
// and returns a function that says it after some more amount: what is used and
// kept, and when the window frees, 0 for never.
func (p *spendBatch) readStand(a *packed, c *quota.Charge) func(more int64) (used, kept, free int64) {
	if c.Window.Estimate() {
		counter := decide.Counter{Length: c.Window.Length().Microseconds(), Start: a.number(7), Present: a.number(7), Past: a.number(7)}
		q := decide.Question{Now: p.now, Window: &c.Window}
		return func(more int64) (used, kept, free int64) {
			list := counter
			list.Present += more
			used, _ = q.Used(&list)
			return used, 0, q.NextFree(&list, used, false)
		}
	}
	used, free := a.number(7), a.number(7)
	kept := int64(0)
	if len(c.Floors) > 0 {
		kept = a.number(7)
	}
	return func(more int64) (int64, int64, int64) { return used + more, kept, free }
}

// refusal reads why requests were refused that are the same as this one.
func (p *spendBatch) refusal(a *packed, request *quota.Request, cool bool) quota.RefusedError {
	c := p.readCharge(a)
	refused := p.refused(request, c, decide.Fit{Used: a.number(7), RetryAt: a.number(7)})
	if cool {
		refused.Reason, refused.Detail = quota.ReasonCooldown, a.text(a.number(2))
	}
	return refused
}

// readCharge reads which charge an answer is about. It returns nil for none.
func (p *spendBatch) readCharge(a *packed) *quota.Charge {
	n := a.number(2)
	a.bad = a.bad || n > int64(len(p.charges))
	if a.bad || n == 0 {
		return nil
	}
	return p.charges[n-1]
}

// refused returns the refusal of a request for what it lacks of a charge. A nil
// charge is a cooldown of the account.
func (p *spendBatch) refused(request *quota.Request, c *quota.Charge, fit decide.Fit) quota.RefusedError {
	refused := quota.RefusedError{Account: p.batch.Account, Key: p.batch.Key, Method: request.Method, Reason: quota.ReasonSpent, Needed: request.Units,
		RetryAt: decide.Time(fit.RetryAt), RetryAfter: time.Duration(fit.RetryAt-p.now) * time.Microsecond}
	if c != nil {
		refused.Budget = c.Budget
		refused.Measure = c.Coverage.Measure
		refused.Limit = c.Limit
		refused.OwnLimit, refused.LimitUntil = c.OwnLimit, c.LimitUntil
		refused.Used, refused.Kept = quota.Units(fit.Used), quota.Units(fit.Kept)
		refused.Remaining = max(0, c.Limit-refused.Used-refused.Kept)
		refused.Needed = c.Coverage.Amount(request.Units)
	}
	return refused
}

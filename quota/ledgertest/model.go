package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/quota"
)

// model is a ledger so naive that it is plainly right: it keeps every call for
// ever and adds them up for each question.
type model struct {
	calls     []call
	cooldowns map[string]time.Time
}

type call struct {
	at     time.Time
	method string
	units  quota.Units
	calls  quota.Units
	id     quota.ID
}

// used adds up what charge's window holds at an instant.
func (m *model) used(charge *quota.Charge, now time.Time) quota.Units {
	if charge.Window.Kind() == quota.KindCounter {
		return m.estimate(charge, now)
	}
	return m.sum(charge, func(at time.Time) bool {
		if charge.Window.Kind() == quota.KindDaily {
			return !at.Before(charge.Window.Day(now).Since)
		}
		return now.Sub(at) < charge.Window.Length()
	})
}

func (m *model) sum(charge *quota.Charge, in func(time.Time) bool) (sum quota.Units) {
	for _, c := range m.calls {
		if charge.Coverage.Covers(c.method, quota.Caller{}) && in(c.at) {
			if charge.Coverage.Measure == quota.Calls {
				sum += c.calls
			} else {
				sum += c.units
			}
		}
	}
	return sum
}

// estimate is the two-counter estimate. Stamps may lie ahead of a clock that
// has stepped back; the counters then stay where the newest stamp put them.
func (m *model) estimate(charge *quota.Charge, now time.Time) quota.Units {
	length := charge.Window.Length()
	newest := now
	for _, c := range m.calls {
		if charge.Coverage.Covers(c.method, quota.Caller{}) && c.at.After(newest) {
			newest = c.at
		}
	}
	start := newest.Add(-time.Duration(newest.UnixMicro() % length.Microseconds() * 1000))
	if now.Before(start) {
		now = start
	}
	present := m.sum(charge, func(at time.Time) bool { return !at.Before(start) })
	before := m.sum(charge, func(at time.Time) bool { return at.Before(start) && !at.Before(start.Add(-length)) })
	showing := start.Add(length).Sub(now)
	return present + (before*quota.Units(showing)+quota.Units(length)-1)/quota.Units(length)
}

func (m *model) fits(charge *quota.Charge, units quota.Units, now time.Time) bool {
	return m.used(charge, now)+charge.Coverage.Amount(units) <= charge.Limit && !now.Before(m.cooldowns[charge.Budget])
}

// retryAt searches for the first microsecond at which all charges fit: what is
// used only falls while nobody spends.
func (m *model) retryAt(r *quota.Request, now time.Time) time.Time {
	const far = 60 * time.Hour
	wait := sort.Search(int(far/µs), func(i int) bool {
		at := now.Add(time.Duration(i) * µs)
		for _, charge := range r.Charges {
			if !m.fits(charge, r.Units, at) {
				return false
			}
		}
		return true
	})
	return now.Add(time.Duration(wait) * µs)
}

// spend decides one request and records it when it is granted.
func (m *model) spend(r *quota.Request, now time.Time, id quota.ID) (stamp, retryAt time.Time) {
	if at := m.retryAt(r, now); at.After(now) {
		return time.Time{}, at
	}
	stamp = now
	if n := len(m.calls); n > 0 && !stamp.After(m.calls[n-1].at) {
		stamp = m.calls[n-1].at.Add(µs)
	}
	m.calls = append(m.calls, call{at: stamp, method: r.Method, units: r.Units, calls: 1, id: id})
	return stamp, time.Time{}
}

// correct settles or refunds the i-th call, as Ledger.Settle says.
func (m *model) correct(i int, units, calls quota.Units, now time.Time) error {
	c := &m.calls[i]
	if len(m.calls)-1-i <= quota.MaxSettle {
		c.units, c.calls = units, calls
		return nil
	}
	if units < c.units || calls < c.calls {
		return quota.ErrStays
	}
	if units > c.units {
		at := now
		if last := m.calls[len(m.calls)-1].at; !at.After(last) {
			at = last.Add(µs)
		}
		m.calls = append(m.calls, call{at: at, method: c.method, units: units - c.units, id: c.id})
	}
	return nil
}

// againstModel plays random spends, settles, refunds, cooldowns and clock
// steps on a ledger and on the model, which must agree in every answer: who is
// granted, with which stamp, which Retry-After, and what every window holds.
func againstModel(t *testing.T, open Factory) {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		clock := &Clock{now: time.Date(2027, 11, 6, 12, 0, 0, 0, time.UTC)}
		p := &play{T: rt, ctx: t.Context(), Ledger: open(t, clock.Now), clock: clock, account: fmt.Sprint("model-", n),
			model: &model{cooldowns: map[string]time.Time{}}}
		defer p.Close()
		limit := func(name string) quota.Units { return quota.Units(rapid.IntRange(1, 60).Draw(rt, name)) }
		p.charges = []*quota.Charge{
			charge("day", limit("day"), quota.Sliding(24*time.Hour)),
			charge("minute", limit("minute"), minute),
			charge("calendar", limit("calendar"), quota.Daily(pacific)),
			charge("search", limit("search"), quota.Sliding(time.Hour), methods("search")),
			charge("calls", limit("calls"), quota.Sliding(10*time.Minute), counted),
			charge("estimate", limit("estimate"), quota.Counter(10*time.Minute), methods("search", "list")),
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			p.step()
		}
	})
}

// play is one random game.
type play struct {
	*rapid.T
	quota.Ledger
	ctx      context.Context
	clock    *Clock
	account  string
	model    *model
	charges  []*quota.Charge
	receipts []quota.Receipt
	latest   time.Time // that the clock ever showed
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (p *play) step() {
	switch rapid.IntRange(0, 9).Draw(p.T, "what") {
	default:
		p.spend(rapid.IntRange(1, 4).Draw(p.T, "requests"))
	case 0, 1:
		// Back by less than two minutes in all: beyond that a ledger may have dropped what the windows then hold.
		p.latest = later(p.latest, p.clock.Now())
		advance := time.Duration(rapid.Int64Range(-90e6, 4*3600e6).Draw(p.T, "advance")) * µs
		p.clock.Set(later(p.clock.Now().Add(advance), p.latest.Add(-119*time.Second)))
	case 2:
		p.clock.Add([]time.Duration{µs, time.Second, time.Minute, time.Minute - µs, 10 * time.Minute, time.Hour, 24 * time.Hour}[rapid.IntRange(0, 6).Draw(p.T, "jump")])
	case 3:
		p.correct()
	case 4:
		budget := p.charges[rapid.IntRange(0, len(p.charges)-1).Draw(p.T, "cool")].Budget
		until := p.clock.Now().Add(time.Duration(rapid.IntRange(-5, 30).Draw(p.T, "minutes")) * time.Minute)
		if err := p.SetCooldown(p.ctx, quota.Cooldown{Account: p.account, Budget: budget, Until: until}); err != nil {
			p.Fatal(err)
		}
		if until.After(p.model.cooldowns[budget]) {
			p.model.cooldowns[budget] = until
		}
	}
	p.compare()
}

func (p *play) spend(n int) {
	batch := &quota.Batch{Account: p.account}
	for range n {
		var charges []*quota.Charge
		subset := rapid.IntRange(0, 1<<len(p.charges)-1).Draw(p.T, "charges")
		method := rapid.SampledFrom([]string{"search", "list", "other"}).Draw(p.T, "method")
		for i, c := range p.charges {
			if subset>>i&1 == 1 && c.Coverage.Covers(method, quota.Caller{}) {
				charges = append(charges, c)
			}
		}
		r := request(method, quota.Units(rapid.IntRange(1, 12).Draw(p.T, "units")), charges...)
		if r.Check(p.account) == nil {
			batch.Requests = append(batch.Requests, r)
		}
	}
	now := p.clock.Now()
	answers, err := p.Spend(p.ctx, batch)
	if err != nil {
		p.Fatal(err)
	}
	for i, answer := range answers {
		stamp, retryAt := p.model.spend(&batch.Requests[i], now, answer.Receipt.ID)
		refused, _ := errors.AsType[*quota.RefusedError](answer.Err)
		switch {
		case answer.Err == nil && !answer.Receipt.At.Equal(stamp):
			p.Fatalf("request %d granted at %s; the model: granted at %s, else refused until %s", i, answer.Receipt.At, stamp, retryAt)
		case answer.Err == nil:
			p.receipts = append(p.receipts, answer.Receipt)
		case refused == nil || !refused.RetryAt.Equal(retryAt) || refused.RetryAfter != retryAt.Sub(now):
			p.Fatalf("request %d: %v until %v; the model: granted at %s, else refused until %s", i, answer.Err, refused, stamp, retryAt)
		}
	}
}

func (p *play) correct() {
	if len(p.receipts) == 0 {
		return
	}
	receipt := p.receipts[rapid.IntRange(0, len(p.receipts)-1).Draw(p.T, "which")]
	var units, calls quota.Units
	err := error(nil)
	if rapid.Bool().Draw(p.T, "settle") {
		units, calls = quota.Units(rapid.IntRange(0, 20).Draw(p.T, "to")), 1
		err = p.Settle(p.ctx, receipt, units)
	} else {
		err = p.Refund(p.ctx, receipt)
	}
	for i := range p.model.calls {
		if p.model.calls[i].id == receipt.ID {
			if want := p.model.correct(i, units, calls, p.clock.Now()); !errors.Is(err, want) {
				p.Fatalf("settle to %d: %v; the model: %v", units, err, want)
			}
			break
		}
	}
}

// compare holds every window's sum against the model's.
func (p *play) compare() {
	standings, err := p.Standings(p.ctx, p.account, "", p.charges)
	if err != nil {
		p.Fatal(err)
	}
	for i, s := range standings {
		if want := p.model.used(p.charges[i], p.clock.Now()); s.Used != want {
			p.Fatalf("%s holds %d; the model: %d", p.charges[i].Budget, s.Used, want)
		}
	}
}

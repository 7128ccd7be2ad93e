package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/quota"
)

// againstModel plays random spends, settles, refunds, cooldowns and clock
// steps on a ledger and on the model. They must agree in every answer: grants
// and refusals, stamps, RetryAt, and what every window holds. With floors
// there are regions, and entries that are not calls. Games of estimates use
// logs without entries.
func againstModel(t *testing.T, open Factory, kind game) {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		clock := &Clock{now: time.Date(2027, 11, 6, 12, 0, 0, 0, time.UTC)}
		p := &play{T: rt, ctx: t.Context(), Ledger: open(t, clock.Now), clock: clock, account: fmt.Sprint("model-", n),
			model: &model{cooldowns: map[string]time.Time{}}, regions: []string{""}, history: 96 * time.Hour}
		if kind == withFloors {
			p.regions = []string{"US", "IN", "BR"}
		}
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
		if kind == estimates {
			p.history = 0
			p.charges = []*quota.Charge{
				charge("minute", limit("minute"), quota.Counter(time.Minute)),
				charge("search", limit("search"), quota.Counter(10*time.Minute), methods("search")),
				charge("calls", limit("calls"), quota.Counter(time.Hour), counted),
			}
			if _, err := p.Spend(p.ctx, &quota.Batch{Account: p.account, Requests: []quota.Request{request("before", 1, p.charges...)}}); err != nil {
				rt.Fatal(err)
			}
			p.model.calls = append(p.model.calls, call{at: clock.Now(), method: "before", units: 1, calls: 1})
		}
		p.drawFloors()
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			p.step()
		}
		checkListings(rt, p.ctx, p, quota.Query{Account: p.account})
	})
}

// game is a kind of game.
type game uint8

const (
	plain game = iota
	withFloors
	estimates
)

// play is one random game.
type play struct {
	*rapid.T
	quota.Ledger
	ctx      context.Context
	clock    *Clock
	account  string
	model    *model
	charges  []*quota.Charge
	regions  []string
	floors   []floors // one for each of charges; nil without floors
	receipts []quota.Receipt
	latest   time.Time // the latest time of the clock
	history  time.Duration
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// drawFloors draws the floors of each budget for all regions but the first.
func (p *play) drawFloors() {
	p.floors = make([]floors, len(p.charges))
	for i, c := range p.charges {
		if c.Window.Estimate() || len(p.regions) == 1 {
			continue
		}
		p.floors[i] = floors{}
		left := int(c.Limit)
		for _, region := range p.regions[1:] {
			if floor := rapid.IntRange(0, left).Draw(p.T, "floor"); floor > 0 {
				p.floors[i][region] = quota.Units(floor)
				left -= floor
			}
		}
		if c.Window.Kind() == quota.KindDaily {
			c.FloorUntil = time.Duration(rapid.IntRange(0, 3).Draw(p.T, "until")) * 4 * time.Hour
		}
	}
}

func (p *play) step() {
	most := 9
	if len(p.regions) > 1 {
		most = 12
	}
	switch rapid.IntRange(0, most).Draw(p.T, "what") {
	default:
		p.spend(rapid.IntRange(1, 4).Draw(p.T, "requests"))
	case 0, 1:
		// Step back by less than two minutes: beyond that, a ledger may have
		// dropped what the windows would hold.
		p.latest = later(p.latest, p.clock.Now())
		advance := time.Duration(rapid.Int64Range(-90e6, 4*3600e6).Draw(p.T, "advance")) * µs
		p.clock.Set(later(p.clock.Now().Add(advance), p.latest.Add(-119*time.Second)))
	case 2:
		p.clock.Add([]time.Duration{µs, time.Second, time.Minute, time.Minute - µs, 10 * time.Minute, time.Hour, 24 * time.Hour}[rapid.IntRange(0, 6).Draw(p.T, "jump")])
	case 3:
		p.settle()
	case 10:
		p.drawFloors()
	case 11, 12:
		p.moveToBoundary()
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

// moveToBoundary moves the clock to where a calendar window changes, or
// just before.
func (p *play) moveToBoundary() {
	i := slices.IndexFunc(p.charges, func(c *quota.Charge) bool { return c.Window.Kind() == quota.KindDaily })
	day := p.charges[i].Window.Day(p.clock.Now())
	at := rapid.SampledFrom([]time.Time{day.Next.Add(-p.charges[i].FloorUntil), day.Next, day.Opens}).Draw(p.T, "boundary")
	if rapid.Bool().Draw(p.T, "before") {
		at = at.Add(-µs)
	}
	p.clock.Set(later(at, p.clock.Now()))
}

func (p *play) spend(n int) {
	batch := &quota.Batch{Account: p.account, History: p.history}
	for range n {
		var charges []*quota.Charge
		caller := quota.Caller{Region: rapid.SampledFrom(p.regions).Draw(p.T, "region")}
		subset := rapid.IntRange(0, 1<<len(p.charges)-1).Draw(p.T, "charges")
		if p.history == 0 {
			subset = -1 // a counter that is not asked for a day begins at zero
		}
		method := rapid.SampledFrom([]string{"search", "list", "other"}).Draw(p.T, "method")
		for i, c := range p.charges {
			if subset>>i&1 == 1 && c.Coverage.Covers(method, caller) {
				charges = append(charges, p.floors[i].of(caller.Region, c))
			}
		}
		r := request(method, quota.Units(rapid.IntRange(1, 12).Draw(p.T, "units")), charges...)
		r.Caller = caller
		if len(p.regions) > 1 && rapid.IntRange(0, 15).Draw(p.T, "note") == 0 {
			r = entered(r, quota.EntryNote, quota.Units(rapid.IntRange(0, 5).Draw(p.T, "calls")))
		}
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
			p.held(&batch.Requests[i], answer.Held, now, stamp)
			if batch.Requests[i].Kind == quota.EntryCall {
				r := &batch.Requests[i]
				answer.Receipt.Recorded = &quota.Recorded{Method: r.Method, Caller: r.Caller, Units: r.Units}
				p.receipts = append(p.receipts, answer.Receipt)
			}
		case refused == nil || !refused.RetryAt.Equal(retryAt) || refused.RetryAfter != retryAt.Sub(now):
			p.Fatalf("request %d: %v until %v; the model: granted at %s, else refused until %s", i, answer.Err, refused, stamp, retryAt)
		}
	}
}

// held compares the Held of a grant with the model, right after the model has
// granted it and before the later requests of the batch.
func (p *play) held(r *quota.Request, held []quota.Held, now, stamp time.Time) {
	if len(held) != len(r.Charges) {
		p.Fatalf("%d charges held of %d", len(held), len(r.Charges))
	}
	for i, c := range r.Charges {
		want := quota.Held{Used: p.model.used(c, now), Kept: p.model.keptNow(c, now)}
		if held[i].Used != want.Used || held[i].Kept != want.Kept {
			p.Fatalf("granted: %s holds %d and keeps %d; the model: %d and %d", c.Budget, held[i].Used, held[i].Kept, want.Used, want.Kept)
		}
		if want.Used == 0 {
			continue
		}
		free := stamp.Add(held[i].FreesIn)
		isReturn := free.After(now) && p.model.used(c, free) < want.Used
		isLate := free.Before(now.Add(c.Window.Horizon())) && p.model.used(c, free.Add(-µs)) < want.Used
		if !isReturn || isLate {
			p.Fatalf("granted: %s holds %d, the next return at %s; the model: %d a microsecond before, %d then",
				c.Budget, want.Used, free, p.model.used(c, free.Add(-µs)), p.model.used(c, free))
		}
	}
}

func (p *play) settle() {
	if len(p.receipts) == 0 {
		return
	}
	which := rapid.IntRange(0, len(p.receipts)-1).Draw(p.T, "which")
	receipt := p.receipts[which]
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
			if want := p.model.settle(i, units, calls, p.clock.Now()); !errors.Is(err, want) {
				p.Fatalf("settle to %d: %v; the model: %v", units, err, want)
			}
			if err == nil {
				p.receipts[which].Recorded = &quota.Recorded{Method: p.model.calls[i].method, Caller: p.model.calls[i].caller, Units: units, Refunded: calls == 0}
			}
			break
		}
	}
}

// compare compares what every window holds with the model.
func (p *play) compare() {
	charges := slices.Clone(p.charges)
	for i, c := range p.charges {
		for _, floor := range p.floors[i].of("", c).Floors {
			charges = append(charges, &quota.Charge{Budget: c.Budget, Coverage: floor.Coverage, Window: c.Window})
		}
	}
	standings, err := p.Standings(p.ctx, p.account, "", charges)
	if err != nil {
		p.Fatal(err)
	}
	for i, s := range standings {
		if want := p.model.used(charges[i], p.clock.Now()); s.Used != want {
			p.Fatalf("%s of %s holds %d; the model: %d", charges[i].Budget, charges[i].Coverage.Key(), s.Used, want)
		}
	}
}

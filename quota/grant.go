package quota

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// Grant is an admitted call. Settle and Refund correct what was charged for it.
// They ignore the cancellation of their context, because the correction is due
// even if the caller has given up. All methods are safe for concurrent use, and
// no-ops on a nil Grant.
type Grant struct {
	guard *Guard
	set   *chargeSet
	job   string
	key   string
	id    ID
	at    time.Time // the entry's timestamp, unique in its log
	epoch uint64    // of the log that granted it
	held  []engine.Held

	redeemed bool // it came from a token, since when others may have settled it

	others []*Grant // that were granted together with the first of them

	claim []byte // of its trial, packed; nil if it never was one

	mu       sync.Mutex
	trial    *trial // that it is; nil once its answer is known
	units    Units  // as recorded at present
	measures map[Measure]Units
	isOpen   bool // it has a lease, and was not settled
	refunded bool
	settled  bool // units were settled, so that the same Settle is a no-op
}

// ID returns the id of the ledger entry, as ration log shows it.
func (g *Grant) ID() string {
	if g == nil {
		return ""
	}
	return g.id.String()
}

// Call returns the call that was granted, with its units as recorded
// at present.
func (g *Grant) Call() Call {
	if g == nil {
		return Call{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	class := &g.set.class
	return Call{Account: class.account, Key: g.key, Method: class.method, Units: g.units, Measures: g.measures,
		Caller: Caller{Lane: class.lane, Job: g.job, Region: class.region}, ID: g.id}
}

// Balances returns the balances of the budgets that the call was charged to,
// in the guard's order, as they were right after the grant. They need no
// further request to the ledger. Cooldown and Floors are not set. The result
// is empty for a call that no budget covers or that was granted while the
// ledger was down.
func (g *Grant) Balances() []Balance {
	if g == nil || len(g.held) == 0 || len(g.held) != len(g.set.charges) {
		return nil
	}
	balances := make([]Balance, len(g.held))
	for i, held := range g.held {
		b := g.set.charges[i].balance(g.key, &state{Held: held, at: g.at})
		b.Remaining = max(0, b.Remaining-Units(held.Reserved))
		balances[i] = b
	}
	return balances
}

// Tightest returns the balance with the least Remaining among Balances, and
// false if there are none.
func (g *Grant) Tightest() (tightest Balance, ok bool) {
	for _, b := range g.Balances() {
		if !ok || b.Remaining < tightest.Remaining {
			tightest, ok = b, true
		}
	}
	return tightest, ok
}

// Settle changes the charge to what the call really cost, 0 to MaxUnits, even
// if that exceeds a limit. The last Settle or Refund applies. Settle is a no-op
// if the ledger no longer holds the grant.
func (g *Grant) Settle(ctx context.Context, used Units) error {
	return g.SettleTo(ctx, Amounts{Units: used, Calls: 1})
}

// SettleTo is Settle for several measures. Named ones that used lacks stay as
// they are; used.Calls is 1 for a call that counts, and 0 for one that does
// not.
func (g *Grant) SettleTo(ctx context.Context, used Amounts) error {
	if g == nil {
		return nil
	}
	if err := used.check(); err != nil {
		return opError("settle", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endTrial(ctx, used.Units > 0)
	isSame := g.units == used.Units && used.Calls > 0 && len(used.Named) == 0
	if g.settled && isSame {
		return nil
	}
	defer g.guard.refusals.invalidate()
	to := used.engineAmounts()
	err := g.change(ctx, func(before engine.Amounts) engine.Amounts { return to.Or(before) })
	if err == nil {
		before := g.amounts()
		g.units, g.isOpen = used.Units, false
		g.measures = maps.Clone(g.measures)
		for m, n := range used.Named {
			if g.measures == nil {
				g.measures = map[Measure]Units{}
			}
			g.measures[m] = n
		}
		g.refunded, g.settled = false, true
		g.guard.share.change(g.set, g.key, before, g.amounts())
	}
	return opError("settle", err)
}

// amounts returns what the grant counts.
func (g *Grant) amounts() Amounts {
	if g.refunded {
		return Amounts{Named: g.measures}
	}
	return Amounts{Units: g.units, Calls: 1, Named: g.measures}
}

// End says that the call has ended, and cost what it is charged for. It ends
// the grant's lease; without one it is a no-op.
func (g *Grant) End(ctx context.Context) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen {
		return nil
	}
	defer g.guard.refusals.invalidate()
	err := g.guard.outage.isDown()
	if err == nil {
		err = g.guard.Account(g.set.class.account).End(context.WithoutCancel(ctx), engine.ID(g.id))
	}
	err = g.orDown(err, func(before engine.Amounts) engine.Amounts { return before })
	g.isOpen = err != nil
	return opError("end", err)
}

// Refund returns the units of a call that was never sent. A call that may have
// reached the upstream must not be refunded.
func (g *Grant) Refund(ctx context.Context) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.endTrial(ctx, false)
	defer g.guard.refusals.invalidate()
	err := g.change(ctx, func(engine.Amounts) engine.Amounts { return engine.Amounts{} })
	if g.settled = false; err == nil {
		before := g.amounts()
		g.units, g.refunded = 0, true
		g.measures, g.isOpen = nil, false
		g.guard.share.change(g.set, g.key, before, g.amounts())
	}
	return opError("refund", err)
}

// change changes what the grant counts.
func (g *Grant) change(ctx context.Context, change func(before engine.Amounts) engine.Amounts) error {
	account := g.guard.Account(g.set.class.account)
	return g.orDown(account.Change(context.WithoutCancel(ctx), engine.ID(g.id), change), change)
}

// orDown changes the grant in the replica if err says that the ledger is down
// and it was granted in that outage. Otherwise it returns err.
func (g *Grant) orDown(err error, change func(before engine.Amounts) engine.Amounts) error {
	if g.guard.outage == nil || !errors.Is(err, ErrLedgerDown) {
		return err
	}
	return g.guard.settleDown(g.set.class.account, g.id, change, err)
}

package redisledger

import (
	"context"
	"maps"
	"math"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// limits is what an account cache knows of the limits that were asked. The
// store's limits change with the head, except for how long they hold. So a
// batch with the present head is decided by the limits that hold.
type limits struct {
	stored  decide.Limits
	packed  string                          // stored, as the store sent it
	expires int64                           // when the first limit ends, by this host's clock, µs
	asked   map[askedLimit]bool             // what this process has asked since it last reported its demands
	held    map[*quota.Charge]*quota.Charge // the charges that hold in place of others
}

// askedLimit is a limit that a process asks of the budget with an identity.
type askedLimit struct {
	identity string
	decide.AskedLimit
}

func askedLimitOf(c *quota.Charge) askedLimit {
	a := askedLimit{c.Identity(), decide.LimitAskedBy(c)}
	a.Limit = min(max(a.Limit, 1), int64(quota.MaxLimit)) // as scripts accept it
	return a
}

// forget makes the process ask its limits again.
func (l *limits) forget() { *l = limits{expires: math.MaxInt64} }

// asks reports whether the process has asked the limits of charges lately.
func (l *limits) asks(charges []*quota.Charge) bool {
	for _, c := range charges {
		if c.Config.Name != "" && !l.asked[askedLimitOf(c)] {
			return false
		}
	}
	return true
}

// chargesInForce returns the charges that hold in place of charges.
func (l *limits) chargesInForce(charges []*quota.Charge) []*quota.Charge {
	held := l.stored.Held(charges, 0) // the store drops what has ended
	if held == nil {
		return charges
	}
	for i, c := range charges {
		switch known := l.held[c]; {
		case held[i] == c:
		case known != nil:
			held[i] = known
		default:
			if l.held == nil || len(l.held) >= 1024 { // calls together have charges of their own
				l.held = map[*quota.Charge]*quota.Charge{}
			}
			l.held[c] = held[i]
		}
	}
	return held
}

// apply reads the store's limits, which were sent at an instant of its clock.
// elapsed is this host's, and sent are those that the process has asked.
func (l *limits) apply(packed string, now, elapsed int64, sent map[askedLimit]bool) bool {
	if packed != l.packed {
		asked, ok := parseLimits(packed)
		if !ok {
			return false
		}
		l.stored = decide.Limits{Asked: asked}
		l.packed = packed
		l.held = nil
	}
	l.expires = math.MaxInt64
	for _, asked := range l.stored.Asked {
		for _, a := range asked {
			l.expires = min(l.expires, elapsed+a.Until-now)
		}
	}
	if l.asked == nil {
		l.asked = map[askedLimit]bool{}
	}
	maps.Copy(l.asked, sent)
	return true
}

// parseLimits reads what lua/limits.lua packs.
func parseLimits(text string) (map[string][]decide.AskedLimit, bool) {
	all, p := map[string][]decide.AskedLimit{}, packed{rest: text}
	for p.rest != "" {
		identity := p.text(p.number(1))
		asked := make([]decide.AskedLimit, p.number(1))
		for i := range asked {
			asked[i] = decide.AskedLimit{Config: p.text(16), Changed: p.number(7), Limit: p.number(6), Until: p.number(7)}
		}
		if all[identity] = asked; p.bad || len(asked) == 0 {
			return nil, false
		}
	}
	return all, true
}

// packLimits packs the limits that a process asks, as lua/limits.lua
// reads them.
func packLimits(asked map[askedLimit]bool) string {
	var b []byte
	for a := range asked {
		b = append(append(append(b, byte(len(a.identity))), a.identity...), a.Config...)
		b = number(number(b, a.Changed, 7), a.Limit, 6)
	}
	return string(b)
}

// limitsOf returns the limits that a batch asks.
func (p *spendBatch) limitsOf() map[askedLimit]bool {
	asked, seen := map[askedLimit]bool{}, map[*quota.Charge]bool{}
	for _, place := range p.places {
		for _, c := range p.batch.Requests[place].Charges {
			if !seen[c] && c.Config.Name != "" {
				asked[askedLimitOf(c)] = true
			}
			seen[c] = true
		}
	}
	return asked
}

// ClearLimits implements quota.Ledger. It goes through when ctx is done.
func (l *Ledger) ClearLimits(ctx context.Context, account string) error {
	if err := (&quota.Batch{Account: account}).Check(); err != nil {
		return err
	}
	ctx, cancel := l.bounded(context.WithoutCancel(ctx), patience)
	defer cancel()
	op := &scriptRunner{ledger: l, ctx: ctx}
	_, err := op.run(&relimitScript, []string{l.names(account, "").meta}, nil)
	return err
}

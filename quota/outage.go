package quota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// Allowance says what may be sent while the ledger is down: what all processes
// of this host have spent without it in the trailing 24 hours is bounded.
type Allowance struct {
	// Limit returns how many units the account may have spent without the
	// ledger once this call is granted; 0 refuses the call. All calls of an
	// account share one count: after 40 units, a call whose limit is 50 may
	// spend 10 more, and one whose limit is 20 none. It must be deterministic
	// and safe for concurrent use.
	Limit func(Call) Units

	// In says in errors where the limits are configured, such as
	// "when_ledger_down of costs.yaml"; "" leaves it out.
	In string

	// Granted is called with the units of each call that is granted without the
	// ledger. It must be safe for concurrent use. nil is a no-op.
	Granted func(Units)

	// Now is the host's clock, for tests; nil is time.Now.
	Now func() time.Time
}

// outage grants calls within an allowance. It is nil without one.
type outage struct {
	Allowance
	replica engine.OutageReplica
	client  uint64

	mu   sync.Mutex
	seq  uint64
	down error     // why the ledger is taken to be down,
	till time.Time // until when, so that not each call waits for it
}

// outageHolds is how long a ledger that was down is not asked again.
const outageHolds = 2 * time.Second

func newOutage(o *Options) *outage {
	replica, ok := o.Replica.(engine.OutageReplica)
	if !ok || o.Allowance == nil {
		return nil
	}
	granting := &outage{Allowance: *o.Allowance, replica: replica, client: engine.NewClient()}
	if granting.Now == nil {
		granting.Now = time.Now
	}
	return granting
}

// isDown returns why the ledger is not to be asked at present, or nil.
func (o *outage) isDown() error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.till) {
		return o.down
	}
	return nil
}

// failed reports whether an error says that the ledger is down, and what it
// would do must be done without. It is not asked again at once.
func (o *outage) failed(err error) bool {
	if o == nil || !errors.Is(err, ErrLedgerDown) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down, o.till = err, time.Now().Add(outageHolds)
	return true
}

// watch returns the ledger, watched for the end of an outage: an append. A
// read-only server, or one whose memory is full, can be read.
func (o *outage) watch(ledger Ledger) Ledger {
	if o == nil {
		return ledger
	}
	return engine.WatchLedger(ledger, func(op, _ string, _ time.Duration, err error) error {
		if op == "append" && err == nil {
			o.mu.Lock()
			o.down, o.till = nil, time.Time{}
			o.mu.Unlock()
		}
		return err
	})
}

func (o *outage) name() string {
	if o.In == "" {
		return "allowance"
	}
	return "allowance in " + o.In
}

// fallBack decides a request without the ledger, which is down.
func (g *Guard) fallBack(ctx context.Context, r *request, down error) (answer *engine.Answer, err error) {
	allowed := g.outage.Limit(r.Call)
	switch {
	case r.kind != EntryCall:
		err = fmt.Errorf("%s is not a call, and needs the ledger: %w", r.Method, down)
	case !r.force && allowed == 0:
		err = fmt.Errorf("%s has no %s: %w", r.Method, g.outage.name(), down)
	default:
		answer, err = g.grantDown(ctx, r, allowed, down)
	}
	_ = g.Account(r.Account).Owe(context.WithoutCancel(ctx)) // it asks no ledger
	return answer, err
}

// grantDown grants a request within the allowance. Calls together have a record
// each, so that each can be settled. If another process takes the rest of the
// allowance meanwhile, those that were granted stay counted.
func (g *Guard) grantDown(ctx context.Context, r *request, allowed Units, down error) (*engine.Answer, error) {
	now := g.outage.Now()
	known, err := g.knownDown(ctx, r, now)
	if err != nil {
		return nil, r.uncounted(err, down)
	}
	answer := &engine.Answer{At: now.UnixMicro()}
	for n, id := range known.ids {
		if e := known.repeats[n]; e.ID == id { // it counts already
			answer.IDs, answer.Repeated = append(answer.IDs, id), append(answer.Repeated, e)
			continue
		}
		rest := *r
		rest.count -= n
		err := g.outage.replica.Outage(r.Account, now, func(recent []engine.Record) (*engine.Record, error) {
			for isRefunded(recent, id) {
				id = engine.ID(ID(id).derived(""))
			}
			return g.decideDown(&rest, id, recent, &known, allowed, down)
		})
		switch {
		case err == nil:
			answer.IDs = append(answer.IDs, id)
		case errors.Is(err, down) || errors.Is(err, ErrRefused) || errors.Is(err, ErrLedgerConfig):
			return nil, err
		default:
			return nil, r.uncounted(err, down)
		}
	}
	fresh := r.count - len(answer.Repeated)
	if fresh > 0 {
		answer.Repeated = nil // they are in the order of all calls, or none
	}
	if fresh > 0 && g.outage.Granted != nil {
		g.outage.Granted(Units(fresh) * r.Units)
	}
	return answer, nil
}

// uncounted returns the error of a request that the replica cannot count.
func (r *request) uncounted(err, down error) error {
	return fmt.Errorf("%s cannot be counted without the ledger (%w): %w", r.Method, err, down)
}

// decideDown returns the record of one call if it fits the allowance together
// with the others of the request, and nil if an earlier attempt has one.
func (g *Guard) decideDown(r *request, id engine.ID, recent []engine.Record, known *knownState, allowed Units,
	down error) (*engine.Record, error) {
	used := Units(0)
	for i := range recent {
		if recent[i].ID == id {
			return nil, nil
		}
		if recent[i].Kind == engine.KindGrant {
			used += Units(recent[i].Amounts.Units)
		}
	}
	if !r.force {
		if Units(r.count)*r.Units > allowed-used {
			return nil, fmt.Errorf("%s, %d of %d are left of the %s for all outages in 24 hours: %w",
				r.needText(), max(0, allowed-used), allowed, g.outage.name(), down)
		}
		if err := known.refusal(r, recent, down); err != nil {
			return nil, err
		}
	}
	asked := g.engineRequest(r)
	record := &engine.Record{Kind: engine.KindGrant, ID: id, Labels: asked.Labels, Amounts: asked.Amounts}
	if asked.Lease > 0 {
		record.Until = microsOf(known.now) + asked.Lease
	}
	return record, nil
}

// isRefunded reports whether a call of the outage was refunded, so that its id
// does not count any more.
func isRefunded(recent []engine.Record, id engine.ID) bool {
	return slices.ContainsFunc(recent, func(r engine.Record) bool {
		isOurs := r.Kind == engine.KindSettle && r.Ref == id
		return isOurs && r.Amounts.Units == 0 && r.Amounts.Calls == 0
	})
}

// nextID returns an id for a record of the outage.
func (o *outage) nextID() engine.ID {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seq++
	return engine.ID{Client: o.client, Seq: o.seq}
}

// settleDown settles a grant of this host's that the ledger does not have yet.
// change returns what it counts then, by what it counted before.
func (g *Guard) settleDown(account string, id ID, change func(before engine.Amounts) engine.Amounts,
	down error) error {
	isOurs := false
	var before engine.Amounts
	err := g.outage.replica.Outage(account, g.outage.Now(),
		func(recent []engine.Record) (*engine.Record, error) {
			for i := range recent {
				if r := &recent[i]; r.ID == engine.ID(id) || isOurs && r.Ref == engine.ID(id) {
					isOurs, before = true, r.Amounts
				}
			}
			if !isOurs {
				return nil, nil
			}
			return &engine.Record{Kind: engine.KindSettle, ID: g.outage.nextID(), Ref: engine.ID(id),
				Amounts: change(before)}, nil
		})
	if err != nil || !isOurs {
		return errors.Join(down, err)
	}
	_ = g.Account(account).Owe(context.Background())
	return nil
}

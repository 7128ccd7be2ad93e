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

// failed notes that the ledger was down.
func (o *outage) failed(down error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down, o.till = down, time.Now().Add(outageHolds)
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

// fallBack decides a batch without the ledger, which is down.
func (l *engineLog) fallBack(ctx context.Context, batch *Batch, down error) ([]Answer, error) {
	answers := make([]Answer, len(batch.Requests))
	for i := range batch.Requests {
		r := &batch.Requests[i]
		call := Call{Account: batch.Account, Key: batch.Key, Method: r.Method, Units: r.Units, Caller: r.Caller}
		allowed := l.outage.Limit(call)
		switch err := r.Check(batch.Account, batch.Key); {
		case err != nil:
			answers[i].Err = err
		case r.Kind != EntryCall:
			answers[i].Err = fmt.Errorf("%s is not a call, and needs the ledger: %w", r.Method, down)
		case !r.Force && allowed == 0:
			answers[i].Err = fmt.Errorf("%s has no %s: %w", r.Method, l.outage.name(), down)
		default:
			answers[i] = l.grantDown(ctx, batch, i, allowed, down)
		}
	}
	_ = l.engine.Account(batch.Account).Owe(context.WithoutCancel(ctx)) // it asks no ledger
	return answers, nil
}

// grantDown grants one request within the allowance. Calls together have a
// record each, so that each can be settled. If another process takes the rest
// of the allowance meanwhile, those that were granted stay counted.
func (l *engineLog) grantDown(ctx context.Context, batch *Batch, i int, allowed Units, down error) Answer {
	r := &batch.Requests[i]
	answer := Answer{Receipt: Receipt{Account: batch.Account, Key: batch.Key}}
	now := l.outage.Now()
	known, err := l.knownDown(ctx, batch, i, now)
	if err != nil {
		return Answer{Err: uncounted(r, err, down)}
	}
	count := max(r.Together, 1)
	for n := range count {
		rest := *r
		rest.Together = count - n
		id := known.ids[n]
		if e := known.repeats[n]; e.ID == id { // it counts already
			answer.addID(id, n, now)
			answer.Repeated = append(answer.Repeated, e)
			continue
		}
		err := l.outage.replica.Outage(batch.Account, now, func(recent []engine.Record) (*engine.Record, error) {
			for isRefunded(recent, id) {
				id = id.derived("")
			}
			return l.decideDown(batch, &rest, id, recent, &known, allowed, down)
		})
		switch {
		case err == nil:
			answer.addID(id, n, now)
		case errors.Is(err, down) || errors.Is(err, ErrRefused) || errors.Is(err, ErrLedgerConfig):
			return Answer{Err: err}
		default:
			return Answer{Err: uncounted(r, err, down)}
		}
	}
	fresh := count - len(answer.Repeated)
	if fresh > 0 {
		answer.Repeated = nil // they are in the order of all calls, or none
	}
	if fresh > 0 && l.outage.Granted != nil {
		l.outage.Granted(Units(fresh) * r.Units)
	}
	return answer
}

// addID adds the id of one of the calls of a request.
func (a *Answer) addID(id ID, n int, now time.Time) {
	if n > 0 {
		a.Others = append(a.Others, id)
		return
	}
	a.Receipt.ID = id
	a.Receipt.At = now.Truncate(time.Microsecond)
}

// uncounted returns the error of a request that the replica cannot count.
func uncounted(r *Request, err, down error) error {
	return fmt.Errorf("%s cannot be counted without the ledger (%w): %w", r.Method, err, down)
}

// decideDown returns the record of one call if it fits the allowance together
// with the others of the request, and nil if an earlier attempt has one.
func (l *engineLog) decideDown(batch *Batch, r *Request, id ID, recent []engine.Record,
	known *knownState, allowed Units, down error) (*engine.Record, error) {
	used := Units(0)
	for i := range recent {
		if recent[i].ID == engine.ID(id) {
			return nil, nil
		}
		if recent[i].Kind == engine.KindGrant {
			used += Units(recent[i].Amounts.Units)
		}
	}
	if !r.Force {
		count := Units(r.Together)
		if count*r.Units > allowed-used {
			return nil, fmt.Errorf("%s, %d of %d are left of the %s for all outages in 24 hours: %w",
				needText(r, count), max(0, allowed-used), allowed, l.outage.name(), down)
		}
		if err := known.refusal(batch, r, recent, down); err != nil {
			return nil, err
		}
	}
	asked := l.request(batch, r, 0)
	record := &engine.Record{Kind: engine.KindGrant, ID: engine.ID(id), Labels: asked.Labels, Amounts: asked.Amounts}
	if asked.Lease > 0 {
		record.Until = microsOf(known.now) + asked.Lease
	}
	return record, nil
}

// isRefunded reports whether a call of the outage was refunded, so that its id
// does not count any more.
func isRefunded(recent []engine.Record, id ID) bool {
	return slices.ContainsFunc(recent, func(r engine.Record) bool {
		isOurs := r.Kind == engine.KindSettle && r.Ref == engine.ID(id)
		return isOurs && r.Amounts.Units == 0 && r.Amounts.Calls == 0
	})
}

func (o *outage) nextID(batch *Batch, i int) ID {
	if batch.Client != 0 {
		return ID{Client: batch.Client, Seq: batch.Seq + uint64(i)}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seq++
	return ID{Client: o.client, Seq: o.seq}
}

// settleDown settles a grant of this host's that the ledger does not have yet.
// change returns what it counts then, by what it counted before.
func (l *engineLog) settleDown(receipt Receipt, change func(before engine.Amounts) engine.Amounts, down error) error {
	id := l.outage.nextID(&Batch{}, 0)
	isOurs := false
	var before engine.Amounts
	err := l.outage.replica.Outage(receipt.Account, l.outage.Now(),
		func(recent []engine.Record) (*engine.Record, error) {
			for i := range recent {
				if r := &recent[i]; r.ID == engine.ID(receipt.ID) || isOurs && r.Ref == engine.ID(receipt.ID) {
					isOurs, before = true, r.Amounts
				}
			}
			if !isOurs {
				return nil, nil
			}
			return &engine.Record{Kind: engine.KindSettle, ID: engine.ID(id), Ref: engine.ID(receipt.ID),
				Amounts: change(before)}, nil
		})
	if err != nil || !isOurs {
		return errors.Join(down, err)
	}
	_ = l.engine.Account(receipt.Account).Owe(context.Background())
	return nil
}

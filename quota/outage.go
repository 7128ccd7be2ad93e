package quota

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota/internal/engine"
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
}

// OutageReplica is a Replica that counts what this host is granted while the
// ledger is down; package replica implements it.
type OutageReplica interface {
	Replica
	// Outage lets decide grant a call by the records of the trailing 24 hours
	// that this host was granted without the ledger, and keeps it. No other
	// process of the host decides meanwhile.
	Outage(account string, now time.Time, decide func(recent []engine.Record) (*engine.Record, error)) error
}

// outage grants calls within an allowance. It is nil without one.
type outage struct {
	Allowance
	replica OutageReplica
	client  uint64

	mu   sync.Mutex
	seq  uint64
	down error     // why the ledger is taken to be down,
	till time.Time // until when, so that not each call waits for it
}

// outageHolds is how long a ledger that was down is not asked again.
const outageHolds = 2 * time.Second

func newOutage(o *Options) *outage {
	replica, ok := o.Replica.(OutageReplica)
	if !ok || o.Allowance == nil {
		return nil
	}
	return &outage{Allowance: *o.Allowance, replica: replica, client: NewClient()}
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
		switch err := r.Check(batch.Account); {
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
	return answers, nil
}

// grantDown grants one request within the allowance.
func (l *engineLog) grantDown(ctx context.Context, batch *Batch, i int, allowed Units, down error) (answer Answer) {
	r := &batch.Requests[i]
	id := l.outage.nextID(batch, i)
	count := Units(max(r.Together, 1))
	now := time.Now()
	known, err := l.knownDown(ctx, batch, r, now)
	if err != nil {
		return Answer{Err: err}
	}
	err = l.outage.replica.Outage(batch.Account, now, func(recent []engine.Record) (*engine.Record, error) {
		used := Units(0)
		for i := range recent {
			if recent[i].ID == engine.ID(id) {
				return nil, nil // an earlier attempt was granted
			}
			if recent[i].Kind == engine.KindGrant {
				used += Units(recent[i].Amounts.Units)
			}
		}
		if !r.Force {
			if count*r.Units > allowed-used {
				return nil, fmt.Errorf("%s, %d of %d are left of the %s for all outages in 24 hours: %w",
					needText(r, count), max(0, allowed-used), allowed, l.outage.name(), down)
			}
			if err := known.refusal(batch, r, recent, down); err != nil {
				return nil, err
			}
		}
		return &engine.Record{Kind: engine.KindGrant, ID: engine.ID(id), Labels: l.request(batch, r, i).Labels,
			Amounts: engine.Amounts{Units: int64(count * r.Units), Calls: int64(count)}}, nil
	})
	if err != nil {
		if !errors.Is(err, down) && !errors.Is(err, ErrRefused) {
			err = fmt.Errorf("%s cannot be counted without the ledger (%w): %w", r.Method, err, down)
		}
		return Answer{Err: err}
	}
	if l.outage.Granted != nil {
		l.outage.Granted(count * r.Units)
	}
	return Answer{Receipt: Receipt{Account: batch.Account, Key: batch.Key, ID: id, At: now.Truncate(time.Microsecond)}}
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

// knownState is what this host knows of the budgets of a request.
type knownState struct {
	cooldown *Cooldown
	left     []Units            // of each charge
	counted  map[engine.ID]bool // grants of the outage that left takes into account
}

// knownDown returns what this host knows of a request's budgets.
func (l *engineLog) knownDown(ctx context.Context, batch *Batch, r *Request, now time.Time) (known knownState, err error) {
	known.counted = map[engine.ID]bool{}
	err = l.outage.replica.Outage(batch.Account, now, func(recent []engine.Record) (*engine.Record, error) {
		for i := range recent {
			known.counted[recent[i].ID] = false
		}
		return nil, nil
	})
	if err != nil {
		return known, err
	}
	budgets := l.budgets.of(r.Charges)
	return known, l.engine.Account(batch.Account).Known(ctx, func(v *engine.View) {
		known.cooldown = cooldownIn(v, batch.Account, "", batch.Key)
		for i, b := range budgets {
			held := v.Held(b, batch.Key)
			known.left = append(known.left, Units(held.Limit-held.Used-held.Reserved))
			if known.cooldown == nil {
				known.cooldown = cooldownIn(v, batch.Account, r.Charges[i].Budget, batch.Key)
			}
		}
		for id := range known.counted {
			known.counted[id] = v.Has(id)
		}
	})
}

// refusal returns why a call is not granted without the ledger, or nil.
func (k *knownState) refusal(batch *Batch, r *Request, recent []engine.Record, down error) error {
	if c := k.cooldown; c != nil {
		return &RefusedError{Account: batch.Account, Key: batch.Key, Budget: c.Budget, Method: r.Method, Units: r.Units,
			Caller: r.Caller, Reason: ReasonCooldown, Detail: c.Reason, Needed: r.Units,
			RetryAt: c.Until, RetryAfter: time.Until(c.Until)}
	}
	for i, charge := range r.Charges {
		left := k.left[i]
		for j := range recent {
			l, amounts := &recent[j].Labels, &recent[j].Amounts
			isCovered := l.Key == batch.Key && charge.Coverage.Covers(l.Method, Caller{Lane: l.Lane, Job: l.Job, Region: l.Region})
			if isCovered && !k.counted[recent[j].ID] {
				left -= charge.Coverage.Measure.Of(Units(amounts.Units), Units(amounts.Calls))
			}
		}
		need := Units(max(r.Together, 1)) * charge.Coverage.Amount(r.Units)
		if need > left {
			return fmt.Errorf("%s needs %d of budget %q, which has %d left as far as this host knows: %w",
				r.Method, need, charge.Budget, max(0, left), down)
		}
	}
	return nil
}

// needText says what a request needs.
func needText(r *Request, count Units) string {
	switch {
	case count > 1:
		return fmt.Sprintf("%d calls of %s need %d units", count, r.Method, count*r.Units)
	case r.Units == 1:
		return r.Method + " needs 1 unit"
	}
	return fmt.Sprintf("%s needs %d units", r.Method, r.Units)
}

// settleDown settles a grant of this host's that the ledger does not have yet.
func (l *engineLog) settleDown(receipt Receipt, amounts engine.Amounts, down error) error {
	id := l.outage.nextID(&Batch{}, 0)
	isOurs := false
	err := l.outage.replica.Outage(receipt.Account, time.Now(), func(recent []engine.Record) (*engine.Record, error) {
		for i := range recent {
			isOurs = isOurs || recent[i].ID == engine.ID(receipt.ID)
		}
		if !isOurs {
			return nil, nil
		}
		return &engine.Record{Kind: engine.KindSettle, ID: engine.ID(id), Ref: engine.ID(receipt.ID), Amounts: amounts}, nil
	})
	if err != nil || !isOurs {
		return errors.Join(down, err)
	}
	return nil
}

// GrantedDown returns what this host was granted of an account without the
// ledger in the trailing 24 hours.
func GrantedDown(r OutageReplica, account string, now time.Time) (units Units, err error) {
	err = r.Outage(account, now, func(recent []engine.Record) (*engine.Record, error) {
		for i := range recent {
			if recent[i].Kind == engine.KindGrant {
				units += Units(recent[i].Amounts.Units)
			}
		}
		return nil, nil
	})
	return units, err
}

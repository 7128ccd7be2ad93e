package quota

import (
	"cmp"
	"context"
	"time"
)

// Units is an amount of quota, in the unit that the upstream counts. A call
// costs 1 to MaxUnits.
type Units int64

// The lanes that command ration uses. Programs may use other names.
const (
	LaneCron     = "cron"     // scheduled work
	LaneBackfill = "backfill" // past data, not urgent
	LaneManual   = "manual"   // started by an operator
)

// Caller says on whose behalf a call is made. The zero value is an
// unattributed caller, shown as "-".
type Caller struct {
	Lane   string // the kind of work: LaneCron, LaneBackfill, LaneManual or another name
	Job    string // the name of the job or step
	Region string // the region that the work is for
}

// longest returns the length of the longest label of c.
func (c *Caller) longest() int { return max(len(c.Lane), len(c.Job), len(c.Region)) }

// Call is one request that is about to be made to an upstream.
type Call struct {
	Account string // the upstream project that owns the quota; a name, not an API key
	// a part of the account, such as a tenant, that a Budget with PerKey limits
	// for itself; usually empty
	Key    string
	Method string // the upstream's name for the operation, such as search.list
	Units  Units  // the cost, 1 to MaxUnits; 0 is allowed for a call with Measures
	Caller Caller // empty fields are taken from the context; see WithCaller

	// Measures are what the call costs in named measures, 0 to MaxLimit, which
	// budgets with such a Measure count. It must not be modified afterwards.
	Measures map[Measure]Units

	// Lease, if it is above 0, says that the cost is an estimate, or that the
	// call is in flight until its grant is settled, refunded or ended, and for no
	// longer than Lease, at most a day: see ReasonInFlight. Calls that a budget
	// in flight covers have the longest of its leases at least.
	Lease time.Duration

	// ID makes a repeated Spend or Wait of the same call, for example after its
	// answer was lost, charge it once: see NameID. A call that was refunded is
	// charged anew. An ID is remembered for at least ten minutes. A Spend with an
	// ID that ends with an error may be charged all the same, and the repeat is
	// then granted. The zero ID is that of a call which is not repeated. A
	// Transport ignores it, since it charges each attempt.
	ID ID
}

type callerKey struct{}

// WithCaller returns a copy of ctx that attributes calls to caller.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// CallerFrom returns the caller that WithCaller stored in ctx, or the zero
// Caller if there is none.
func CallerFrom(ctx context.Context) Caller {
	caller, _ := ctx.Value(callerKey{}).(Caller)
	return caller
}

// ledgerContext returns the context of a spend for the ledger.
func ledgerContext(ctx context.Context) context.Context {
	if ctx.Done() == nil || ctx.Err() != nil || !requestOptionsOf(ctx).Uninterrupted {
		return ctx
	}
	if _, hasDeadline := ctx.Deadline(); hasDeadline {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// or returns c with its empty fields taken from other.
func (c Caller) or(other Caller) Caller {
	return Caller{
		Lane:   cmp.Or(c.Lane, other.Lane),
		Job:    cmp.Or(c.Job, other.Job),
		Region: cmp.Or(c.Region, other.Region),
	}
}

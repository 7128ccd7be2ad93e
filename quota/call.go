package quota

import "context"

// Units are what the upstream counts. One call costs at least 1 and at most
// MaxUnits.
type Units int64

// MaxUnits is the most that one call may cost, and MaxLimit the highest limit
// of a budget. Every ledger keeps sums up to MaxLimit exactly, a Lua script's
// floating-point numbers included.
const (
	MaxUnits Units = 1<<31 - 1
	MaxLimit Units = 1<<47 - 1
)

// Measure says what a budget counts. The zero value counts units.
type Measure uint8

const (
	// ByUnits counts what the calls cost.
	ByUnits Measure = iota
	// Calls counts every call as one, whatever it costs.
	Calls
)

// String returns the word that follows a number: "units" or "calls".
func (m Measure) String() string {
	if m == Calls {
		return "calls"
	}
	return "units"
}

// The lanes that ration itself uses. Programs may use others.
const (
	LaneCron     = "cron"     // scheduled work
	LaneBackfill = "backfill" // past data, without hurry
	LaneManual   = "manual"   // an operator
)

// Caller says on whose behalf a call is made. The zero value is an
// unattributed caller, shown as "-".
type Caller struct {
	Lane   string // what kind of work: LaneCron, LaneBackfill, LaneManual, or another
	Job    string // the step's name
	Region string
}

// Call is one request about to be made.
type Call struct {
	Account string // the upstream project whose quota it is; never a key
	Key     string // gives the call a log of its own, a client's address for example; usually empty
	Method  string // the upstream's name for the operation: search.list
	Units   Units  // what it costs, 1 to MaxUnits
	Caller  Caller // its empty fields are taken from the context, see WithCaller
}

type callerKey struct{}

// WithCaller returns a context whose calls are attributed to caller.
func WithCaller(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// CallerFrom returns the caller that WithCaller put into ctx, or the zero Caller.
func CallerFrom(ctx context.Context) Caller {
	caller, _ := ctx.Value(callerKey{}).(Caller)
	return caller
}

// or returns c with its empty fields taken from other.
func (c Caller) or(other Caller) Caller {
	if c.Lane == "" {
		c.Lane = other.Lane
	}
	if c.Job == "" {
		c.Job = other.Job
	}
	if c.Region == "" {
		c.Region = other.Region
	}
	return c
}

package engine

import "slices"

// Kind is what a record says.
type Kind uint8

// The kinds of record.
const (
	KindGrant    Kind = iota + 1 // a call was admitted
	KindSettle                   // what the grant Ref really cost; its lease is over
	KindVoid                     // the record Ref was never appended, and must not count if it turns up
	KindNote                     // an adjustment, which counts like a grant but is not a call
	KindCooldown                 // calls are refused until Until; over if that is 0
	KindTicket                   // a caller waits for Amounts until Until; Ref is its first ticket
	KindClaim                    // Name belongs to Owner until Until
	KindLimit                    // the configuration Owner has the budget Name limited to Amounts.Units until Until
	KindClock                    // what is before it, and stamped later than Value, counts at Until
	KindMoved                    // the account lives in the ledger Text now; here if that is empty; see Arriving
)

// Arriving is the Name of a moved record which says that the account comes from
// the ledger Text, and that this log does not have all of its records yet.
const Arriving = "arriving"

// Record is one immutable record of a log. Which fields it has depends on its
// kind; the others are zero. A record must not be modified once it is shared.
type Record struct {
	Kind Kind
	ID   ID

	// At is the ledger's time when the record was appended, in microseconds
	// since the Unix epoch. Kept says that the record carries it, because it was
	// appended before: to the log's former life, or while the ledger was down.
	At   int64
	Kept bool

	Ref     ID
	Labels  Labels
	Amounts Amounts
	Until   int64 // microseconds since the Unix epoch
	Name    string
	Owner   string
	Text    string

	// Value is the threshold of a clock record, the priority of a ticket, when
	// the configuration of a limit was changed, how often in succession a
	// cooldown was asked for and, of a limit without a name, how far back the log
	// is needed. Times and lengths are in microseconds.
	Value int64
}

// Labels say whose call it is. All may be empty.
type Labels struct {
	Method string
	Lane   string
	Job    string
	Region string
	Host   string
	Key    string
}

// Amounts are what a record counts for in each measure. Negative amounts are
// invalid.
type Amounts struct {
	Units int64
	Calls int64
	More  []Amount // of named measures, each once
}

// Amount is an amount of a named measure, such as input_tokens.
type Amount struct {
	Measure string
	N       int64
}

// The names of the measures that every account has. Others are named by
// budgets.
const (
	MeasureUnits = "units"
	MeasureCalls = "calls"
	// MeasureErrors counts answers, so no call has an amount of it before it is
	// answered; but it must have room for one.
	MeasureErrors = "errors"
)

// measureTickets has totals of its own for what callers wait for, so that a
// caller that waits is not overtaken because another one queues behind it.
const measureTickets = "tickets waiting"

// MaxMeasures is how many measures an account can have, with units and calls.
const MaxMeasures = 8

// Of returns the amount of a measure.
func (a *Amounts) Of(measure string) int64 {
	switch measure {
	case MeasureUnits, "":
		return a.Units
	case MeasureCalls:
		return a.Calls
	}
	for _, m := range a.More {
		if m.Measure == measure {
			return m.N
		}
	}
	return 0
}

// IsZero reports whether nothing counts.
func (a *Amounts) IsZero() bool {
	return a.Units == 0 && a.Calls == 0 && !slices.ContainsFunc(a.More, func(m Amount) bool { return m.N != 0 })
}

// times returns the amounts of some calls that are alike.
func (a Amounts) times(count int64) Amounts {
	a.Units = a.Units * count
	a.Calls = a.Calls * count
	a.More = slices.Clone(a.More)
	for i := range a.More {
		a.More[i].N *= count
	}
	return a
}

// changesDecisions reports whether a record can change a decision otherwise
// than by its amounts, so that appends that were decided before it must be
// decided again.
func (k Kind) changesDecisions() bool {
	switch k {
	case KindCooldown, KindClaim, KindLimit, KindClock, KindMoved:
		return true
	}
	return false
}

// isEntry reports whether records of the kind count in windows.
func (k Kind) isEntry() bool { return k == KindGrant || k == KindNote }

// stampsOf returns how many timestamps records take in a batch.
func stampsOf(records []*Record) (count int) {
	for _, r := range records {
		if r.Kind.isEntry() {
			count++
		}
	}
	return count
}

// methodSlots is how many totals a measure has for methods: a method's is the
// one that its name hashes to, so that all processes agree without a list.
const methodSlots = 15

// totalOf returns the number of the total of all calls of a measure, and of
// that of a method's.
func totalOf(measure, method string) (all, narrow uint8) {
	var m uint32
	switch measure {
	case MeasureUnits, "":
	case MeasureCalls:
		m = 1
	case measureTickets:
		m = MaxMeasures - 1
	default:
		m = 2 + hash(measure)%(MaxMeasures-3)
	}
	all = uint8(m * (methodSlots + 1))
	return all, all + 1 + uint8(hash(method)%methodSlots)
}

// hash is FNV-1a: the same in every process and version.
func hash(text string) uint32 {
	h := uint32(2166136261)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return h
}

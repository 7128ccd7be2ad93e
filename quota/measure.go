package quota

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

// Measure is what a budget counts: ByUnits, Calls, or a named measure such as
// input_tokens, of which each call says how much it costs (Call.Measures). All
// budgets of an account together have at most MaxMeasures of them.
type Measure string

const (
	// ByUnits counts the units that calls cost.
	ByUnits Measure = ""
	// Calls counts each call as 1, whatever it costs.
	Calls Measure = engine.MeasureCalls
	// Errors counts answers that are errors: a Transport settles the calls to
	// one, as its Feedback says (see feedback.Options.Budgets). A call that costs
	// none is refused, too, while nothing is left.
	Errors Measure = engine.MeasureErrors
	// USD counts US dollars, in millionths.
	USD Measure = "usd"
)

// String returns "units" for ByUnits, and otherwise the measure.
func (m Measure) String() string { return cmp.Or(string(m), engine.MeasureUnits) }

// Number writes an amount of the measure without its name: 12.50 for dollars,
// and otherwise an integer.
func (m Measure) Number(n Units) string {
	if m != USD {
		return strconv.FormatInt(int64(n), 10)
	}
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%02d", sign, n/1_000_000, n/10_000%100)
	if rest := n % 10_000; rest > 0 {
		text += strings.TrimRight(fmt.Sprintf("%04d", rest), "0")
	}
	return text
}

// Value returns an amount of the measure as people count it: dollars for USD.
func (m Measure) Value(n Units) float64 {
	if m == USD {
		return float64(n) / 1_000_000
	}
	return float64(n)
}

// Text writes an amount with the measure's name: $12.50, 1 call, 20 units,
// 800 input_tokens.
func (m Measure) Text(n Units) string {
	switch m {
	case USD:
		return strings.Replace("$"+m.Number(n), "$-", "-$", 1)
	case ByUnits, Calls, Errors, engine.MeasureUnits:
		return human.Count(n, strings.TrimSuffix(m.String(), "s"))
	}
	return fmt.Sprintf("%d %s", n, m)
}

// Amounts are what one call, or several, count in each measure.
type Amounts struct {
	Units Units
	Calls Units
	Named map[Measure]Units // of named measures; nil if there are none
}

// Of returns the amount of a measure.
func (a Amounts) Of(m Measure) Units {
	switch m {
	case ByUnits, engine.MeasureUnits:
		return a.Units
	case Calls:
		return a.Calls
	}
	return a.Named[m]
}

// IsZero reports whether nothing counts.
func (a Amounts) IsZero() bool {
	for _, n := range a.Named {
		if n != 0 {
			return false
		}
	}
	return a.Units == 0 && a.Calls == 0
}

// Only returns the amounts of which one measure is n and the others are 0.
func (m Measure) Only(n Units) Amounts {
	switch m {
	case ByUnits, engine.MeasureUnits:
		return Amounts{Units: n}
	case Calls:
		return Amounts{Calls: n}
	}
	return Amounts{Named: map[Measure]Units{m: n}}
}

// Plus returns the sum of a and other.
func (a Amounts) Plus(other Amounts) Amounts {
	a.Units += other.Units
	a.Calls += other.Calls
	if len(other.Named) > 0 {
		sum := maps.Clone(a.Named)
		if sum == nil {
			sum = map[Measure]Units{}
		}
		for m, n := range other.Named {
			sum[m] += n
		}
		a.Named = sum
	}
	return a
}

// Times returns the amounts of count calls that are alike.
func (a Amounts) Times(count int) Amounts {
	n := Units(count)
	times := Amounts{Units: n * a.Units, Calls: n * a.Calls}
	for m, amount := range a.Named {
		times = times.Plus(m.Only(n * amount))
	}
	return times
}

// Amounts returns what the call costs.
func (c *Call) Amounts() Amounts { return Amounts{Units: c.Units, Calls: 1, Named: c.Measures} }

// Amount returns how much a call counts in the budget's measure.
func (b *Budget) Amount(call *Call) Units { return call.Amounts().Of(b.Measure) }

// Amounts returns what the entry counts.
func (e *Entry) Amounts() Amounts { return Amounts{Units: e.Units, Calls: e.Calls, Named: e.Measures} }

// Amounts returns what the entries count together.
func (s *Sum) Amounts() Amounts { return Amounts{Units: s.Units, Calls: s.Calls, Named: s.Measures} }

// check returns an error if the amounts are out of range.
func (a Amounts) check() error {
	if a.Units < 0 || a.Units > MaxUnits {
		return fmt.Errorf("%w: a cost of %d units; give 0 to %d", ErrBadCall, a.Units, MaxUnits)
	}
	if len(a.Named) > MaxMeasures-2 {
		return fmt.Errorf("%w: a cost in %d named measures; give %d at most", ErrBadCall, len(a.Named), MaxMeasures-2)
	}
	for m, n := range a.Named {
		if isNamed := m != ByUnits && m != Calls && m != engine.MeasureUnits; !isNamed || len(m) > MaxLabel {
			return fmt.Errorf("%w: %q among the named measures; give a name of up to %d bytes that is not units or "+
				"calls", ErrBadCall, m, MaxLabel)
		}
		if n < 0 || n > MaxLimit {
			return fmt.Errorf("%w: a cost of %d %s; give 0 to %d", ErrBadCall, n, m, MaxLimit)
		}
	}
	return nil
}

// engineAmounts returns the amounts as the engine sees them.
func (a Amounts) engineAmounts() engine.Amounts {
	e := engine.Amounts{Units: int64(a.Units), Calls: int64(a.Calls)}
	if len(a.Named) > 0 {
		for _, m := range slices.Sorted(maps.Keys(a.Named)) {
			e.More = append(e.More, engine.Amount{Measure: string(m), N: int64(a.Named[m])})
		}
	}
	return e
}

// amountsOf is the inverse of engineAmounts.
func amountsOf(e engine.Amounts) Amounts {
	a := Amounts{Units: Units(e.Units), Calls: Units(e.Calls)}
	for _, m := range e.More {
		a = a.Plus(Measure(m.Measure).Only(Units(m.N)))
	}
	return a
}

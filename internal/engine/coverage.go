package engine

import (
	"slices"
	"strconv"
	"strings"
)

// Coverage says which records count, and in which measure. The zero Coverage is
// that of the units of all calls. It must not be modified while it is in use.
type Coverage struct {
	Measure string   // MeasureUnits, the zero value, MeasureCalls or a named one
	Methods []string // empty means all; so do Lanes and Regions
	Except  []string // methods that do not count
	Lanes   []string
	Regions []string

	// ByKey limits each value of the key for itself: the records of one Key
	// count, which is that of the call. Otherwise those of all keys count.
	ByKey bool

	inFlight bool // only grants with a lease count, until it ends
}

// Covers reports whether a record of a method, lane and region counts, whatever
// its key.
func (c *Coverage) Covers(method, lane, region string) bool {
	in := func(list []string, word string) bool { return len(list) == 0 || slices.Contains(list, word) }
	if slices.Contains(c.Except, method) || !in(c.Methods, method) {
		return false
	}
	return in(c.Lanes, lane) && in(c.Regions, region)
}

// covers reports whether a record with these labels counts, whatever its key.
func (c *Coverage) covers(l *Labels) bool { return c.Covers(l.Method, l.Lane, l.Region) }

// Text returns a text that is equal for equal coverages. It must stay the same
// in every release, because records of limits contain it.
func (c *Coverage) Text() string {
	var text strings.Builder
	text.WriteString(c.Measure)
	if c.Measure == MeasureUnits {
		text.Reset()
	}
	if c.ByKey {
		text.WriteString(" by key")
	}
	if c.inFlight {
		text.WriteString(" in flight")
	}
	for i, list := range [...][]string{c.Methods, c.Except, c.Lanes, c.Regions} {
		if len(list) == 0 {
			continue
		}
		list = slices.Clone(list)
		slices.Sort(list)
		text.WriteByte("mxlr"[i])
		for _, word := range slices.Compact(list) {
			text.WriteString(strconv.Quote(word))
		}
	}
	return text.String()
}

// totals returns the totals that rise with everything that the coverage counts
// in some measures.
func (c *Coverage) totals(measures ...string) (totals []uint8) {
	for _, measure := range measures {
		if len(c.Methods) == 0 {
			all, _ := totalOf(measure, "")
			totals = append(totals, all)
		}
		for _, method := range c.Methods {
			_, narrow := totalOf(measure, method)
			totals = append(totals, narrow)
		}
	}
	slices.Sort(totals)
	return slices.Compact(totals)
}

// Package usage says who spent a quota, and why a call was refused: it adds up
// what a ledger holds, for reports. It reads sums where it can, so that a look
// costs little however long the log is.
package usage

import (
	"context"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Unattributed is the name of what is attributed to no job, region or lane.
const Unattributed = "-"

// name returns a name, or Unattributed for an empty one.
func name(s string) string {
	if s == "" {
		return Unattributed
	}
	return s
}

// Attribution says by whom an amount was spent. Each map adds up to the whole.
type Attribution struct {
	ByMethod map[string]quota.Units
	ByRegion map[string]quota.Units
	ByLane   map[string]quota.Units
	ByJob    map[string]quota.Units
}

// add attributes an amount.
func (a *Attribution) add(method string, caller quota.Caller, amount quota.Units) {
	for _, by := range []struct {
		sums *map[string]quota.Units
		name string
	}{{&a.ByMethod, method}, {&a.ByRegion, caller.Region}, {&a.ByLane, caller.Lane}, {&a.ByJob, caller.Job}} {
		if *by.sums == nil {
			*by.sums = map[string]quota.Units{}
		}
		(*by.sums)[name(by.name)] += amount
	}
}

// Drift is what was found to be missing from a log, and entered later.
type Drift struct {
	Corrected quota.Units // by an operator: quota.EntryCorrection
	Reported  quota.Units // because the upstream's answers said so: quota.EntryNote
}

func (d *Drift) add(kind quota.EntryKind, amount quota.Units) {
	switch kind {
	case quota.EntryCorrection:
		d.Corrected += amount
	case quota.EntryNote:
		d.Reported += amount
	}
}

// amount returns what of a sum a coverage counts: units, or calls.
func amount(c *quota.Coverage, s *quota.Sum) quota.Units {
	switch {
	case !c.Covers(s.Method, s.Caller):
		return 0
	case c.Measure == quota.Calls:
		return s.Calls
	}
	return s.Units
}

// Contents is what the log of an account holds.
type Contents struct {
	Entries      int64
	Units, Calls quota.Units
	UnitDrift    Drift
	CallDrift    Drift
	Oldest       time.Time // zero when there is no entry
	Newest       time.Time
}

// Log returns what the log of an account holds. It does not include the logs of
// its keys.
func Log(ctx context.Context, ledger quota.Ledger, account string) (*Contents, error) {
	c := &Contents{}
	for s, err := range ledger.Sums(ctx, quota.Query{Account: account}) {
		if err != nil {
			return nil, err
		}
		c.Entries, c.Units, c.Calls = c.Entries+s.Entries, c.Units+s.Units, c.Calls+s.Calls
		c.UnitDrift.add(s.Kind, s.Units)
		c.CallDrift.add(s.Kind, s.Calls)
		if c.Oldest.IsZero() || s.First.Before(c.Oldest) {
			c.Oldest = s.First
		}
		if s.Last.After(c.Newest) {
			c.Newest = s.Last
		}
	}
	return c, nil
}

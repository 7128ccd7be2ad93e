// Package usage reports who spent a quota and why a call was refused.
package usage

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// Unattributed stands for an empty job, region or lane in reports.
const Unattributed = "-"

// name returns s, or Unattributed if s is empty.
func name(s string) string { return cmp.Or(s, Unattributed) }

// Corrections stands for the job and the host of corrections in sums, because
// the calls that they stand for bypassed ration: neither the job of their name
// nor the host where they were recorded has made them.
const Corrections = "(corrections)"

// Spender returns how sums name the job or the host of entries of a kind:
// Unattributed if it is empty, and Corrections for corrections.
func Spender(kind quota.EntryKind, jobOrHost string) string {
	if kind == quota.EntryCorrection {
		return Corrections
	}
	return name(jobOrHost)
}

// Attribution breaks an amount down by method, region, lane, job and host. Each
// map adds up to the whole amount.
type Attribution struct {
	ByMethod map[string]quota.Units `json:"by_method"`
	ByRegion map[string]quota.Units `json:"by_region"`
	ByLane   map[string]quota.Units `json:"by_lane"`
	ByJob    map[string]quota.Units `json:"by_job"`
	ByHost   map[string]quota.Units `json:"by_host"`
}

// Breakdown is an amount by the names of one dimension.
type Breakdown struct {
	By   string // as in Dimensions
	Sums map[string]quota.Units
}

// Breakdowns returns the maps that tell something, with the names of their
// dimensions. That nothing has a region tells nothing, nor does an only host.
func (a *Attribution) Breakdowns() (all []Breakdown) {
	for _, by := range []Breakdown{{"method", a.ByMethod}, {"region", a.ByRegion}, {"lane", a.ByLane}, {"job", a.ByJob},
		{"host", a.ByHost}} {
		_, hasNone := by.Sums[Unattributed]
		if isOnly := hasNone || by.By == "host"; len(by.Sums) > 1 || len(by.Sums) == 1 && !isOnly {
			all = append(all, by)
		}
	}
	return all
}

// Ranked returns the names that spent most, at most most of them, the largest
// first, and how many others there are and what those spent.
func Ranked(sums map[string]quota.Units, most int) (names []string, others int, rest quota.Units) {
	names = slices.SortedFunc(maps.Keys(sums), func(x, y string) int {
		return cmp.Or(cmp.Compare(sums[y], sums[x]), cmp.Compare(x, y))
	})
	others = max(0, len(names)-most)
	for _, name := range names[len(names)-others:] {
		rest += sums[name]
	}
	return names[:len(names)-others], others, rest
}

// NotNil returns the attribution with empty maps in place of nil, for JSON.
func (a Attribution) NotNil() Attribution {
	for _, sums := range []*map[string]quota.Units{&a.ByMethod, &a.ByRegion, &a.ByLane, &a.ByJob, &a.ByHost} {
		if *sums == nil {
			*sums = map[string]quota.Units{}
		}
	}
	return a
}

// add adds an amount of an entry to each of the maps.
func (a *Attribution) add(e *quota.Entry, amount quota.Units) {
	for _, by := range []struct {
		sums *map[string]quota.Units
		name string
	}{
		{&a.ByMethod, e.Method}, {&a.ByRegion, e.Caller.Region}, {&a.ByLane, e.Caller.Lane},
		{&a.ByJob, Spender(e.Kind, e.Caller.Job)}, {&a.ByHost, Spender(e.Kind, e.Host)},
	} {
		if *by.sums == nil {
			*by.sums = map[string]quota.Units{}
		}
		(*by.sums)[name(by.name)] += amount
	}
}

// Drift is the part of an amount that was not charged by calls but recorded
// later, because the log was found to hold too little.
type Drift struct {
	Corrected quota.Units // corrections by an operator (quota.EntryCorrection)
	Reported  quota.Units // usage reported by the upstream, or heard of before the ledger lost it (quota.EntryNote)
}

func (d *Drift) add(kind quota.EntryKind, amount quota.Units) {
	switch kind {
	case quota.EntryCorrection:
		d.Corrected += amount
	case quota.EntryNote:
		d.Reported += amount
	}
}

// How drift was found, in texts.
const (
	byHand   = "by ration ledger reconcile"
	byOthers = "by the upstream's answers or a restoration"
)

// Text says how much was found missing, and how: 300 units by ration ledger
// reconcile, 80 units by the upstream's answers or a restoration. It is "" if
// nothing was.
func (d Drift) Text(measure string) string {
	var parts []string
	m := quota.Measure(measure)
	if d.Corrected > 0 {
		parts = append(parts, m.Text(d.Corrected)+" "+byHand)
	}
	if d.Reported > 0 {
		parts = append(parts, m.Text(d.Reported)+" "+byOthers)
	}
	return strings.Join(parts, ", ")
}

// amount returns what a coverage counts of entries.
func amount(c *engine.Coverage, method string, caller quota.Caller, amounts quota.Amounts) quota.Units {
	if !c.Covers(method, caller.Lane, caller.Region) {
		return 0
	}
	return amounts.Of(quota.Measure(c.Measure))
}

// Log summarizes the log of an account, without the logs of its keys.
func Log(ctx context.Context, guard *quota.Guard, account string) (*LogReport, error) {
	r := &LogReport{Account: account, Keeps: human.Seconds(guard.Retention(account))}
	var oldest, newest time.Time
	var units, calls Drift
	for s, err := range guard.Sums(ctx, quota.Query{Account: account}) {
		if err != nil {
			return nil, err
		}
		if s.Kind == quota.EntryRefused {
			continue
		}
		r.Entries += s.Entries
		r.Units += s.Units
		r.Calls += s.Calls
		units.add(s.Kind, s.Units)
		calls.add(s.Kind, s.Calls)
		if oldest.IsZero() || s.First.Before(oldest) {
			oldest = s.First
		}
		if s.Last.After(newest) {
			newest = s.Last
		}
	}
	r.Oldest, r.Newest = human.OptionalTime(oldest), human.OptionalTime(newest)
	r.ReconciledUnits, r.ReportedUnits = units.Corrected, units.Reported
	r.ReconciledCalls, r.ReportedCalls = calls.Corrected, calls.Reported
	return r, nil
}

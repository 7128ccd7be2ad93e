// This file selects what commands and the gateway show of the past: the
// entries of a ledger, their totals and the days of the history for log, and
// the videos of the catalogue for search.

package cli

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/internal/usage"
)

// LogQuery says how entries are shown.
type LogQuery struct {
	// one of usage.Dimensions, which usage.AndDay may follow, or of Periods to add up by; "" does
	// not add up
	By   string
	Last int // only the newest; 0 is all
	Top  int // only the largest totals; 0 is all
}

// Periods returns the values of Query.By that add up by time.
func Periods() []string { return []string{"day", "hour"} }

// ByPeriod reports whether q adds up by time.
func (q *LogQuery) ByPeriod() bool { return slices.Contains(Periods(), q.By) }

// ByHistory reports whether q reads the days of the history, which knows
// no runs.
func (q *LogQuery) ByHistory(source *usage.LogReader) bool {
	return q.By == "day" && source.Filter.Run == ""
}

// Selection is what a Query selects: totals or periods if it adds up,
// else lines.
type Selection struct {
	Totals  *usage.Totals
	Periods []usage.Period
	Lines   iter.Seq2[usage.Line, error]
	More    bool // there are older entries
}

// Select returns what a query selects of a source. A ledger that is down may be
// an error beside days.
func (q *LogQuery) Select(ctx context.Context, s *setup.Setup, c *client.Client,
	source *usage.LogReader) (found Selection, err error) {
	switch {
	case q.ByHistory(source):
		found.Periods, err = ReadDays(ctx, s, c, source)
		return found, err
	case q.ByPeriod():
		found.Periods, err = source.Periods(ctx, q.By)
		return found, err
	case q.Last == 0 && q.By != "":
		found.Totals, err = source.Totals(ctx, q.By)
		return found, err
	case q.Last == 0:
		found.Lines = source.Lines(ctx, false)
		return found, nil
	}
	lines, more, err := source.Last(ctx, q.Last)
	if q.By != "" && err == nil {
		found.Totals = usage.TotalsOf(lines, q.By)
		return found, nil
	}
	found.More = more
	found.Lines = func(yield func(usage.Line, error) bool) {
		for _, line := range lines {
			if !yield(line, nil) {
				return
			}
		}
	}
	return found, err
}

// ReadDays brings the history up to date and returns the days that source
// selects. c may be nil: then only the stored days are read, and there are none
// without a catalogue. If the ledger is down, Days returns the stored days and
// an error.
func ReadDays(ctx context.Context, s *setup.Setup, c *client.Client, source *usage.LogReader) ([]usage.Period, error) {
	dir, err := s.MakeState()
	if err != nil {
		return nil, err
	}
	open := s.OpenCatalog
	if c == nil {
		open = s.FindCatalog
	}
	store, err := open()
	hasNone := errors.Is(err, catalog.ErrNoCatalog) || errors.Is(err, catalog.ErrOlder) // none of the history
	if hasNone && c == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer store.Close()
	var down error
	if c != nil {
		down = usage.FillHistory(ctx, store, c.Guard(), source.Accounts)
		if down != nil && !client.IsDown(down) {
			return nil, down
		}
		if err := usage.AddRefusals(ctx, store, dir, c.Table().Budgets(), s.Now()); err != nil {
			return nil, err
		}
	}
	days, err := usage.ReadDays(ctx, store, source)
	if err != nil {
		return nil, err
	}
	return days, down
}

// Documents returns what was selected for JSON, one after the other.
func (q *LogQuery) Documents(found *Selection) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		for _, period := range found.Periods {
			if !yield(period, nil) {
				return
			}
		}
		if found.Totals != nil {
			for _, total := range found.Totals.Largest(q.Top) {
				if !yield(total, nil) {
					return
				}
			}
		}
		if found.Lines == nil {
			return
		}
		for line, err := range found.Lines {
			if !yield(usage.NewLineReport(&line), err) || err != nil {
				return
			}
		}
	}
}

package cli

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// LogView prints what ration log selects: as a table, as JSON or as CSV.
type LogView struct {
	Query    *LogQuery
	Source   *usage.LogReader
	Setup    *setup.Setup
	None     string          // what an empty log means
	HasKeys  bool            // costs.yaml has budgets that each key has for itself
	Measures []quota.Measure // named ones of costs.yaml, sorted
	JSON     bool
	CSV      bool

	Stdout io.Writer
	Table  func(headings ...string) *Table
	Remark func(kind, format string, args ...any)
	Now    func() time.Time
}

// clock writes a time in a table.
func (v *LogView) clock(t time.Time) string { return human.Dated(t.UTC(), v.Now(), human.TableTime) }

// measureNames returns the headings of the named measures.
func (v *LogView) measureNames() (names []string) {
	for _, m := range v.Measures {
		names = append(names, m.String())
	}
	return names
}

// Print writes what the flags select. Without a ledger, c is nil.
func (v *LogView) Print(ctx context.Context, c *client.Client) error {
	found, err := v.Query.Select(ctx, v.Setup, c, v.Source)
	switch {
	case err != nil && len(found.Periods) == 0:
		return err
	case v.Query.ByPeriod():
		err = errors.Join(v.printPeriods(ctx, found.Periods), err)
	case v.Query.By != "":
		err = v.printTotals(ctx, found.Totals)
	default:
		err = v.printLines(ctx, found.Lines)
	}
	switch {
	case err != nil || c == nil || v.Query.ByHistory(v.Source):
		return err
	case found.More:
		v.Remark("log", "older entries are not shown; --last 0 shows all")
		return nil
	}
	return v.NoteMissing(ctx, c.Guard())
}

// printNone says that nothing was selected, and which filter is to blame. Only
// CSV has headings nevertheless.
func (v *LogView) printNone(ctx context.Context) error {
	names, err := v.Source.Names(ctx)
	if err != nil {
		return err
	}
	said := v.None
	if len(names) > 0 {
		said = "no entry matches"
		if by, asked, unknown := v.Source.Filter.Unknown(names); unknown {
			said += fmt.Sprintf("; --%s %q: %s", by, asked, jobs.RegionAdvice(asked, names[by]))
		} else if run := v.Source.Filter.Run; run != "" {
			said += fmt.Sprintf("; --run %q: ration log --by run shows the runs", run)
		}
	}
	v.Remark("log", "%s", said)
	return nil
}

// printLines prints entries: a table, or as they are read JSON or CSV.
func (v *LogView) printLines(ctx context.Context, lines iter.Seq2[usage.Line, error]) error {
	writer := v.lineWriter()
	none := true
	for line, err := range lines {
		if err != nil {
			return err
		}
		none = false
		if err := writer.write(usage.NewLineReport(&line)); err != nil {
			return err
		}
	}
	if none {
		if err := v.printNone(ctx); err != nil || !v.CSV {
			return err
		}
	}
	return writer.end()
}

// lineWriter writes entries one by one, and what is left at the end.
type lineWriter struct {
	write func(*usage.LineReport) error
	end   func() error
}

func (v *LogView) lineWriter() lineWriter {
	switch {
	case v.JSON:
		encoder := json.NewEncoder(v.Stdout)
		return lineWriter{func(e *usage.LineReport) error { return encoder.Encode(e) }, func() error { return nil }}
	case v.CSV:
		w := csv.NewWriter(v.Stdout)
		headings := []string{"at", "run", "id", "account", "method", "units", "calls", "lane", "job", "region", "kind",
			"key", "host"}
		_ = w.Write(append(headings, v.measureNames()...)) // Error says it at the end
		write := func(e *usage.LineReport) error {
			return w.Write(append(lineCells(e), e.Amounts.Numbers(v.Measures)...))
		}
		return lineWriter{write, func() error { w.Flush(); return w.Error() }}
	}
	var lines []*usage.LineReport
	return lineWriter{func(e *usage.LineReport) error { lines = append(lines, e); return nil },
		func() error { v.lineTable(lines); return nil }}
}

// lineTable shows entries, and their hosts if there are several.
func (v *LogView) lineTable(lines []*usage.LineReport) {
	headings := []string{"at", "run", "method", "units", "lane", "job", "region"}
	hasHosts := slices.ContainsFunc(lines, func(e *usage.LineReport) bool { return e.Host != lines[0].Host })
	if v.HasKeys {
		headings = append(headings, "key")
	}
	if hasHosts {
		headings = append(headings, "host")
	}
	t := v.Table(append(headings, "")...)
	for _, e := range lines {
		at := human.Dated(e.At.UTC(), v.Now(), "01-02 15:04:05.000Z")
		row := []any{at, e.Run, human.Name(e.Method), e.Units, human.Name(e.Lane), human.Name(e.Job),
			human.Name(e.Region)}
		if v.HasKeys {
			row = append(row, human.Name(cmp.Or(e.Key, "-")))
		}
		if hasHosts {
			row = append(row, human.Name(e.Host))
		}
		t.Row(append(row, e.Remark)...)
	}
	t.Print()
}

// lineCells returns an entry as CSV.
func lineCells(e *usage.LineReport) []string {
	return []string{e.At.UTC().Format(time.RFC3339Nano), e.Run, e.ID, Cell(e.Account), Cell(e.Method),
		fmt.Sprint(e.Units), fmt.Sprint(e.Calls), Cell(e.Lane), Cell(e.Job), Cell(e.Region), e.Kind,
		Cell(cmp.Or(e.Key, "-")), Cell(e.Host)}
}

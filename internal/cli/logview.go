package cli

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
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
	if err != nil && len(found.Periods) == 0 {
		return err
	}
	err = errors.Join(v.print(ctx, &found), err)
	switch {
	case err != nil || c == nil || v.Query.ByHistory(v.Source):
		return err
	case found.More:
		v.Remark("log", "older entries are not shown; --last 0 shows all")
		return nil
	}
	return v.NoteMissing(ctx, c.Guard())
}

// print writes the documents that were selected: as they are read JSON or CSV,
// or a table.
func (v *LogView) print(ctx context.Context, found *Selection) error {
	var rows []any
	write, end := func(row any) error { rows = append(rows, row); return nil },
		func() error { v.table(rows, found.Totals); return nil }
	switch {
	case v.JSON:
		write, end = json.NewEncoder(v.Stdout).Encode, func() error { return nil }
	case v.CSV:
		w := csv.NewWriter(v.Stdout)
		_ = w.Write(v.csvHeadings()) // Error says it at the end
		write = func(row any) error { return w.Write(v.csvCells(row)) }
		end = func() error { w.Flush(); return w.Error() }
	}
	none := true
	for row, err := range v.Query.Documents(found) {
		if err == nil {
			none, err = false, write(row)
		}
		if err != nil {
			return err
		}
	}
	if none {
		if err := v.printNone(ctx); err != nil || !v.CSV {
			return err
		}
	}
	return end()
}

// csvHeadings returns the headings of what csvCells returns.
func (v *LogView) csvHeadings() []string {
	switch by, isDay := strings.CutSuffix(v.Query.By, usage.AndDay); {
	case v.Query.ByPeriod():
		return []string{"by", "name", "account", "units", "calls", "refusals"}
	case by == "":
		headings := []string{"at", "run", "id", "account", "method", "units", "calls", "lane", "job", "region", "kind",
			"key", "host"}
		return append(headings, v.measureNames()...)
	case isDay:
		return append([]string{"by", "name", "day", "account", "units", "calls", "share", "first", "last"},
			v.measureNames()...)
	}
	return append([]string{"by", "name", "account", "units", "calls", "share", "first", "last"}, v.measureNames()...)
}

// csvCells returns one of Documents as CSV.
func (v *LogView) csvCells(row any) []string {
	switch d := row.(type) {
	case usage.Period:
		return []string{d.By, d.Name, Cell(d.Account), fmt.Sprint(d.Units), fmt.Sprint(d.Calls),
			refusalText(d.Refusals, "")}
	case usage.Total:
		cells := []string{d.By, Cell(d.Name), Cell(d.Account), fmt.Sprint(d.Units), fmt.Sprint(d.Calls),
			strconv.FormatFloat(d.Share, 'f', 4, 64), d.First.Format(time.RFC3339Nano), d.Last.Format(time.RFC3339Nano)}
		if d.Day != "" {
			cells = slices.Insert(cells, 2, d.Day)
		}
		return append(cells, d.Amounts.Numbers(v.Measures)...)
	}
	e := row.(*usage.LineReport)
	cells := []string{e.At.UTC().Format(time.RFC3339Nano), e.Run, e.ID, Cell(e.Account), Cell(e.Method),
		fmt.Sprint(e.Units), fmt.Sprint(e.Calls), Cell(e.Lane), Cell(e.Job), Cell(e.Region), e.Kind,
		Cell(cmp.Or(e.Key, "-")), Cell(e.Host)}
	return append(cells, e.Amounts.Numbers(v.Measures)...)
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

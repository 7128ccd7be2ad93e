package cli

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
)

// printTotals prints what was added up, who spent most first.
func (v *LogView) printTotals(ctx context.Context, all *usage.Totals) error {
	if all.Len() == 0 {
		if err := v.printNone(ctx); err != nil || !v.CSV {
			return err
		}
	}
	switch {
	case v.JSON:
		encoder := json.NewEncoder(v.Stdout)
		for _, s := range all.Largest(v.Query.Top) {
			if err := encoder.Encode(s); err != nil {
				return err
			}
		}
		return nil
	case v.CSV:
		return v.totalsCSV(all)
	}
	by, isDay := strings.CutSuffix(v.Query.By, usage.AndDay)
	dimensions := []string{by}
	if isDay {
		dimensions = append(dimensions, "day")
	}
	headings := slices.Concat(dimensions, []string{"units", "calls"}, v.measureNames(),
		[]string{"share", "first", "last"})
	several := all.Accounts() > 1
	if several {
		headings = append(headings, "account")
	}
	t := v.Table(headings...)
	left, rest := all.Len(), all.Units()
	for _, s := range all.Largest(v.Query.Top) {
		row := []any{human.Name(s.Name)}
		if isDay {
			row = append(row, s.Day)
		}
		row = append(row, s.Units, s.Calls)
		for _, number := range s.Amounts.Numbers(v.Measures) {
			row = append(row, number)
		}
		row = append(row, percent(s.Share), v.clock(s.First), v.clock(s.Last))
		if several {
			row = append(row, human.Name(s.Account))
		}
		t.Row(row...)
		left--
		rest -= s.Units
	}
	t.Print()
	if left > 0 {
		v.Remark("log", "%s spent %s; --top 0 shows all", human.Count(left, "other"), human.Count(rest, "unit"))
	}
	return nil
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

func (v *LogView) totalsCSV(all *usage.Totals) error {
	w := csv.NewWriter(v.Stdout)
	headings := []string{"by", "name", "account", "units", "calls", "share", "first", "last"}
	isDay := strings.HasSuffix(v.Query.By, usage.AndDay)
	if isDay {
		headings = slices.Insert(headings, 2, "day")
	}
	_ = w.Write(append(headings, v.measureNames()...)) // Error says it at the end
	for _, s := range all.Largest(v.Query.Top) {
		cells := []string{s.By, Cell(s.Name), Cell(s.Account), fmt.Sprint(s.Units), fmt.Sprint(s.Calls),
			strconv.FormatFloat(s.Share, 'f', 4, 64), s.First.Format(time.RFC3339Nano), s.Last.Format(time.RFC3339Nano)}
		if isDay {
			cells = slices.Insert(cells, 2, s.Day)
		}
		_ = w.Write(append(cells, s.Amounts.Numbers(v.Measures)...))
	}
	w.Flush()
	return w.Error()
}

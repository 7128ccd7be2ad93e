package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ration-dev/ration/cmd/ration/internal/terminal"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota/usage"
)

// printTotals prints what was added up, who spent most first.
func (r *logReport) printTotals(ctx context.Context, all *usage.Totals) error {
	if all.Len() == 0 {
		if err := r.printNone(ctx); err != nil || !r.flags.csv {
			return err
		}
	}
	switch {
	case r.json:
		encoder := json.NewEncoder(r.stdout)
		for _, s := range all.Largest(r.flags.Top) {
			if err := encoder.Encode(s); err != nil {
				return err
			}
		}
		return nil
	case r.flags.csv:
		return r.totalsCSV(all)
	}
	headings := slices.Concat([]string{r.flags.By, "units", "calls"}, r.measureNames(), []string{"share", "first", "last"})
	several := all.Accounts() > 1
	if several {
		headings = append(headings, "account")
	}
	t := r.table(headings...)
	left, rest := all.Len(), all.Units()
	for _, s := range all.Largest(r.flags.Top) {
		row := []any{human.Name(s.Name), s.Units, s.Calls}
		for _, number := range s.Amounts.Numbers(r.measures) {
			row = append(row, number)
		}
		row = append(row, percent(s.Share), r.clock(s.First), r.clock(s.Last))
		if several {
			row = append(row, human.Name(s.Account))
		}
		t.Row(row...)
		left--
		rest -= s.Units
	}
	t.Print()
	if left > 0 {
		r.remark("log", "%s spent %s; --top 0 shows all", human.Count(left, "other"), human.Count(rest, "unit"))
	}
	return nil
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

func (r *logReport) totalsCSV(all *usage.Totals) error {
	w := csv.NewWriter(r.stdout)
	headings := []string{"by", "name", "account", "units", "calls", "share", "first", "last"}
	_ = w.Write(append(headings, r.measureNames()...)) // Error says it at the end
	for _, s := range all.Largest(r.flags.Top) {
		cells := []string{s.By, terminal.Cell(s.Name), terminal.Cell(s.Account), fmt.Sprint(s.Units), fmt.Sprint(s.Calls),
			strconv.FormatFloat(s.Share, 'f', 4, 64), s.First.Format(time.RFC3339Nano), s.Last.Format(time.RFC3339Nano)}
		_ = w.Write(append(cells, s.Amounts.Numbers(r.measures)...))
	}
	w.Flush()
	return w.Error()
}

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
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

// printTotals prints what was added up, who spent most first.
func (r *logReport) printTotals(ctx context.Context, all []usage.Total) error {
	if len(all) == 0 {
		if err := r.printNone(ctx); err != nil || !r.flags.csv {
			return err
		}
	}
	shown := r.flags.Largest(all)
	switch {
	case r.json:
		encoder := json.NewEncoder(r.stdout)
		for _, s := range shown {
			if err := encoder.Encode(s); err != nil {
				return err
			}
		}
		return nil
	case r.flags.csv:
		return r.totalsCSV(shown)
	}
	several := slices.ContainsFunc(all, func(s usage.Total) bool { return s.Account != all[0].Account })
	headings := []string{r.flags.By, "units", "calls", "share", "first", "last"}
	if several {
		headings = append(headings, "account")
	}
	t := r.table(headings...)
	for _, s := range shown {
		row := []any{human.Name(s.Name), s.Units, s.Calls, percent(s.Share), r.clock(s.First), r.clock(s.Last)}
		if several {
			row = append(row, human.Name(s.Account))
		}
		t.Row(row...)
	}
	t.Print()
	var rest quota.Units
	for _, s := range all[len(shown):] {
		rest += s.Units
	}
	if left := len(all) - len(shown); left > 0 {
		r.remark("log", "%s spent %s; --top 0 shows all", human.Count(left, "other"), human.Count(rest, "unit"))
	}
	return nil
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

func (r *logReport) totalsCSV(all []usage.Total) error {
	w := csv.NewWriter(r.stdout)
	_ = w.Write([]string{"by", "name", "account", "units", "calls", "share", "first", "last"}) // Error says it at the end
	for _, s := range all {
		_ = w.Write([]string{s.By, terminal.Cell(s.Name), terminal.Cell(s.Account), fmt.Sprint(s.Units), fmt.Sprint(s.Calls),
			strconv.FormatFloat(s.Share, 'f', 4, 64), s.First.Format(time.RFC3339Nano), s.Last.Format(time.RFC3339Nano)})
	}
	w.Flush()
	return w.Error()
}

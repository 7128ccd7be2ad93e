package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ration-dev/ration/cmd/ration/internal/terminal"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

// printPeriods prints what was added up by time, oldest first.
func (r *logReport) printPeriods(ctx context.Context, all []usage.Period) error {
	if len(all) == 0 {
		if err := r.printNone(ctx); err != nil || !r.flags.csv {
			return err
		}
	}
	switch {
	case r.json:
		encoder := json.NewEncoder(r.stdout)
		for _, p := range all {
			if err := encoder.Encode(p); err != nil {
				return err
			}
		}
		return nil
	case r.flags.csv:
		records := [][]string{{"by", "name", "account", "units", "calls", "refusals"}}
		for _, p := range all {
			records = append(records, []string{p.By, p.Name, terminal.Cell(p.Account), fmt.Sprint(p.Units), fmt.Sprint(p.Calls), refusalText(p.Refusals, "")})
		}
		return csv.NewWriter(r.stdout).WriteAll(records)
	}
	several := slices.ContainsFunc(all, func(p usage.Period) bool { return p.Account != all[0].Account })
	headings := []string{r.flags.By, "units", "calls"}
	if r.flags.By == "day" {
		headings = append(headings, "refused")
	}
	if several {
		headings = append(headings, "account")
	}
	t := r.table(headings...)
	for _, p := range all {
		row := []any{p.Name, p.Units, p.Calls}
		if r.flags.By == "day" {
			row = append(row, refusalText(p.Refusals, "-"))
		}
		if several {
			row = append(row, human.Name(p.Account))
		}
		t.Row(row...)
	}
	t.Print()
	return nil
}

func refusalText(n *int64, unknown string) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprint(*n)
}

// noteMissing says which accounts' logs do not reach back to the beginning of
// the range that was asked for.
func (r *logReport) noteMissing(ctx context.Context, guard *quota.Guard) error {
	missing, err := r.source.Missing(ctx, guard.Retention, r.now())
	if err != nil {
		return err
	}
	for _, account := range slices.Sorted(maps.Keys(missing)) {
		hint := "; ration log --by day has the sums of earlier days"
		if r.flags.By == "day" {
			hint = ""
		}
		r.remark("log", "the ledger no longer holds entries of %s before %s%s", human.Name(account), human.Time(missing[account].Truncate(time.Second)), hint)
	}
	return nil
}

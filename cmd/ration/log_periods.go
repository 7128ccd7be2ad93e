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
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/jobs/history"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

// periods are the values of --by that add up by time.
var periods = []string{"day", "hour"}

// byPeriod reports whether log adds up by time.
func (f *logFlags) byPeriod() bool { return slices.Contains(periods, f.by) }

// logDays returns the days that log --by day asks for, from the history. c is nil
// if there is no ledger. A ledger that is down is an error beside the days.
func (a *app) logDays(ctx context.Context, c *client.Client, f *logFlags, source *usage.Source) ([]usage.Period, error) {
	dir, err := a.setup().MakeState()
	if err != nil {
		return nil, err
	}
	open := a.setup().OpenCatalog
	if c == nil {
		open = a.setup().FindCatalog
	}
	store, err := open()
	if err != nil {
		return nil, err
	}
	defer store.Close()
	var down error
	if c != nil {
		down = history.Fill(ctx, store, c.Guard(), source.Accounts)
		if down != nil && !isLedgerError(down) {
			return nil, down
		}
		if err := history.AddRefusals(ctx, store, dir, c.Table().Budgets(), a.now()); err != nil {
			return nil, err
		}
	}
	days, err := readDays(ctx, store, f, source)
	if err != nil {
		return nil, err
	}
	return days, down
}

// readDays reads days from the history: whole ones, also at the ends.
func readDays(ctx context.Context, store *catalog.Catalog, f *logFlags, source *usage.Source) ([]usage.Period, error) {
	query := catalog.DayQuery{Budget: new(""), To: source.Until, Method: f.filter.Method, Region: f.filter.Region, Job: f.filter.Job, Lane: f.filter.Lane}
	if !source.Since.IsZero() {
		query.From = usage.NewPeriod("day", "", source.Since).From
	}
	sums, err := store.History(ctx, &query)
	var days []usage.Period
	for _, s := range sums {
		if slices.Contains(source.Accounts, s.Account) {
			p := usage.NewPeriod("day", s.Account, s.Day)
			p.Units, p.Calls, p.Refusals = quota.Units(s.Units), quota.Units(s.Calls), new(s.Refusals)
			days = append(days, p)
		}
	}
	return days, err
}

// printPeriods prints what was added up by time, oldest first.
func (r *logReport) printPeriods(ctx context.Context, all []usage.Period) error {
	if len(all) == 0 {
		if err := r.printNone(ctx); err != nil {
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
	case len(all) == 0:
		return nil
	}
	several := slices.ContainsFunc(all, func(p usage.Period) bool { return p.Account != all[0].Account })
	headings := []string{r.flags.by, "units", "calls"}
	if r.flags.by == "day" {
		headings = append(headings, "refused")
	}
	if several {
		headings = append(headings, "account")
	}
	t := r.table(headings...)
	for _, p := range all {
		row := []any{p.Name, p.Units, p.Calls}
		if r.flags.by == "day" {
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

// noteMissing says which accounts' logs do not reach back to the beginning of the
// range that was asked for.
func (r *logReport) noteMissing(ctx context.Context, guard *quota.Guard) error {
	missing, err := r.source.Missing(ctx, guard.Retention, r.now())
	if err != nil {
		return err
	}
	for _, account := range slices.Sorted(maps.Keys(missing)) {
		hint := "; ration log --by day has the sums of earlier days"
		if r.flags.by == "day" {
			hint = ""
		}
		fmt.Fprintf(r.stderr, "the ledger no longer holds entries of %s before %s%s\n", human.Name(account), human.Time(missing[account].Truncate(time.Second)), hint)
	}
	return nil
}

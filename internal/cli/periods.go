package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// periodTable shows what was added up by time.
func (v *LogView) periodTable(all []usage.Period) {
	several := slices.ContainsFunc(all, func(p usage.Period) bool { return p.Account != all[0].Account })
	headings := []string{v.Query.By, "units", "calls"}
	if v.Query.By == "day" {
		headings = append(headings, "refused here")
	}
	if several {
		headings = append(headings, "account")
	}
	t := v.Table(headings...)
	for _, p := range all {
		row := []any{p.Name, p.Units, p.Calls}
		if v.Query.By == "day" {
			row = append(row, refusalText(p.Refusals, "-"))
		}
		if several {
			row = append(row, human.Name(p.Account))
		}
		t.Row(row...)
	}
	t.Print()
}

func refusalText(n *int64, unknown string) string {
	if n == nil {
		return unknown
	}
	return fmt.Sprint(*n)
}

// NoteMissing says which accounts' entries do not reach back to the beginning
// of the range that was asked for.
func (v *LogView) NoteMissing(ctx context.Context, guard *quota.Guard) error {
	missing, err := v.Source.Missing(ctx, guard.Retention, v.Now())
	if err != nil {
		return err
	}
	for _, account := range slices.Sorted(maps.Keys(missing)) {
		hint := "; ration log --by day has the sums of earlier days"
		if v.Query.By == "day" {
			hint = ""
		}
		v.Remark("log", "neither the ledger nor this host's copy has entries of %s before %s%s", human.Name(account),
			human.Time(missing[account]), hint)
	}
	return nil
}

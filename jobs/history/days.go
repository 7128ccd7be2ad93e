package history

import (
	"context"
	"slices"

	"github.com/ration-dev/ration/jobs/catalog"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

// Days returns the days of the history that source selects: whole ones, also at
// the ends. A filter by run is ignored.
func Days(ctx context.Context, store *catalog.Catalog, source *usage.LogReader) ([]usage.Period, error) {
	query := catalog.DayQuery{Budget: new(""), To: source.Until, Method: source.Filter.Method, Region: source.Filter.Region, Job: source.Filter.Job, Lane: source.Filter.Lane}
	if !source.Since.IsZero() {
		query.From = usage.NewPeriod("day", "", source.Since).From
	}
	sums, err := store.History(ctx, &query)
	var days []usage.Period
	for _, s := range sums {
		if slices.Contains(source.Accounts, s.Account) {
			p := usage.NewPeriod("day", s.Account, s.Day)
			p.Units = quota.Units(s.Units)
			p.Calls = quota.Units(s.Calls)
			p.Refusals = new(s.Refusals)
			days = append(days, p)
		}
	}
	return days, err
}

package usage

import (
	"cmp"
	"context"
	"slices"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/quota"
)

// ReadDays returns the days of the history that source selects: whole ones,
// also at the ends. A filter by run is ignored. One by the job of reconcile
// selects corrections too, as that of a log does.
func ReadDays(ctx context.Context, store *catalog.Catalog, source *LogReader) ([]Period, error) {
	query := catalog.DayQuery{Budget: new(""), To: source.Until, Method: source.Filter.Method,
		Region: source.Filter.Region, Job: source.Filter.Job, Lane: source.Filter.Lane}
	if !source.Since.IsZero() {
		query.From = NewPeriod("day", "", source.Since).From
	}
	sums, err := store.History(ctx, &query)
	if query.Job == ReconcileJob && err == nil {
		query.Job = Corrections
		var more []catalog.DaySum
		more, err = store.History(ctx, &query)
		sums = append(sums, more...)
	}
	var days []Period
	for _, s := range sums {
		if slices.Contains(source.Accounts, s.Account) {
			days = addDay(days, &s)
		}
	}
	slices.SortFunc(days, func(x, y Period) int {
		return cmp.Or(x.From.Compare(y.From), cmp.Compare(x.Account, y.Account))
	})
	return days, err
}

// addDay adds a sum to its day, which may be new.
func addDay(days []Period, s *catalog.DaySum) []Period {
	p := NewPeriod("day", s.Account, s.Day)
	i := slices.IndexFunc(days, func(d Period) bool { return d.Name == p.Name && d.Account == p.Account })
	if i < 0 {
		p.Refusals = new(int64)
		days, i = append(days, p), len(days)
	}
	days[i].Units += quota.Units(s.Units)
	days[i].Calls += quota.Units(s.Calls)
	*days[i].Refusals += s.Refusals
	return days
}

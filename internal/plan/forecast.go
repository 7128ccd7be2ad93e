package plan

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// ForecastTime is how far Forecast looks ahead.
const ForecastTime = 48 * time.Hour

// Forecast returns, for each of in.Budgets, the tick of the first call of the
// schedule that the budget will refuse within ForecastTime of in.From, or the
// zero time if there is none. It is Play without jitter; in.To is ignored.
func Forecast(ctx context.Context, in *Input) ([]time.Time, error) {
	soon := *in
	soon.To, soon.Jitter = in.From.Add(ForecastTime), 0
	report, err := Play(ctx, &soon)
	if err != nil {
		return nil, err
	}
	times := make([]time.Time, len(in.Budgets))
	for i := range report.Budgets {
		times[i] = report.Budgets[i].First
	}
	return times, nil
}

// ForecastFrom is Forecast for the budgets of a table, from what the ledger of
// guard holds now, by the limits in force, and without budgets in cooldown.
// Without regions or budgets it returns nil.
func ForecastFrom(ctx context.Context, guard *quota.Guard, table *costs.Table, regions []jobs.Region) ([]time.Time,
	error) {
	if len(regions) == 0 {
		return nil, nil
	}
	balances, err := guard.Balances(ctx)
	if err != nil || len(balances) == 0 {
		return nil, err
	}
	at, state, err := ReadOutline(ctx, guard)
	if err != nil {
		return nil, err
	}
	budgets := table.Budgets()
	for i := range budgets {
		floors := quota.Units(0)
		for _, floor := range budgets[i].Floor {
			floors += floor
		}
		budgets[i].Limit = max(floors, balances[i].Limit())
	}
	times, err := Forecast(ctx, &Input{From: at, State: state, Regions: regions, Budgets: budgets,
		Price: func(method string) (quota.Call, error) { return table.Call("", method) }})
	for i := range times {
		if balances[i].Cooldown != nil {
			times[i] = time.Time{}
		}
	}
	return times, err
}

// An outline of a log with more than outlineEntries entries has its sums over a
// horizon in outlineSlices slices.
const (
	outlineEntries = 10_000
	outlineSlices  = 24
)

// ReadOutline is like ReadState with a zero from, but of a long log it
// reads sums, which is much faster. Units may return late by a 24th of the
// longest window.
func ReadOutline(ctx context.Context, guard *quota.Guard) (at time.Time, state State, err error) {
	at, horizon, accounts, err := state.begin(ctx, guard)
	if err != nil {
		return at, state, err
	}
	for _, account := range accounts {
		if err := state.readOutline(ctx, guard, account, at, horizon); err != nil {
			return at, state, err
		}
	}
	return at, state, nil
}

// readOutline adds the entries of an account or, if there are too many, the
// sums of each slice.
func (s *State) readOutline(ctx context.Context, guard *quota.Guard, account string, at time.Time,
	horizon time.Duration) error {
	if ok, err := s.addFew(ctx, guard, quota.Query{Account: account, Since: at.Add(-horizon), Until: at}); ok ||
		err != nil {
		return err
	}
	slice := horizon / outlineSlices
	for ago := horizon; ago > 0; ago -= slice {
		var part []quota.Entry
		for sum, err := range guard.Sums(ctx,
			quota.Query{Account: account, Since: at.Add(-ago), Until: at.Add(-max(0, ago-slice))}) {
			if err != nil {
				return err
			}
			part = appendSum(part, &sum)
		}
		slices.SortFunc(part, func(x, y quota.Entry) int {
			return cmp.Or(x.At.Compare(y.At), cmp.Compare(x.Method, y.Method),
				cmp.Compare(x.Caller.Region, y.Caller.Region))
		})
		for i := range part {
			s.Add(account, &part[i])
		}
	}
	return nil
}

// addFew adds the entries that a query selects, or none if there are more than
// outlineEntries.
func (s *State) addFew(ctx context.Context, guard *quota.Guard, query quota.Query) (ok bool, err error) {
	query.Limit = outlineEntries + 1
	for e, err := range guard.Entries(ctx, query) {
		if err != nil || len(s.Entries[query.Account]) == outlineEntries {
			delete(s.Entries, query.Account)
			return false, err
		}
		s.Add(query.Account, &e)
	}
	return true, nil
}

// appendSum appends entries that count as much as a sum, at the time of
// its last.
func appendSum(entries []quota.Entry, sum *quota.Sum) []quota.Entry {
	for units, calls := sum.Units, sum.Calls; units > 0 || calls > 0; {
		e := quota.Entry{At: sum.Last, Kind: quota.EntryNote, Method: sum.Method, Caller: sum.Caller,
			Units: min(units, quota.MaxUnits), Calls: min(calls, quota.MaxUnits)}
		if sum.OfKeys {
			e.Key = ofKeys
		}
		entries = append(entries, e)
		units, calls = units-e.Units, calls-e.Calls
	}
	return entries
}

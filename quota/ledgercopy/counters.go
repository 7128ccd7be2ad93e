package ledgercopy

import (
	"context"
	"slices"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// copyCounters notes in the new ledger what the counters of a log hold beside
// its entries: all of it if the log keeps none.
func (a *account) copyCounters(ctx context.Context, key string, entries []quota.Entry) error {
	for _, charge := range a.charges {
		if !charge.Window.Estimate() {
			continue
		}
		had, err := beside(ctx, a.From, a.name, key, charge, entries)
		if err != nil {
			return a.from(err)
		}
		has, err := beside(ctx, a.To, a.name, key, charge, entries)
		if err != nil {
			return a.to(err)
		}
		if had > 0 {
			a.addEstimate(charge.Budget, had)
		}
		for had > has {
			amount := min(had-has, quota.MaxUnits)
			if err := a.addNote(ctx, key, charge, amount); err != nil {
				return a.to(err)
			}
			has += amount
		}
	}
	return nil
}

func (a *account) addEstimate(budget string, used quota.Units) {
	i := slices.IndexFunc(a.report.Estimates, func(e EstimateReport) bool { return e.Budget == budget })
	if i < 0 {
		i = len(a.report.Estimates)
		a.report.Estimates = append(a.report.Estimates, EstimateReport{Budget: budget})
	}
	a.report.Estimates[i].Used += used
}

// beside returns by how much the estimate of a ledger is above that of
// the entries.
func beside(ctx context.Context, l quota.Log, name, key string, charge *quota.Charge, entries []quota.Entry) (quota.Units, error) {
	standings, err := l.Standings(ctx, name, key, []*quota.Charge{charge})
	if err != nil {
		return 0, err
	}
	now := standings[0].At.UnixMicro()
	c := &decide.Counter{Length: charge.Window.Length().Microseconds()}
	for i := range entries {
		e := &entries[i]
		if at := e.At.UnixMicro(); at > now-2*c.Length && charge.Coverage.Covers(e.Method, e.Caller) {
			c.Add(at, decide.Amount(charge.Coverage, int64(e.Units), int64(e.Calls)))
		}
	}
	q := decide.Question{Now: now, Window: &charge.Window, Limit: int64(charge.Limit)}
	used, _ := q.Used(c)
	return standings[0].Used - quota.Units(used), nil
}

// addNote notes an amount of what a charge counts in the new ledger.
func (a *account) addNote(ctx context.Context, key string, charge *quota.Charge, amount quota.Units) error {
	method, caller := (&quota.WindowUse{Budget: charge.Budget, Coverage: charge.Coverage}).Note()
	r := quota.Request{Method: method, Caller: caller, Kind: quota.EntryNote, Force: true}
	r.Units, r.Calls = charge.Coverage.Measure.Split(amount)
	for _, c := range a.charges {
		if c.Coverage.Covers(method, caller) {
			r.Charges = append(r.Charges, c)
		}
	}
	answers, err := a.To.Spend(ctx, &quota.Batch{Account: a.name, Key: key, Requests: []quota.Request{r}})
	if err != nil {
		return err
	}
	return answers[0].Err
}

package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// ReplayInput describes a replay. Budgets and Since are required.
type ReplayInput struct {
	Budgets []quota.Budget // of all accounts
	// Since is when budgets begin to refuse: what is older was spent, whatever
	// they say.
	Since time.Time
	// Price returns the units that a call asks for, and what it costs once it
	// was answered, given what the log says it cost. costs.Table.Reprice makes
	// one. nil is what the log says for both. 0 units are asked for as 1.
	Price func(account, method string, units quota.Units) (asked, cost quota.Units)
	// Refused, unless it is nil, is called for each call that is refused.
	Refused func(l *usage.Line, budget string)
}

// ReplayReport is what Replay found.
type ReplayReport struct {
	From, To     time.Time // of the calls that were played; zero if there are none
	Calls        int
	Units        quota.Units
	Refused      int
	RefusedUnits quota.Units

	Budgets []ReplayedBudget // in the order of ReplayInput.Budgets
	Hours   []ReplayedHour   // those with refusals, by time, account, budget and region
}

// ReplayedBudget is what one budget would have refused. A call that several
// budgets refuse is of the one that the guard names.
type ReplayedBudget struct {
	Budget       quota.Budget
	Refused      int
	RefusedUnits quota.Units
	First        time.Time // of the calls that were refused; zero if there is none
	Last         time.Time
}

// ReplayedHour is what one budget would have refused of a region in one hour
// of UTC.
type ReplayedHour struct {
	Hour    time.Time   `json:"hour"`
	Account string      `json:"account"`
	Budget  string      `json:"budget"`
	Region  string      `json:"region"`
	Refused int         `json:"refused"`
	Units   quota.Units `json:"refused_units"`
}

// Replay plays the entries of a log, oldest first, against budgets, and returns
// what a guard would have refused. A call asks for its price and is then
// settled to what it cost, or refunded, as it was. A log does not say when:
// Replay does it before the next call is made. A call that is refused is not
// spent. Notes and corrections are entered whatever the budgets say, like all
// that is before ReplayInput.Since. Cooldowns are not played: what they refused
// is not in the log.
//
// Entries are read one by one: memory holds what the longest window holds.
func Replay(ctx context.Context, in *ReplayInput, entries iter.Seq2[usage.Line, error]) (*ReplayReport, error) {
	p := &replayer{in: in, report: &ReplayReport{}, hours: map[hourKey]*ReplayedHour{}, budgets: map[[2]string]int{}}
	ledger := memledger.Open(&memledger.Options{Now: func() time.Time { return p.now }})
	var err error
	if p.guard, err = quota.NewGuard(ledger, in.Budgets, nil); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	for i := range in.Budgets {
		p.budgets[[2]string{in.Budgets[i].Account, in.Budgets[i].Name}] = i
		p.report.Budgets = append(p.report.Budgets, ReplayedBudget{Budget: in.Budgets[i]})
	}
	for line, err := range entries {
		if err == nil {
			err = p.play(ctx, &line)
		}
		if err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
	}
	for _, hour := range p.hours {
		p.report.Hours = append(p.report.Hours, *hour)
	}
	slices.SortFunc(p.report.Hours, func(x, y ReplayedHour) int {
		return cmp.Or(x.Hour.Compare(y.Hour), cmp.Compare(x.Account, y.Account), cmp.Compare(x.Budget, y.Budget),
			cmp.Compare(x.Region, y.Region))
	})
	return p.report, nil
}

// replayer plays a log.
type replayer struct {
	in      *ReplayInput
	now     time.Time // the ledger's clock
	guard   *quota.Guard
	report  *ReplayReport
	budgets map[[2]string]int // index by account and name
	hours   map[hourKey]*ReplayedHour
}

type hourKey struct {
	hour                    int64
	account, budget, region string
}

// play plays one entry at its own time.
func (p *replayer) play(ctx context.Context, l *usage.Line) error {
	p.now = l.At
	asks := l.Kind == quota.EntryCall || l.Kind == quota.EntryRefunded
	if !asks || l.At.Before(p.in.Since) {
		if l.Kind == quota.EntryRefunded {
			return nil
		}
		call := quota.Call{Account: l.Account, Key: l.Key, Method: l.Method, Units: l.Units, Measures: l.Measures,
			Caller: l.Caller}
		return p.guard.Note(ctx, quota.Note{Call: call, Calls: l.Calls})
	}
	asked, cost := l.Units, l.Units
	if p.in.Price != nil {
		asked, cost = p.in.Price(l.Account, l.Method, l.Units)
	}
	if l.Kind == quota.EntryRefunded {
		cost = 0
	}
	r := p.report
	if r.Calls == 0 {
		r.From = l.At.UTC()
	}
	r.To = l.At.UTC()
	r.Calls++
	r.Units += cost
	call := quota.Call{Account: l.Account, Key: l.Key, Method: l.Method, Units: max(asked, 1), Measures: l.Measures,
		Caller: l.Caller}
	grant, err := p.guard.Spend(ctx, call)
	refused, isRefused := errors.AsType[*quota.RefusedError](err)
	never, neverFits := errors.AsType[*quota.NeverFitsError](err)
	switch {
	case isRefused:
		p.refuse(l, refused.Budget, cost)
	case neverFits:
		p.refuse(l, never.Budget, cost)
	case err != nil:
		return err
	case l.Kind == quota.EntryRefunded:
		return grant.Refund(ctx)
	case call.Units != cost:
		return grant.Settle(ctx, cost)
	}
	return grant.End(ctx)
}

// refuse counts a refusal by a budget.
func (p *replayer) refuse(l *usage.Line, budget string, units quota.Units) {
	at := l.At.UTC()
	if p.in.Refused != nil {
		p.in.Refused(l, budget)
	}
	p.report.Refused++
	p.report.RefusedUnits += units
	b := &p.report.Budgets[p.budgets[[2]string{l.Account, budget}]]
	if b.Refused == 0 {
		b.First = at
	}
	b.Refused++
	b.RefusedUnits += units
	b.Last = at
	region := cmp.Or(l.Caller.Region, usage.Unattributed)
	key := hourKey{at.Unix() / 3600, l.Account, budget, region}
	hour := p.hours[key]
	if hour == nil {
		hour = &ReplayedHour{Hour: at.Truncate(time.Hour), Account: l.Account, Budget: budget, Region: region}
		p.hours[key] = hour
	}
	hour.Refused++
	hour.Units += units
}

// longestHorizon returns how far back the windows of budgets can see.
func longestHorizon(budgets []quota.Budget) (longest time.Duration) {
	for i := range budgets {
		longest = max(longest, budgets[i].Horizon())
	}
	return longest
}

// ReplayShadow returns what one of in.Budgets, a shadow, would have refused
// since its window began, given the ledger's time now; in.Since is not read.
// The log keeps the window before that, too, so that what the shadow held then
// is known. Others of the budgets refuse nothing, since the log has only what
// they admitted.
func ReplayShadow(ctx context.Context, guard *quota.Guard, in ReplayInput, shadow int, now time.Time) (ReplayedBudget,
	error) {
	in.Budgets = slices.Clone(in.Budgets)
	for i := range in.Budgets {
		in.Budgets[i].Shadow = i != shadow
	}
	b := &in.Budgets[shadow]
	in.Since = b.Window.Since(now, b.Limit)
	source := &usage.LogReader{Guard: guard, Accounts: []string{b.Account}, Since: in.Since.Add(-b.Horizon())}
	replayed, err := Replay(ctx, &in, source.Lines(ctx, false))
	if err != nil {
		return ReplayedBudget{}, err
	}
	return replayed.Budgets[shadow], nil
}

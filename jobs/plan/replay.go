package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

// ReplayInput describes a replay. All fields but Reprice are required.
type ReplayInput struct {
	Budgets []quota.Budget // of all accounts
	// Open returns an empty ledger that uses now as its clock. Replay closes it.
	Open func(now func() time.Time) quota.Ledger
	// Since is when budgets begin to refuse: what is older was spent, whatever
	// they say.
	Since time.Time
	// Reprice returns what a call costs; nil is what the log says.
	Reprice func(l *usage.Line) quota.Units
}

// Replayed is the result of Replay.
type Replayed struct {
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

// ReplayedHour is what one budget would have refused of a region in one hour of
// UTC.
type ReplayedHour struct {
	Hour    time.Time   `json:"hour"`
	Account string      `json:"account"`
	Budget  string      `json:"budget"`
	Region  string      `json:"region"`
	Refused int         `json:"refused"`
	Units   quota.Units `json:"refused_units"`
}

// Replay plays the entries of a log, oldest first, against budgets, and returns
// what a guard would have refused. A call that is refused is not spent. It costs
// what the log says at last, since a log does not keep what was asked at first.
// Refunded calls were never sent and are left out. Additions, notes and
// corrections are entered whatever the budgets say, like all that is before
// ReplayInput.Since. Cooldowns are not in the log.
//
// Entries are read one by one: memory holds what the longest window holds.
func Replay(ctx context.Context, in *ReplayInput, entries iter.Seq2[usage.Line, error]) (*Replayed, error) {
	p := &replayer{in: in, report: &Replayed{}, hours: map[replayedHour]*ReplayedHour{}, budgets: map[[2]string]int{}}
	p.ledger = in.Open(func() time.Time { return p.now })
	defer p.ledger.Close()
	var err error
	if p.guard, err = quota.NewGuard(p.ledger, in.Budgets, nil); err != nil {
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
		return cmp.Or(x.Hour.Compare(y.Hour), cmp.Compare(x.Account, y.Account), cmp.Compare(x.Budget, y.Budget), cmp.Compare(x.Region, y.Region))
	})
	return p.report, nil
}

// replayer plays a log.
type replayer struct {
	in      *ReplayInput
	now     time.Time // the ledger's clock
	ledger  quota.Ledger
	guard   *quota.Guard
	report  *Replayed
	budgets map[[2]string]int // index by account and name
	hours   map[replayedHour]*ReplayedHour
}

type replayedHour struct {
	hour                    int64
	account, budget, region string
}

// play plays one entry at its own time.
func (p *replayer) play(ctx context.Context, l *usage.Line) error {
	p.now = l.At
	call := quota.Call{Account: l.Account, Method: l.Method, Units: l.Units, Caller: l.Caller}
	switch {
	case l.Kind == quota.EntryRefunded:
		return nil
	case l.Kind != quota.EntryCall || l.At.Before(p.in.Since):
		return p.guard.Note(ctx, quota.Note{Call: call, Calls: l.Calls})
	}
	if p.in.Reprice != nil {
		call.Units = p.in.Reprice(l)
	}
	r := p.report
	if r.Calls == 0 {
		r.From = l.At.UTC()
	}
	r.To = l.At.UTC()
	r.Calls++
	r.Units += call.Units
	charged := call
	charged.Units = max(call.Units, 1) // a guard admits no call of 0 units; the answer made it free
	grant, err := p.guard.Spend(ctx, charged)
	if err == nil && charged.Units != call.Units {
		return grant.Settle(ctx, call.Units)
	}
	refused, isRefused := errors.AsType[*quota.RefusedError](err)
	never, neverFits := errors.AsType[*quota.NeverFitsError](err)
	switch {
	case isRefused:
		p.refuse(l, refused.Budget, call.Units)
	case neverFits:
		p.refuse(l, never.Budget, call.Units)
	default:
		return err
	}
	return nil
}

// refuse counts a refusal by a budget.
func (p *replayer) refuse(l *usage.Line, budget string, units quota.Units) {
	at := l.At.UTC()
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
	key := replayedHour{at.Unix() / 3600, l.Account, budget, region}
	hour := p.hours[key]
	if hour == nil {
		hour = &ReplayedHour{Hour: at.Truncate(time.Hour), Account: l.Account, Budget: budget, Region: region}
		p.hours[key] = hour
	}
	hour.Refused++
	hour.Units += units
}

// ReplayShadow returns what one of the budgets, a shadow, would have refused since
// its window began, given the ledger's time now. The log keeps the window before
// that, too, so that what the shadow held then is known. Others of the budgets
// refuse nothing, since the log has only what they admitted.
func ReplayShadow(ctx context.Context, ledger quota.Ledger, budgets []quota.Budget, shadow int, now time.Time, open func(now func() time.Time) quota.Ledger) (ReplayedBudget, error) {
	tried := slices.Clone(budgets)
	for i := range tried {
		tried[i].Shadow = i != shadow
	}
	b := &tried[shadow]
	horizon := b.Window.Horizon()
	since := now.Add(time.Microsecond - b.Window.Length())
	if b.Window.Kind() == quota.KindDaily {
		since = b.Window.Day(now).Since
	}
	source := &usage.Source{Ledger: ledger, Accounts: []string{b.Account}, Since: since.Add(-horizon)}
	replayed, err := Replay(ctx, &ReplayInput{Budgets: tried, Open: open, Since: since}, source.Lines(ctx, false))
	if err != nil {
		return ReplayedBudget{}, err
	}
	return replayed.Budgets[shadow], nil
}

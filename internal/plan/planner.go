package plan

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// Planner plans a schedule, from what a ledger holds.
type Planner struct {
	Input
	Report *Report
	At     time.Time // what is now

	Ledger     string
	Exists     bool        // there is a ledger
	Fresh      bool        // planned from an empty one, whatever it holds
	Unrecorded quota.Units // sent while the ledger was down
	Suggestion *Suggestion // nil: not asked for, or it fits as it is
}

// NewPlanner returns a Planner that has planned nothing yet. A zero from is
// now.
func NewPlanner(table *costs.Table, regions []jobs.Region, from, now time.Time) *Planner {
	return &Planner{At: now.UTC(), Input: Input{From: from, Regions: regions, Budgets: table.Budgets(),
		Price: func(method string) (quota.Call, error) { return table.Call("", method) }}}
}

// ReadState reads what the ledger of guard holds at the start.
func (p *Planner) ReadState(ctx context.Context, guard *quota.Guard) error {
	p.Exists = true
	at, state, err := ReadState(ctx, guard, p.From)
	if err != nil {
		return err
	}
	p.State = state
	if !at.IsZero() { // the ledger's clock is the authority
		p.At = at
		if p.From.IsZero() {
			p.From = at
		}
	}
	return nil
}

// Play simulates days of 24 hours. With suggest, it looks for a schedule that
// fits if this one does not.
func (p *Planner) Play(ctx context.Context, days int, suggest bool) (err error) {
	if p.From.IsZero() {
		p.From = p.At.Truncate(time.Microsecond)
	}
	p.To = p.From.Add(time.Duration(days) * 24 * time.Hour)
	if p.Report, err = Play(ctx, &p.Input); err == nil && suggest && !p.Report.Fits {
		p.Suggestion, err = Suggest(ctx, &p.Input, p.Report)
	}
	return err
}

// Document is a plan for JSON.
type Document struct {
	Fits            bool           `json:"fits"`
	At              time.Time      `json:"at"`
	From            time.Time      `json:"from"`
	To              time.Time      `json:"to"`
	JitterS         int64          `json:"jitter_s"`
	Ledger          *string        `json:"ledger"`
	LedgerExists    *bool          `json:"ledger_exists"`
	UnrecordedUnits quota.Units    `json:"unrecorded_units"`
	Ticks           int            `json:"ticks"`
	Calls           int            `json:"calls"`
	Units           quota.Units    `json:"units"`
	UnitsLeast      quota.Units    `json:"units_least"`
	AtWorst         []string       `json:"at_worst"`
	FirstRefused    *Refusal       `json:"first_refused"`
	Starved         *string        `json:"starved"`
	Uncounted       []string       `json:"uncounted"`
	Budgets         []BudgetReport `json:"budgets"`
	Regions         []RegionReport `json:"regions"`
	Played          []TickResult   `json:"played"`
	Suggestion      *Suggestion    `json:"suggestion"`
}

// Document returns the plan for JSON, with all that was played if verbose
// is set.
func (p *Planner) Document(verbose bool) *Document {
	r := p.Report
	out := &Document{Fits: r.Fits, At: p.At, From: r.From, To: r.To, JitterS: human.Seconds(p.Jitter),
		UnrecordedUnits: p.Unrecorded,
		Ticks:           r.Ticks, Calls: r.Calls, Units: r.Units, UnitsLeast: r.Least,
		AtWorst:      append([]string{}, r.AtWorst...),
		Uncounted:    append([]string{}, r.Uncounted...),
		FirstRefused: r.First, Budgets: append([]BudgetReport{}, r.Budgets...),
		Regions: append([]RegionReport{}, r.Regions...), Suggestion: p.Suggestion}
	if !p.Fresh {
		out.Ledger, out.LedgerExists = &p.Ledger, &p.Exists
	}
	if r.First != nil {
		out.Starved = &r.Starved()[0].Region
	}
	if verbose {
		out.Played = r.TickResults
	}
	return out
}

// Remarks says what the figures mean, a paragraph each. The last one is
// the verdict.
func (p *Planner) Remarks() (remarks []string) {
	r := p.Report
	say := func(format string, args ...any) { remarks = append(remarks, fmt.Sprintf(format, args...)) }
	if len(r.AtWorst) > 0 {
		say("planned at their worst, all pages: %s; %s, and at least %d", joinNames(r.AtWorst),
			human.Count(r.Units, "unit"), r.Least)
	}
	if len(r.Uncounted) > 0 {
		say("not planned, since regions.yaml does not say what they call: %s; write calls for them, such as calls: "+
			"{METHOD: 40}", joinNames(r.Uncounted))
	}
	for _, region := range r.Regions {
		if region.Ticks == 0 {
			say("%s has no tick in this time", region.Region)
		}
	}
	for i := range p.State.Moves {
		say("%s", p.State.Moves[i].Error())
	}
	for _, c := range p.State.Cooldowns {
		name := human.Name(c.Account)
		if c.Budget != "" {
			name = r.Name(&quota.Budget{Account: c.Account, Name: c.Budget})
		}
		say("%s is in cooldown until %s", name, human.Time(c.Until))
	}
	if p.Unrecorded > 0 {
		say("not counted: %s sent within the allowance while the ledger was down", human.Count(p.Unrecorded, "unit"))
	}
	for _, b := range r.Budgets {
		if b.Touched && b.Budget.Window.Kind() == engine.InFlight {
			say("not planned: %s, since how long calls take is not known", r.Name(&b.Budget))
		}
		if b.Budget.Shadow && b.Refused > 0 {
			say("%s is a shadow; it would refuse %s, the first at %s", r.Name(&b.Budget),
				human.Count(b.Refused, "call"), human.Time(b.First))
		}
	}
	if r.First != nil {
		say("PEAK and LATE count all that the schedule requests, refused or not")
	}
	say("%s", p.Report.Verdict(p.Jitter))
	return remarks
}

func joinNames(names []string) string {
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = human.Name(name)
	}
	return strings.Join(shown, ", ")
}

package main

import (
	"time"

	"github.com/ration-dev/ration/quota"
)

// planned* are a plan as JSON says it.
type plannedRefusal struct {
	At      time.Time `json:"at"`
	Local   string    `json:"local"`
	Region  string    `json:"region"`
	Job     string    `json:"job"`
	Budget  *string   `json:"budget"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
}

type plannedBudget struct {
	Account    string      `json:"account"`
	Name       string      `json:"name"`
	Window     string      `json:"window"`
	Measure    string      `json:"measure"`
	Limit      quota.Units `json:"limit"`
	Peak       quota.Units `json:"peak"`
	PeakAt     *time.Time  `json:"peak_at"`
	PeakLate   quota.Units `json:"peak_late"`
	NeedLate   quota.Units `json:"need_late"`
	Refused    int         `json:"refused"`
	Unused     quota.Units `json:"unused"`
	UnusedMean quota.Units `json:"unused_mean"`
}

type plannedRegion struct {
	Region            string      `json:"region"`
	Ticks             int         `json:"ticks"`
	TicksRefused      int         `json:"ticks_refused"`
	Planned           int         `json:"planned"`
	Refused           int         `json:"refused"`
	Units             quota.Units `json:"units"`
	RefusedUnits      quota.Units `json:"refused_units"`
	FirstRefusedAt    *time.Time  `json:"first_refused_at"`
	FirstRefusedLocal *string     `json:"first_refused_local"`
}

type plannedTick struct {
	At      time.Time   `json:"at"`
	Region  string      `json:"region"`
	Calls   int         `json:"calls"`
	Units   quota.Units `json:"units"`
	Refused int         `json:"refused"`
}

type plannedChange struct {
	Region string `json:"region"`
	What   string `json:"what"`
	From   string `json:"from"`
	To     string `json:"to"`
}

type plannedSuggestion struct {
	Fits    bool            `json:"fits"`
	Reason  *string         `json:"reason"`
	Changes []plannedChange `json:"changes"`
	Calls   *int            `json:"calls"`
	Units   *quota.Units    `json:"units"`
	YAML    *string         `json:"yaml"`
}

type plannedReport struct {
	Fits            bool               `json:"fits"`
	At              time.Time          `json:"at"`
	From            time.Time          `json:"from"`
	To              time.Time          `json:"to"`
	JitterS         int64              `json:"jitter_s"`
	Ledger          *string            `json:"ledger"`
	LedgerExists    *bool              `json:"ledger_exists"`
	UnrecordedUnits quota.Units        `json:"unrecorded_units"`
	Ticks           int                `json:"ticks"`
	Calls           int                `json:"calls"`
	Units           quota.Units        `json:"units"`
	UnitsLeast      quota.Units        `json:"units_least"`
	AtWorst         []string           `json:"at_worst"`
	FirstRefused    *plannedRefusal    `json:"first_refused"`
	Starved         *string            `json:"starved"`
	Budgets         []plannedBudget    `json:"budgets"`
	Regions         []plannedRegion    `json:"regions"`
	Played          []plannedTick      `json:"played"`
	Suggestion      *plannedSuggestion `json:"suggestion"`
}

func (a *app) planJSON(p *planning) error {
	r := p.report
	out := plannedReport{Fits: r.Fits, At: p.at, From: r.From, To: r.To, JitterS: seconds(p.in.Jitter), UnrecordedUnits: p.unrecorded,
		Ticks: r.Ticks, Calls: r.Calls, Units: r.Units, UnitsLeast: r.Least, AtWorst: append([]string{}, r.AtWorst...),
		Budgets: []plannedBudget{}, Regions: []plannedRegion{}, Suggestion: p.suggested()}
	if !p.fresh {
		out.Ledger, out.LedgerExists = &p.ledger, &p.exists
	}
	if f := r.First; f != nil {
		out.FirstRefused = &plannedRefusal{f.At, f.Local.Format(time.RFC3339), f.Region, f.Step, nil, string(f.Err.Reason), f.Err.Error()}
		if f.Err.Budget != "" {
			out.FirstRefused.Budget = &f.Err.Budget
		}
		out.Starved = &r.Starved()[0].Region
	}
	for _, b := range r.Budgets {
		out.Budgets = append(out.Budgets, plannedBudget{b.Budget.Account, b.Budget.Name, b.Budget.Window.String(), b.Budget.Measure.String(),
			b.Budget.Limit, b.Peak, instant(b.PeakAt), b.PeakLate, b.Need, b.Refused, b.Unused, b.UnusedMean})
	}
	for _, region := range r.Regions {
		one := plannedRegion{region.Region, region.Ticks, region.Hit, region.Planned, region.Refused, region.Units, region.RefusedUnits, nil, nil}
		if f := region.First; f != nil {
			one.FirstRefusedAt, one.FirstRefusedLocal = &f.At, new(f.Local.Format(time.RFC3339))
		}
		out.Regions = append(out.Regions, one)
	}
	if a.verbose {
		for _, t := range r.Plays {
			out.Played = append(out.Played, plannedTick(t))
		}
	}
	return a.writeJSON(out)
}

func (p *planning) suggested() *plannedSuggestion {
	s := p.suggestion
	if s == nil {
		return nil
	}
	out := &plannedSuggestion{Fits: s.Report != nil, Changes: []plannedChange{}}
	if s.Report == nil {
		out.Reason = &s.Reason
		return out
	}
	out.Calls, out.Units, out.YAML = &s.Report.Calls, &s.Report.Units, new(s.YAML())
	for _, c := range s.Changes {
		out.Changes = append(out.Changes, plannedChange(c))
	}
	return out
}

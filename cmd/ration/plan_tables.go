package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/plan"
)

// planTables prints a plan as tables and pictures.
func (a *app) planTables(p *plan.Planner) error {
	r := p.Report
	switch {
	case p.Fresh:
		fmt.Fprint(a.stdout, "ledger  none asked: planned from an empty one (--fresh)")
	case !p.Exists:
		fmt.Fprintf(a.stdout, "ledger  %s  (none there yet: planned from an empty one)", p.Ledger)
	default:
		fmt.Fprintf(a.stdout, "ledger  %s", p.Ledger)
	}
	fmt.Fprintf(a.stdout, "\nfrom    %s\nto      %s\n\n", human.Time(r.From), human.Time(r.To))
	t := a.table("budget", "limit", "peak", "at", "late", "refused", "unused", "")
	for _, b := range r.Budgets {
		name := r.Name(&b.Budget)
		if b.Budget.Shadow {
			name += " (shadow)"
		}
		number := b.Budget.Measure.Number
		t.Row(name, number(b.Budget.Limit), number(b.Peak), a.clock(b.PeakAt), number(b.PeakLate), b.Refused,
			number(b.Unused), b.Budget.Measure)
	}
	t.Print()
	fmt.Fprintln(a.stdout)
	t = a.table("region", "ticks", "calls", "units", "refused", "first refused", "local time")
	for _, region := range r.Regions {
		at, local := "-", "-"
		if f := region.First; f != nil {
			at, local = a.clock(f.At), human.Dated(f.Local, a.now(), "Mon 01-02 15:04 MST")
		}
		t.Row(region.Region, region.Ticks, region.Planned, region.Units, region.Refused, at, local)
	}
	t.Print()
	if a.verbose {
		fmt.Fprintln(a.stdout)
		t = a.table("tick", "region", "calls", "units", "refused")
		for _, played := range r.TickResults {
			t.Row(a.clock(played.At), played.Region, played.Calls, played.Units, played.Refused)
		}
		t.Print()
	}
	if err := r.Draw(a.stdout, &plan.Picture{Width: a.width() - 1, Year: a.now().UTC().Year(),
		Highlight: a.red}); err != nil {
		return err
	}
	for _, remark := range p.Remarks() {
		a.paragraph("", "%s", remark)
	}
	a.planSuggestion(p.Suggestion)
	return nil
}

// red colours a line on a terminal that shows colours.
func (a *app) red(line string) string {
	if !a.terminal || a.getenv("NO_COLOR") != "" || a.getenv("TERM") == "dumb" {
		return line
	}
	return text.FgRed.Sprint(line)
}

// planSuggestion shows a schedule that fits, unless none was asked for.
func (a *app) planSuggestion(s *plan.Suggestion) {
	if s == nil {
		return
	}
	if s.Report == nil {
		a.paragraph("", "no schedule to suggest: %s", s.Reason)
		return
	}
	fmt.Fprintln(a.stdout)
	a.paragraph("",
		"This fits, checked by playing it; put it into regions.yaml in place of schedule, fetch and regions:")
	fmt.Fprintf(a.stdout, "\n%s\n", strings.TrimSuffix(s.YAML(), "\n"))
}

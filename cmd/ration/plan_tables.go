package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs/plan"
)

// planTables prints a plan as tables and pictures.
func (a *app) planTables(p *planning) error {
	r := p.report
	switch {
	case p.fresh:
		fmt.Fprint(a.stdout, "ledger  none asked: planned from an empty one (--fresh)")
	case !p.exists:
		fmt.Fprintf(a.stdout, "ledger  %s  (none there yet: planned from an empty one)", p.ledger)
	default:
		fmt.Fprintf(a.stdout, "ledger  %s", p.ledger)
	}
	fmt.Fprintf(a.stdout, "\nfrom    %s\nto      %s\n\n", human.Time(r.From), human.Time(r.To))
	t := a.table("budget", "limit", "peak", "at", "late", "refused", "unused", "")
	for _, b := range r.Budgets {
		name := b.Budget.Name
		if b.Budget.Shadow {
			name += " (shadow)"
		}
		t.Row(name, b.Budget.Limit, b.Peak, a.clock(b.PeakAt), b.PeakLate, b.Refused, b.Unused, b.Budget.Measure)
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
		for _, played := range r.Plays {
			t.Row(a.clock(played.At), played.Region, played.Calls, played.Units, played.Refused)
		}
		t.Print()
	}
	picture := plan.Picture{Width: a.width() - 1, Year: a.now().UTC().Year(), Highlight: a.red}
	if err := r.Draw(a.stdout, &picture); err != nil {
		return err
	}
	a.planNotes(p)
	return nil
}

// red colours a line on a terminal that shows colours.
func (a *app) red(line string) string {
	if !a.terminal || a.getenv("NO_COLOR") != "" || a.getenv("TERM") == "dumb" {
		return line
	}
	return text.FgRed.Sprint(line)
}

func joinNames(names []string) string {
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = human.Name(name)
	}
	return strings.Join(shown, ", ")
}

// planNotes says what the tables mean.
func (a *app) planNotes(p *planning) {
	r := p.report
	say := func(format string, args ...any) { a.paragraph("", format, args...) }
	if len(r.AtWorst) > 0 {
		say("planned at their worst, all pages: %s; %s, and at least %d", joinNames(r.AtWorst), human.Count(r.Units, "unit"), r.Least)
	}
	if len(r.Uncounted) > 0 {
		say("not planned, since regions.yaml does not say what they call: %s; write calls for them, such as calls: {METHOD: 40}", joinNames(r.Uncounted))
	}
	for _, region := range r.Regions {
		if region.Ticks == 0 {
			say("%s has no tick in this time", region.Region)
		}
	}
	for _, c := range p.in.State.Cooldowns {
		say("%s is in cooldown until %s", human.Name(cmp.Or(c.Budget, c.Account)), human.Time(c.Until))
	}
	if p.unrecorded > 0 {
		say("not counted: %s sent within the allowance while the ledger was down", human.Count(p.unrecorded, "unit"))
	}
	for _, b := range r.Budgets {
		if b.Budget.Shadow && b.Refused > 0 {
			say("%s is a shadow; it would refuse %s, the first at %s", human.Name(b.Budget.Name), human.Count(b.Refused, "call"), human.Time(b.First))
		}
	}
	say("%s", p.report.Verdict(p.in.Jitter))
	s := p.suggestion
	if s == nil {
		return
	}
	if s.Report == nil {
		say("no schedule to suggest: %s", s.Reason)
		return
	}
	fmt.Fprintln(a.stdout)
	say("This fits, checked by playing it; put it into regions.yaml in place of schedule, fetch and regions:")
	fmt.Fprintf(a.stdout, "\n%s\n", strings.TrimSuffix(s.YAML(), "\n"))
}

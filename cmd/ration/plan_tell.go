package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ration-dev/ration/jobs/plan"
	"github.com/ration-dev/ration/quota"
)

// planTables is a plan for people.
func (a *app) planTables(p *planning) {
	r := p.report
	switch {
	case p.fresh:
		fmt.Fprint(a.stdout, "ledger  none asked: planned from an empty one (--fresh)")
	case !p.exists:
		fmt.Fprintf(a.stdout, "ledger  %s  (none there yet: planned from an empty one)", p.ledger)
	default:
		fmt.Fprintf(a.stdout, "ledger  %s", p.ledger)
	}
	fmt.Fprintf(a.stdout, "\nfrom    %s\nto      %s\n\n", quota.Stamp(r.From), quota.Stamp(r.To))
	t := a.table("budget", "limit", "peak", "at", "late", "refused", "unused", "")
	for _, b := range r.Budgets {
		t.row(b.Budget.Name, b.Budget.Limit, b.Peak, clock(b.PeakAt), b.PeakLate, b.Refused, b.Unused, b.Budget.Measure)
	}
	t.print()
	fmt.Fprintln(a.stdout)
	t = a.table("region", "ticks", "calls", "units", "refused", "first refused", "local time")
	for _, region := range r.Regions {
		at, local := "-", "-"
		if f := region.First; f != nil {
			at, local = clock(f.At), f.Local.Format("Mon 01-02 15:04 MST")
		}
		t.row(region.Region, region.Ticks, region.Planned, region.Units, region.Refused, at, local)
	}
	t.print()
	if a.verbose {
		fmt.Fprintln(a.stdout)
		t = a.table("tick", "region", "calls", "units", "refused")
		for _, played := range r.Plays {
			t.row(clock(played.At), played.Region, played.Calls, played.Units, played.Refused)
		}
		t.print()
	}
	a.pictures(p)
	a.planNotes(p)
}

// planNotes says what the tables mean.
func (a *app) planNotes(p *planning) {
	r := p.report
	say := func(format string, args ...any) { fmt.Fprintf(a.stdout, format+"\n", args...) }
	if len(r.AtWorst) > 0 {
		var names []string
		for _, name := range r.AtWorst {
			names = append(names, safe(name))
		}
		say("planned at their worst, all pages: %s; %d units, and at least %d", strings.Join(names, ", "), r.Units, r.Least)
	}
	for _, region := range r.Regions {
		if region.Ticks == 0 {
			say("%s has no tick in this time", region.Region)
		}
	}
	for _, c := range p.in.State.Cooldowns {
		say("%s is in cooldown until %s", safe(cmp.Or(c.Budget, c.Account)), quota.Stamp(c.Until))
	}
	if p.unrecorded > 0 {
		say("%d units that were sent within the allowance while the ledger was down are not counted", p.unrecorded)
	}
	say("%s", verdict(p))
	s := p.suggestion
	if s == nil {
		return
	}
	if s.Report == nil {
		say("no schedule to suggest: %s", s.Reason)
		return
	}
	say("\nThis fits, checked by playing it; put it into regions.yaml in place of schedule, fetch and regions:\n\n%s", strings.TrimSuffix(s.YAML(), "\n"))
}

// verdict is the one line that says whether it fits.
func verdict(p *planning) string {
	r := p.report
	if r.Fits {
		return fmt.Sprintf("fits: %d ticks, %d calls, %d units; nothing is refused when each start is up to %s late", r.Ticks, r.Calls, r.Units, quota.Human(p.in.Jitter))
	}
	if f := r.First; f != nil {
		region := starved(r)
		reason, _, _ := strings.Cut(f.Err.Error(), "; more at")
		return fmt.Sprintf("does not fit: at %s (%s) %s is refused %s: %s; %s starves, with %d of %d calls refused from %s on",
			quota.Stamp(f.At), f.Local.Format("Mon 15:04 MST"), f.Region, safe(f.Step), reason, region.Region, region.Refused, region.Planned, region.First.Local.Format("Mon 15:04 MST"))
	}
	i := slices.IndexFunc(r.Budgets, func(b plan.BudgetReport) bool { return b.Over })
	b, more := r.Budgets[i], ""
	if b.Need > b.PeakLate {
		more = fmt.Sprintf(", and %d with what it keeps for other regions", b.Need)
	}
	return fmt.Sprintf("does not fit: on the dot nothing is refused, but with starts up to %s late %s may be asked for %d%s, and its limit is %d",
		quota.Human(p.in.Jitter), b.Budget.Name, b.PeakLate, more, b.Budget.Limit)
}

package inspect

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// Remarks says what holds beside the budgets, in groups of paragraphs.
func (r *Report) Remarks() (groups [][]string) {
	add := func(format string, args ...any) { groups = append(groups, []string{fmt.Sprintf(format, args...)}) }
	last := ""
	for _, b := range r.Budgets {
		text := r.cooldownRemark(b)
		if text != "" && text != last { // what holds an account is said once
			add("%s", text)
		}
		last = text
	}
	for _, b := range r.Budgets {
		if b.Outside != nil {
			add("%s; ration ledger reconcile enters what the console shows", *b.Outside)
		}
		if b.Shadow {
			add("%s", shadowText(b))
		}
		if text := Forecast(b, r.At); text != "" {
			add("%s", text)
		}
	}
	for _, b := range r.Budgets {
		if b.LimitUntil != nil {
			add("%s", stricterLimit(b.Name, b.Limit, b.ConfiguredLimit, *b.LimitUntil))
		}
	}
	for i := range r.Waiting {
		add("%s", r.Waiting[i].String())
	}
	said := map[string]bool{}
	sayAhead := func(account, log string, seconds int64) {
		if seconds > 0 && !said[account] {
			said[account] = true
			add("%s: %s", EntryAhead(log, time.Duration(seconds)*time.Second), ResolveAhead)
		}
	}
	for _, b := range r.Budgets {
		sayAhead(b.Account, human.Name(b.Account), b.Ahead)
	}
	for _, k := range r.Keyed {
		sayAhead(k.Account, "key "+human.Name(k.Key), k.Ahead)
	}
	if drift := r.drift(); drift != "" {
		add("found missing, and entered: %s", drift)
	}
	if len(r.Repairs) > 0 {
		var repairs []string
		for i := range r.Repairs {
			repairs = append(repairs, DescribeRepair(&r.Repairs[i], r.At))
		}
		groups = append(groups, repairs)
	}
	for _, text := range r.leftOver() {
		add("%s", text)
	}
	return groups
}

// leftOver says what no rule explained, and what the ledger does not have yet.
func (r *Report) leftOver() (texts []string) {
	for i := range r.Unexplained {
		texts = append(texts, fmt.Sprintf("%s; try %s", r.Unexplained[i].String(), r.Unexplained[i].Explain()))
	}
	if r.UnrecordedUnits > 0 {
		texts = append(texts, Unrecorded(r.UnrecordedUnits))
	}
	return texts
}

// EntryAhead says that the newest entry of a log is ahead of the ledger's
// clock.
func EntryAhead(log string, ahead time.Duration) string {
	return fmt.Sprintf("the newest entry of %s is stamped %s ahead of the ledger's clock, so its budgets free late",
		log, human.Duration(ahead))
}

// ResolveAhead is what to do then.
const ResolveAhead = "correct the clock; the next call then corrects the timestamps"

// Unrecorded says what was sent without the ledger, which does not have it yet.
func Unrecorded(units quota.Units) string {
	return fmt.Sprintf("%s %s sent within the allowance while the ledger was down, not yet in the ledger",
		human.Count(units, "unit"), human.Was(units))
}

// drift says what of the budgets was missing once, and how that was found.
func (r *Report) drift() string {
	var parts []string
	for _, b := range r.Budgets {
		if found := (usage.Drift{Corrected: b.Reconciled, Reported: b.Reported}).Text(b.Measure); found != "" {
			parts = append(parts, b.Name+" "+found)
		}
	}
	return strings.Join(parts, "; ")
}

// cooldownRemark says that a budget is in cooldown. It returns "" if it is not.
func (r *Report) cooldownRemark(b *usage.BudgetReport) string {
	if b.CooldownUntil == nil {
		return ""
	}
	what := b.Name
	if r.isOfAccount(b) {
		what = "account " + human.Name(b.Account)
	}
	return fmt.Sprintf("%s is in cooldown until %s (in %s): %q", what, human.Time(*b.CooldownUntil),
		human.Duration(b.CooldownUntil.Sub(r.At)), *b.CooldownReason)
}

// isOfAccount reports whether the cooldown of a budget is that of its account,
// so that all budgets have it.
func (r *Report) isOfAccount(b *usage.BudgetReport) bool {
	others := 0
	for _, other := range r.Budgets {
		if other == b || other.Account != b.Account {
			continue
		}
		if other.CooldownUntil == nil || !other.CooldownUntil.Equal(*b.CooldownUntil) ||
			*other.CooldownReason != *b.CooldownReason {
			return false
		}
		others++
	}
	return others > 0
}

// FindConfiguration is how to find another configuration, of which a ledger has
// no name.
const FindConfiguration = "the ledger does not have its name: look for that limit in the costs.yaml of each host, " +
	"user and container that uses this ledger"

// stricterLimit says that a limit of another configuration holds.
func stricterLimit(budget string, limit, own quota.Units, until time.Time) string {
	return fmt.Sprintf("the limit of %s is %d here, and another configuration has asked for %d within a day, which "+
		"holds: until %s, if it is not asked again; %s; if that one is no longer in use, run ration ledger accept",
		human.Name(budget), own, limit, human.Time(until), FindConfiguration)
}

// Forecast says when a budget runs out, or "".
func Forecast(b *usage.BudgetReport, now time.Time) string {
	when := func(t time.Time) string {
		return fmt.Sprintf("%s (in %s)", tableTime(t, now), human.Duration(t.Sub(now)))
	}
	text := ""
	if b.RunsOutAt != nil && b.RunsOutAt.After(now) {
		text = fmt.Sprintf("%s runs out at %s at the pace of the last %s, %s %s an hour", human.Name(b.Name),
			when(*b.RunsOutAt),
			human.Duration(time.Duration(*b.PaceOver)*time.Second), b.Number(quota.Units(math.Round(*b.PaceHour))),
			b.Measure)
	}
	refuses := "refuses"
	if b.Shadow {
		refuses = "would refuse"
	}
	switch {
	case b.PlanOutAt == nil:
	case text == "":
		text = fmt.Sprintf("by the schedule, %s %s its first call at %s", human.Name(b.Name), refuses,
			when(*b.PlanOutAt))
	default:
		text += fmt.Sprintf("; by the schedule it %s its first call at %s", refuses, when(*b.PlanOutAt))
	}
	return text
}

// shadowText says what a shadow would have refused.
func shadowText(b *usage.BudgetReport) string {
	text := human.Name(b.Name) + " is a shadow and refuses nothing"
	switch {
	case b.WouldRefuse == nil:
	case *b.WouldRefuse == 0:
		text += "; it would have refused no call in its window"
	default:
		text += fmt.Sprintf("; in its window it would have refused %s of %s, the last at %s",
			human.Count(*b.WouldRefuse, "call"),
			human.Count(*b.WouldRefuseUnits, "unit"), human.Time(*b.WouldRefuseAt))
	}
	return text
}

// DescribeRepair says what a restoration of the ledger changed.
func DescribeRepair(r *client.Restoration, now time.Time) string {
	why := "was back"
	if r.Lost {
		why = "had lost records"
	}
	return fmt.Sprintf("%s ago the ledger of %s %s: this host restored %s of %s", human.Duration(now.Sub(r.At)),
		human.Name(r.Account), why, human.Count(r.Records, "record"), human.Count(r.Units, "unit"))
}

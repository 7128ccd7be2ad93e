package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// Verdict says in one line whether the schedule fits, and if not, which call is
// refused first and which regions lose most. jitter is Input.Jitter.
func (r *Report) Verdict(jitter time.Duration) string {
	if r.Fits {
		return fmt.Sprintf("fits: %s, %s, %s; nothing is refused when each start is up to %s late",
			human.Count(r.Ticks, "tick"), human.Count(r.Calls, "call"), human.Count(r.Units, "unit"),
			human.Duration(jitter))
	}
	if f := r.First; f != nil {
		reason := f.Err.Error()
		if f.Err.Reason == quota.ReasonSpent {
			reason = f.Err.Short()
		}
		return fmt.Sprintf("does not fit: at %s (%s) %s is refused %s: %s; %s",
			human.Time(f.At), f.Local.Format("Mon 15:04 MST"), f.Region, human.Name(f.Step), reason, r.starving())
	}
	i := slices.IndexFunc(r.Budgets, func(b BudgetReport) bool { return b.Over && !b.Budget.Shadow })
	b, more := r.Budgets[i], ""
	if b.Need > b.PeakLate {
		more = fmt.Sprintf(", and %d with what it reserves for other regions", b.Need)
	}
	return fmt.Sprintf("does not fit: on the dot nothing is refused, but with starts up to %s late %s may be asked "+
		"for %d%s, and its limit is %d",
		human.Duration(jitter), r.Name(&b.Budget), b.PeakLate, more, b.Budget.Limit)
}

// starving says which regions lose the largest share of their calls.
func (r *Report) starving() string {
	starved := r.Starved()
	worst := starved[0]
	var names []string
	sameCalls := true
	for _, region := range starved {
		names = append(names, region.Region)
		sameCalls = sameCalls && region.Planned == worst.Planned
	}
	switch {
	case len(names) == 1:
		return fmt.Sprintf("%s starves, with %d of %s refused from %s on", worst.Region, worst.Refused,
			human.Count(worst.Planned, "call"), worst.First.Local.Format("Mon 15:04 MST"))
	case !sameCalls:
		return fmt.Sprintf("%s starve, each with %.0f %% of its calls refused", strings.Join(names, ", "),
			100*float64(worst.Refused)/float64(worst.Planned))
	case len(names) == len(r.Regions):
		return fmt.Sprintf("each of %d regions has %d of %s refused", len(names), worst.Refused,
			human.Count(worst.Planned, "call"))
	}
	return fmt.Sprintf("%s starve, each with %d of %s refused", strings.Join(names, ", "), worst.Refused,
		human.Count(worst.Planned, "call"))
}

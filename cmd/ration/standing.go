package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

// standing is one budget as status shows it.
type standing struct {
	Account        string      `json:"account"`
	Name           string      `json:"name"`
	Limit          quota.Units `json:"limit"`
	Used           quota.Units `json:"used"`
	Remaining      quota.Units `json:"remaining"`
	Window         string      `json:"window"`
	Measure        string      `json:"measure"`
	Estimate       bool        `json:"estimate"`
	Over           quota.Units `json:"estimate_error"` // of an estimate: how much more the window may really hold
	NextFreeAt     *time.Time  `json:"next_free_at"`
	NextFree       []returning `json:"next_free"`
	CooldownUntil  *time.Time  `json:"cooldown_until"`
	CooldownReason *string     `json:"cooldown_reason"`
	spenders
	Reconciled quota.Units      `json:"reconciled_units"` // of what is used, in its measure: found missing by ration ledger reconcile
	Reported   quota.Units      `json:"reported_units"`   // likewise, by the upstream's answers
	Floors     map[string]floor `json:"floors"`           // by region
	Ahead      int64            `json:"ahead_s"`          // how far the newest entry is stamped ahead of the ledger's clock, if by minutes
}

// spenders is who spent a window, as JSON says it.
type spenders struct {
	ByMethod map[string]quota.Units `json:"by_method"`
	ByRegion map[string]quota.Units `json:"by_region"`
	ByLane   map[string]quota.Units `json:"by_lane"`
	ByJob    map[string]quota.Units `json:"by_job"`
}

// newSpenders returns who spent a window; where nothing was spent its maps are
// empty instead of null.
func newSpenders(a *usage.Attribution) spenders {
	s := spenders{a.ByMethod, a.ByRegion, a.ByLane, a.ByJob}
	for _, sums := range []*map[string]quota.Units{&s.ByMethod, &s.ByRegion, &s.ByLane, &s.ByJob} {
		if *sums == nil {
			*sums = map[string]quota.Units{}
		}
	}
	return s
}

// rows calls row with each dimension in which something was spent, and at most so
// many who spent most in it.
func (s *spenders) rows(most int, row func(by, who string)) {
	for _, by := range []struct {
		what string
		sums map[string]quota.Units
	}{{"method", s.ByMethod}, {"region", s.ByRegion}, {"lane", s.ByLane}, {"job", s.ByJob}} {
		if len(by.sums) > 0 {
			row(by.what, ranked(by.sums, most))
		}
	}
}

// floor is what a budget keeps for a region.
type floor struct {
	Floor quota.Units `json:"floor"`
	Used  quota.Units `json:"used"`
	Kept  quota.Units `json:"kept"` // of the floor, not used yet
}

// returning is a time by which Units have returned, not counting those of the
// returning before it.
type returning struct {
	At    time.Time   `json:"at"`
	Units quota.Units `json:"units"`
}

func newStanding(b *usage.Standing) *standing {
	s := &standing{Account: b.Budget.Account, Name: b.Budget.Name, Limit: b.Budget.Limit, Used: b.Used, Remaining: b.Remaining,
		Window: b.Budget.Window.String(), Measure: b.Budget.Measure.String(), Estimate: b.Budget.Window.Estimate(), Over: b.Over, Ahead: human.Seconds(b.Ahead),
		NextFreeAt: human.Instant(b.NextFree), NextFree: []returning{}, spenders: newSpenders(&b.Attribution), Reconciled: b.Corrected, Reported: b.Reported, Floors: map[string]floor{}}
	for _, r := range b.Returns {
		s.NextFree = append(s.NextFree, returning{r.At, r.Units})
	}
	for region, units := range b.Budget.Floor { // as long as there is no ledger, none of it is used
		s.Floors[region] = floor{Floor: units, Kept: units}
	}
	for _, f := range b.Floors {
		s.Floors[f.Region] = floor{Floor: f.Floor, Used: f.Used, Kept: f.Kept}
	}
	if c := b.Cooldown; c != nil {
		s.CooldownUntil, s.CooldownReason = human.Instant(c.Until), &c.Reason
	}
	return s
}

// floors says what is kept for each region: IN 120 of 500 (380 kept).
func (b *standing) floors() string {
	var parts []string
	for _, region := range slices.Sorted(maps.Keys(b.Floors)) {
		f := b.Floors[region]
		parts = append(parts, fmt.Sprintf("%s %d of %d (%d kept)", human.Name(region), f.Used, f.Floor, f.Kept))
	}
	return strings.Join(parts, ", ")
}

// returns says when the next units return.
func (b *standing) returns(now time.Time) string {
	if len(b.NextFree) == 0 {
		if b.NextFreeAt == nil {
			return "-"
		}
		return fmt.Sprintf("%s (in %s)", dated(roundUp(*b.NextFreeAt).UTC(), now, tableTime), human.Duration(b.NextFreeAt.Sub(now)))
	}
	var parts []string
	for i, r := range b.NextFree {
		part := fmt.Sprintf("+%d %s", r.Units, dated(roundUp(r.At).UTC(), now, tableTime))
		if i == 0 {
			part += fmt.Sprintf(" (in %s)", human.Duration(r.At.Sub(now)))
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// roundUp returns the first whole second at or after an instant: units that are
// said to return at a second have returned then.
func roundUp(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); !whole.Equal(t) {
		return whole.Add(time.Second)
	}
	return t
}

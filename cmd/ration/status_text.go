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

// floorText says what is kept for each region: IN 120 of 500 (380 kept).
func floorText(b *usage.BudgetReport) string {
	var parts []string
	for _, region := range slices.Sorted(maps.Keys(b.Floors)) {
		f := b.Floors[region]
		parts = append(parts, fmt.Sprintf("%s %d of %d (%d kept)", human.Name(region), f.Used, f.Floor, f.Kept))
	}
	return strings.Join(parts, ", ")
}

// returnText says when the next units return.
func returnText(b *usage.BudgetReport, now time.Time) string {
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

// cooldownRemark says that a budget is in cooldown, or that its account is closed
// because it moves to another ledger. It returns "" if neither is so.
func cooldownRemark(b *usage.BudgetReport, now time.Time) string {
	if b.CooldownUntil == nil {
		return ""
	}
	move, ok := (&quota.Cooldown{Account: b.Account, Until: *b.CooldownUntil, Reason: *b.CooldownReason}).Move()
	switch {
	case !ok:
		return fmt.Sprintf("%s is in cooldown until %s (in %s): %q", b.Name, human.Time(*b.CooldownUntil), human.Duration(b.CooldownUntil.Sub(now)), *b.CooldownReason)
	case move.Arriving:
		return fmt.Sprintf("account %s is being copied to this ledger from %s: calls are refused until the copy is complete; if it was interrupted, run the same ration ledger copy again", human.Name(b.Account), human.Name(move.Ledger))
	}
	return (&quota.MovedError{Account: b.Account, Ledger: move.Ledger}).Error()
}

// stricterLimit says that a limit of another configuration holds.
func stricterLimit(budget string, limit, own quota.Units, until time.Time) string {
	return fmt.Sprintf("the limit of %s is %d here, and another configuration has asked for %d within a day, which holds: until %s, if it is not asked again; if that configuration is no longer in use, run ration ledger accept",
		human.Name(budget), own, limit, human.Time(until))
}

// roundUp returns the first whole second at or after an instant: units that are
// said to return at a second have returned then.
func roundUp(t time.Time) time.Time { return t.Add(time.Second - 1).Truncate(time.Second) }

// eachDimension calls row with each dimension in which something was spent, and
// the most names that spent most in it.
func eachDimension(s *usage.Attribution, most int, row func(by, who string)) {
	for _, by := range []struct {
		what string
		sums map[string]quota.Units
	}{{"method", s.ByMethod}, {"region", s.ByRegion}, {"lane", s.ByLane}, {"job", s.ByJob}} {
		if len(by.sums) > 0 {
			row(by.what, ranked(by.sums, most))
		}
	}
}

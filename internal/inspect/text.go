package inspect

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// Distinct returns r for people, in which a budget that has the name of one of
// another account is named with its own: hour of my-project.
func (r *Report) Distinct() *Report {
	named := *r
	named.Budgets = slices.Clone(r.Budgets)
	for i, b := range r.Budgets {
		isShared := func(other *usage.BudgetReport) bool { return other.Name == b.Name && other.Account != b.Account }
		if slices.ContainsFunc(r.Budgets, isShared) {
			one := *b
			one.Name = fmt.Sprintf("%s of %s", b.Name, human.Name(b.Account))
			named.Budgets[i] = &one
		}
	}
	return &named
}

// FloorText says what is kept for each region: IN 120 of 500 (380 kept).
func FloorText(b *usage.BudgetReport) string {
	var parts []string
	for _, region := range slices.Sorted(maps.Keys(b.Floors)) {
		f := b.Floors[region]
		parts = append(parts, fmt.Sprintf("%s %s of %s (%s kept)", human.Name(region), b.Number(f.Used),
			b.Number(f.Floor), b.Number(f.Kept)))
	}
	return strings.Join(parts, ", ")
}

// ReturnText says when the next units return, or of a budget that each key has
// for itself, how many of the keys are full.
func ReturnText(b *usage.BudgetReport, now time.Time) string {
	if b.Keys != nil {
		return fmt.Sprintf("per key, %s of %s full", human.Grouped(b.Keys.Full), human.Grouped(b.Keys.Used))
	}
	if len(b.NextFree) == 0 {
		if b.NextFreeAt == nil {
			return "-"
		}
		return fmt.Sprintf("%s (in %s)", tableTime(*b.NextFreeAt, now), human.Duration(b.NextFreeAt.Sub(now)))
	}
	var parts []string
	for i, r := range b.NextFree {
		part := fmt.Sprintf("+%s %s", b.Number(r.Units), tableTime(r.At, now))
		if i == 0 {
			part += fmt.Sprintf(" (in %s)", human.Duration(r.At.Sub(now)))
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// tableTime writes when units return.
func tableTime(at, now time.Time) string {
	return human.Dated(at.UTC(), now, human.TableTime)
}

// EachDimension calls row with each dimension in which something was spent, and
// the most names that spent most in it.
func EachDimension(s *usage.Attribution, measure string, most int, row func(by, who string)) {
	for _, by := range s.Breakdowns() {
		row(by.By, ranked(by.Sums, quota.Measure(measure), most))
	}
}

// ranked lists who spent most first: search.list 800, videos.list 32.
func ranked(sums map[string]quota.Units, m quota.Measure, most int) string {
	names, others, rest := usage.Ranked(sums, most)
	var parts []string
	for _, name := range names {
		parts = append(parts, human.Name(name)+" "+m.Number(sums[name]))
	}
	if rest > 0 {
		parts = append(parts, human.Count(others, "other")+" "+m.Number(rest))
	}
	return strings.Join(parts, ", ")
}

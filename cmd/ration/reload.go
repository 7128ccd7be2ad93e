package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
)

// servedConfig is a configuration as serve compares it with the next one: of each
// subject, such as a budget, its properties.
type servedConfig struct {
	ledger string
	key    [sha256.Size]byte
	order  []string
	of     map[string][]property
}

type property struct{ name, value string }

// set adds a property; empty ones are left out, and so is a subject that has
// no others.
func (s *servedConfig) set(subject, name string, value any) {
	text := fmt.Sprint(value)
	if text == "" || text == "[]" || text == "map[]" {
		return
	}
	if s.of[subject] == nil {
		s.order = append(s.order, subject)
	}
	s.of[subject] = append(s.of[subject], property{name, text})
}

func newServedConfig(ledger string, table *costs.Table, config *jobs.Config, key string) *servedConfig {
	s := &servedConfig{ledger: ledger, key: sha256.Sum256([]byte(key)), of: map[string][]property{}}
	several := len(accounts(table)) > 1
	for _, u := range table.Upstreams() {
		in := ""
		if several {
			in = " of " + human.Name(u.Account)
		}
		s.addUpstream(&u, in)
		for i := range u.Budgets {
			s.addBudget(&u.Budgets[i], in)
		}
	}
	s.set("regions.yaml", "max_wait", config.MaxWait)
	s.set("regions.yaml", "max_total_wait", config.MaxTotalWait)
	for _, region := range config.Regions {
		s.set("region "+region.Name, "schedule", region.Schedule)
		s.set("region "+region.Name, "timezone", region.Schedule.Zone())
		var steps []string
		for _, step := range region.Steps {
			steps = append(steps, fmt.Sprintf("%s %d", human.Name(step.Name()), step.Pages))
		}
		s.set("region "+region.Name, "fetch", strings.Join(steps, ", "))
	}
	return s
}

func (s *servedConfig) addUpstream(u *costs.Upstream, in string) {
	subject := "upstream " + human.Name(u.Name)
	s.set(subject, "account", u.Account)
	s.set(subject, "api", u.API)
	s.set(subject, "hosts", strings.Join(u.Hosts, " "))
	s.set(subject, "domains", strings.Join(u.Domains, " "))
	s.set(subject, "unguarded", strings.Join(u.Unguarded, " "))
	s.set(subject, "feedback", u.Feedback)
	s.set(subject, "unlisted", u.Unlisted)
	s.set(subject, "reset_margin", u.ResetMargin)
	if u.History > 0 {
		s.set(subject, "history", u.History)
	}
	if u.Resets != nil {
		s.set(subject, "resets", u.ResetWindow)
	}
	if u.NotModifiedUnits != nil {
		s.set(subject, "not_modified_units", *u.NotModifiedUnits)
	}
	if u.Preset != nil {
		s.set(subject, "preset", u.Preset.Name+" "+u.Variant)
	}
	for _, route := range u.Routes {
		s.set("route "+human.Name(route.Pattern)+in, "method", route.Method)
	}
	for _, cost := range u.Costs {
		s.set("cost of "+human.Name(cost.Method)+in, "units", cost.Units)
	}
	for i := range u.Batches {
		s.set("batches of "+human.Name(u.Batches[i].Method)+in, "calls", u.Batches[i].String())
	}
	var rules []string
	for i := range u.Down {
		rules = append(rules, u.Down[i].String())
	}
	s.set("when_ledger_down"+in, "rules", human.Name(strings.Join(rules, "; ")))
}

func (s *servedConfig) addBudget(b *quota.Budget, in string) {
	subject := "budget " + human.Name(b.Name) + in
	s.set(subject, "limit", b.Limit)
	s.set(subject, "window", b.Window)
	s.set(subject, "count", b.Measure)
	s.set(subject, "methods", b.Methods)
	s.set(subject, "except", b.Except)
	s.set(subject, "lanes", b.Lanes)
	s.set(subject, "regions", b.Regions)
	var floors []string
	for _, region := range slices.Sorted(maps.Keys(b.Floor)) {
		floors = append(floors, fmt.Sprintf("%s %d", human.Name(region), b.Floor[region]))
	}
	s.set(subject, "floor", strings.Join(floors, ", "))
	if b.FloorUntil > 0 {
		s.set(subject, "floor_until", b.FloorUntil.String())
	}
}

// changes says what is different in later settings, one line each.
func (s *servedConfig) changes(later *servedConfig) (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, subject := range s.order {
		if later.of[subject] == nil {
			say("%s: removed", subject)
		}
	}
	for _, subject := range later.order {
		before, after := s.of[subject], later.of[subject]
		if before == nil {
			var parts []string
			for _, p := range after {
				parts = append(parts, p.name+" "+p.value)
			}
			say("%s: added, %s", subject, strings.Join(parts, ", "))
			continue
		}
		names := map[string][2]string{}
		var order []string
		for i, side := range [][]property{before, after} {
			for _, p := range side {
				values, known := names[p.name]
				if !known {
					order = append(order, p.name)
				}
				values[i] = p.value
				names[p.name] = values
			}
		}
		for _, name := range order {
			if values := names[name]; values[0] != values[1] {
				say("%s: %s %s -> %s", subject, name, cmp.Or(values[0], "none"), cmp.Or(values[1], "none"))
			}
		}
	}
	if s.key != later.key {
		say("key: changed")
	}
	return lines
}

// movedError says that a reload would move serve to another ledger.
type movedError struct{ from, to string }

func (e *movedError) Error() string {
	return fmt.Sprintf("the files name another ledger, %s instead of %s, whose budgets do not know what was spent; restart serve to move there, or name the old one again", e.to, e.from)
}

package costs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// override is an entry of budgets that overrides a preset's budget of its name.
type override struct {
	*document
	at        strictyaml.Node
	inherited quota.Budget
	had       map[string]strictyaml.Node // the preset's keys
	own       map[string]bool            // the entry's keys
	now       *quota.Budget              // the result
}

// checkOverride reports an entry whose keys change what an inherited key means.
// The meaning of a limit depends on what is counted, over which window and of
// which calls.
func (d *document) checkOverride(at strictyaml.Node, e *budgetEntry, inherited quota.Budget,
	had map[string]strictyaml.Node) {
	o := &override{document: d, at: at, inherited: inherited,
		had: had, own: map[string]bool{}, now: &e.budget}
	for key := range e.at.keys {
		o.own[key] = at.Has(key)
	}
	o.own["window"] = o.own["window"] || o.own["in_flight"]
	if o.checkCount() {
		o.checkLimit()
		o.checkWhole()
	}
}

// checkCount reports an amount of calls that would be one of units without
// the preset.
func (o *override) checkCount() bool {
	isInFlight := o.now.Window.Kind() == engine.InFlight // which counts calls by itself
	counts := o.inherited.Measure
	if o.own["count"] || counts == quota.ByUnits || isInFlight {
		return true
	}
	for _, key := range []string{"limit", "floor"} {
		if o.own[key] {
			o.mistake("%s %s counts units as it is written, and %s with count: %[3]s of %[4]s: write count: %[3]s "+
				"or count: units beside it",
				key, o.formatKey(o.now, key), counts, o.describeSource())
			return false
		}
	}
	return true
}

// checkLimit reports a key that changes the meaning of the inherited limit.
func (o *override) checkLimit() {
	if o.own["limit"] || o.inherited.Limit == 0 {
		return
	}
	for _, key := range []string{"count", "window", "methods", "except", "lanes", "regions", "per"} {
		if o.own[key] && o.changesMeaning(key) {
			o.mistake("%s %s over the limit %s of %s, which is for %s: write the limit as well",
				key, o.formatKey(o.now, key), o.formatKey(&o.inherited, "limit"), o.describeSource(),
				o.formatInherited(key))
			return
		}
	}
}

// formatInherited names what the inherited limit is a limit of.
func (o *override) formatInherited(key string) string {
	switch {
	case key == "count", o.isInherited(key):
		return key + " " + o.formatKey(&o.inherited, key)
	case key == "except":
		return "calls without except"
	}
	return "all " + key
}

// checkWhole reports an entry that would be a complete budget by itself, but
// with another coverage or other floors.
func (o *override) checkWhole() {
	if !o.own["limit"] || !o.own["window"] {
		return
	}
	for _, key := range []string{"methods", "except", "lanes", "regions", "per", "keys", "floor", "floor_until"} {
		if !o.own[key] && o.isInherited(key) {
			o.mistake("limit and window make budget %q a whole one, and %s has %s %s beside them: write %s as well, "+
				"or another name for a budget of your own",
				o.now.Name, o.describeSource(), key, o.formatKey(&o.inherited, key), key)
			return
		}
	}
}

func (o *override) mistake(format string, args ...any) { o.at.Mistake(format, args...) }

// describeSource names the inherited budget.
func (o *override) describeSource() string {
	return fmt.Sprintf("preset %s, budget %q", o.Preset.Name, o.now.Name)
}

// isInherited reports whether the preset has a key.
func (o *override) isInherited(key string) bool {
	_, ok := o.had[key]
	if key == "window" && !ok {
		_, ok = o.had["in_flight"]
	}
	return ok
}

// changesMeaning reports whether a key has another value than the preset's, of
// a kind that matters to the limit. Another zone or time of day begins the same
// window elsewhere.
func (o *override) changesMeaning(key string) bool {
	a, b := o.inherited, o.now
	switch key {
	case "count":
		return a.Measure != b.Measure
	case "per":
		return a.PerKey != b.PerKey
	case "window":
		isGiven := b.Window.Kind() != 0
		return o.isInherited(key) && isGiven && !a.Window.IsLike(b.Window)
	}
	before, after := slices.Sorted(slices.Values(narrowingWords(&a, key))),
		slices.Sorted(slices.Values(narrowingWords(b, key)))
	return !slices.Equal(before, after)
}

// narrowingWords returns the words of a key that narrows a budget.
func narrowingWords(b *quota.Budget, key string) []string {
	switch key {
	case "methods":
		return b.Methods
	case "except":
		return b.Except
	case "lanes":
		return b.Lanes
	}
	return b.Regions
}

// formatKey returns the value of a budget's key as messages show it.
func (o *override) formatKey(b *quota.Budget, key string) string {
	switch key {
	case "limit":
		return b.Measure.Number(b.Limit)
	case "count":
		return b.Measure.String()
	case "window":
		return b.Window.String()
	case "floor":
		return fmt.Sprint(b.Floor)[len("map"):]
	case "floor_until":
		return human.Duration(b.FloorUntil)
	case "per":
		return "key"
	case "keys":
		return fmt.Sprint(b.Keys)[len("map"):]
	}
	return "[" + strings.Join(narrowingWords(b, key), ", ") + "]"
}

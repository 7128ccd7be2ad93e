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
	strictyaml.Node              // the entry
	inherited       *budgetEntry // the preset's
	now             *budgetEntry // the result
}

// check reports an entry whose keys change what an inherited key means. The
// meaning of a limit depends on what is counted, over which window and of which
// calls.
func (o *override) check() {
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
	if o.owns("count") || counts == quota.ByUnits || isInFlight {
		return true
	}
	for _, key := range []string{"limit", "floor"} {
		if o.owns(key) {
			o.Mistake("%s %s counts units as it is written, and %s with count: %[3]s of %[4]s: write count: %[3]s "+
				"or count: units beside it",
				key, o.formatKey(&o.now.Budget, key), counts, o.describeSource())
			return false
		}
	}
	return true
}

// checkLimit reports a key that changes the meaning of the inherited limit.
func (o *override) checkLimit() {
	if o.owns("limit") || o.inherited.Limit == 0 {
		return
	}
	for _, key := range []string{"count", "window", "methods", "except", "lanes", "regions", "per"} {
		if o.owns(key) && o.changesMeaning(key) {
			o.Mistake("%s %s over the limit %s of %s, which is for %s: write the limit as well",
				key, o.formatKey(&o.now.Budget, key), o.formatKey(&o.inherited.Budget, "limit"), o.describeSource(),
				o.formatInherited(key))
			return
		}
	}
}

// formatInherited names what the inherited limit is a limit of.
func (o *override) formatInherited(key string) string {
	switch {
	case key == "count", o.isInherited(key):
		return key + " " + o.formatKey(&o.inherited.Budget, key)
	case key == "except":
		return "calls without except"
	}
	return "all " + key
}

// checkWhole reports an entry that would be a complete budget by itself, but
// with another coverage or other floors.
func (o *override) checkWhole() {
	if !o.owns("limit") || !o.owns("window") {
		return
	}
	for _, key := range []string{"methods", "except", "lanes", "regions", "per", "keys", "floor", "floor_until"} {
		if !o.owns(key) && o.isInherited(key) {
			o.Mistake("limit and window make budget %q a whole one, and %s has %s %s beside them: write %s as well, "+
				"or another name for a budget of your own",
				o.now.Name, o.describeSource(), key, o.formatKey(&o.inherited.Budget, key), key)
			return
		}
	}
}

// owns reports whether the entry has a key.
func (o *override) owns(key string) bool { return o.Has(key) || key == "window" && o.Has("in_flight") }

// describeSource names the inherited budget.
func (o *override) describeSource() string {
	return fmt.Sprintf("preset %s, budget %q", o.Preset.Name, o.now.Name)
}

// isInherited reports whether the preset has a key.
func (o *override) isInherited(key string) bool {
	_, ok := o.inherited.keys[key]
	_, isInFlight := o.inherited.keys["in_flight"]
	return ok || key == "window" && isInFlight
}

// changesMeaning reports whether a key has another value than the preset's, of
// a kind that matters to the limit. Another zone or time of day begins the same
// window elsewhere.
func (o *override) changesMeaning(key string) bool {
	a, b := &o.inherited.Budget, &o.now.Budget
	switch key {
	case "count":
		return a.Measure != b.Measure
	case "per":
		return a.PerKey != b.PerKey
	case "window":
		isGiven := b.Window.Kind() != 0
		return o.isInherited(key) && isGiven && !a.Window.IsLike(b.Window)
	}
	before, after := slices.Sorted(slices.Values(narrowingWords(a, key))),
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

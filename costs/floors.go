package costs

import (
	"slices"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// readFloor reads {IN: 500}: the units of a budget that are reserved
// for regions.
func (d *document) readFloor(n strictyaml.Node, e *budgetEntry) {
	e.Floor, e.floors = map[string]quota.Units{}, map[string]strictyaml.Node{}
	n.Entries(func(key, value strictyaml.Node) {
		name := d.readRegion(key)
		units := readAmount(value, e.Measure, 1, quota.MaxLimit)
		if name != "" && units > 0 {
			e.Floor[name], e.floors[name] = units, key
		}
	})
	if n.IsEmpty() {
		n.Mistake("no floor: write one, such as {IN: 500}, or remove the key")
	}
}

// finishBudgets checks what needs the whole of a budget.
func (d *document) finishBudgets() {
	for _, b := range d.budgets {
		b.Account = d.Account
		if d.preset {
			d.checkComplete(b)
		}
		b.checkFloors()
		if b.Window.Kind() == engine.Bucket && b.Limit > 0 && !b.Window.Refills(b.Limit) {
			b.at.Mistake("bucket %q of %d refills by %s: let it refill within 100 days", b.Name, b.Limit,
				b.Window.Rate())
		}
		d.Budgets = append(d.Budgets, b.Budget)
	}
}

// checkComplete reports keys of a budget that the preset leaves to the user. A
// window that comes with the variant of the limit is not reported beside it.
func (d *document) checkComplete(b *budgetEntry) {
	for _, key := range []string{"limit", "window"} {
		ask := d.findAsk("budgets." + b.Name + "." + key)
		if _, ok := b.keys[key]; !ok && ask != "" {
			b.at.Mistake("preset %s does not know the %s of budget %q: write %s", d.Preset.Name, key, b.Name, ask)
			if slices.Contains(d.Preset.windows, b.Name) {
				return
			}
		}
	}
}

func (b *budgetEntry) checkFloors() {
	sum := quota.Units(0)
	for name, units := range b.Floor {
		sum += units
		if len(b.Regions) > 0 && !slices.Contains(b.Regions, name) {
			b.floors[name].Mistake("a floor for %s, which budget %q does not cover: remove it, or add %s to regions",
				name, b.Name, name)
		}
	}
	isKnown := b.Window.Kind() != 0
	switch {
	case len(b.Floor) == 0:
	case isKnown && !b.Window.CountsSince():
		b.keys["floor"].Mistake("a floor in window %s: write a window such as 24h or {day: America/Los_Angeles}, "+
			"or remove the floor", b.Window)
	case b.Limit > 0 && sum > b.Limit:
		b.keys["floor"].Mistake("floors of %s together, more than the limit %s: lower them or raise the limit",
			b.Measure.Number(sum), b.Measure.Number(b.Limit))
	}
	until := b.keys["floor_until"]
	switch {
	case b.FloorUntil == 0:
	case len(b.Floor) == 0 && b.keys["floor"] == (strictyaml.Node{}):
		until.Mistake("floor_until without a floor: write floor: {IN: 500}, or remove it")
	case b.Window.Kind() != engine.Calendar && isKnown:
		until.Mistake("floor_until on window %s, which has no end: write window: {day: America/Los_Angeles}, or "+
			"remove it", b.Window)
	case isKnown && b.FloorUntil >= b.Window.Shortest():
		until.Mistake("floor_until is %s, nearly the whole window: write less than %s", human.Duration(b.FloorUntil),
			human.Duration(b.Window.Shortest()))
	}
}

// reservedForOthers returns the least that the floors of b reserve for other
// regions, whichever region calls.
func reservedForOthers(b *quota.Budget) quota.Units {
	sum, most := quota.Units(0), quota.Units(0)
	for _, units := range b.Floor {
		sum, most = sum+units, max(most, units)
	}
	if b.FloorUntil > 0 || sum > b.Limit {
		return 0
	}
	return sum - most
}

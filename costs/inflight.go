package costs

import (
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// defaultLease is how long a call of a budget in flight counts at most, and one
// whose cost is an estimate, unless a lease says otherwise.
const defaultLease = 2 * time.Minute

func readLease(n strictyaml.Node) time.Duration { return n.Duration(time.Second, 24*time.Hour) }

// finishWindow sets the window of a budget of calls in flight, and reports a
// missing one if the budget needs one.
func (b *budgetEntry) finishWindow(n strictyaml.Node, isNeeded bool) {
	w := &b.Window
	hasWindow := n.Has("window")
	isGiven := hasWindow || n.Has("in_flight")
	isMissing := isNeeded && !isGiven && n.Kind() == strictyaml.Map
	switch {
	case n.Has("in_flight") && hasWindow:
		b.keys["in_flight"].Mistake("in_flight beside a window: remove one, or write two budgets")
	case b.isInFlight && w.Kind() != engine.InFlight:
		*w = quota.InFlight(defaultLease)
	case isMissing:
		n.Mistake("missing key \"window\": write window: 24h, {day: America/Los_Angeles}, {bucket: {restore: " +
			"50/s}}, or in_flight: true")
	}
	if b.lease > 0 && w.Kind() == engine.InFlight {
		*w = quota.InFlight(b.lease)
	} else if b.lease > 0 && w.Kind() != 0 {
		b.keys["lease"].Mistake("lease is for budgets of calls in flight: write in_flight: true in place of the " +
			"window, or remove it")
	}
	if _, counts := b.keys["count"]; w.Kind() == engine.InFlight && !counts {
		b.Measure = quota.Calls
	}
}

package costs

import (
	"maps"
	"slices"

	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// MaxPriority is the highest priority of a lane; 0 is the lowest, and that of
// lanes without one.
const MaxPriority = 100

// readLanes reads {cron: {priority: 2}, backfill: {pace: true}}: what is said
// of lanes.
func (d *document) readLanes(n strictyaml.Node) {
	d.Priorities, d.Paced = map[string]int{}, map[string]bool{}
	n.Entries(func(key, value strictyaml.Node) {
		priority, pace := 0, false
		value.Fields(
			strictyaml.Field{Key: "priority", Read: func(n strictyaml.Node) { priority = int(n.Int(0, MaxPriority)) }},
			strictyaml.Field{Key: "pace", Read: func(n strictyaml.Node) { pace = n.Bool() }},
		)
		if value.Kind() == strictyaml.Map && !value.Has("priority") && !value.Has("pace") {
			value.Mistake("nothing is said of the lane: write priority: 1 or pace: true")
		}
		if lane := key.Text(quota.MaxLabel); lane != "" {
			d.Priorities[lane], d.Paced[lane] = priority, pace
			d.setOrigin(key, "lanes", lane)
		}
	})
	if n.IsEmpty() {
		n.Mistake("no lane: write one, such as {cron: {priority: 1}}, or remove the key")
	}
}

// Paced returns which lanes of which accounts are spread over what is left of
// the windows, for quota.Options; nil if none is.
func (t *Table) Paced() func(account, lane string) bool {
	paced := map[[2]string]bool{}
	for _, u := range t.upstreams {
		for lane, isPaced := range u.Paced {
			if isPaced {
				paced[[2]string{u.Account, lane}] = true
			}
		}
	}
	if len(paced) == 0 {
		return nil
	}
	return func(account, lane string) bool { return paced[[2]string{account, lane}] }
}

// Priority returns the priority of an account's lane: of calls that wait, those
// of a higher one come first. If several documents of the account give it one,
// the highest counts.
func (t *Table) Priority(account, lane string) (priority int) {
	for _, u := range t.upstreamsOf(account) {
		priority = max(priority, u.Priorities[lane])
	}
	return priority
}

// Lanes returns the lanes that command ration itself uses.
func Lanes() []string { return []string{quota.LaneCron, quota.LaneBackfill, quota.LaneManual} }

// Lanes returns the lanes that calls may have: those of Lanes, and others that
// budgets and lanes name.
func (t *Table) Lanes() []string {
	names := Lanes()
	add := func(lane string) {
		if !slices.Contains(names, lane) {
			names = append(names, lane)
		}
	}
	for _, b := range t.Budgets() {
		for _, lane := range b.Lanes {
			add(lane)
		}
	}
	for _, u := range t.upstreams {
		for _, lane := range slices.Sorted(maps.Keys(u.Priorities)) {
			add(lane)
		}
	}
	return names
}

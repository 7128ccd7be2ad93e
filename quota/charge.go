package quota

import (
	"maps"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// charge is a budget as the calls of a region are charged to it: beside the
// floors of all regions but that one.
type charge struct {
	*Budget
	index    int // in Guard.budgets
	coverage *engine.Coverage
	floors   []floor
	engine   *engine.Budget // the engine knows a budget by its address
}

// floor reserves a part of a limit for the calls of a coverage, which is part
// of the charge's.
type floor struct {
	coverage *engine.Coverage
	units    Units
	engine   *engine.Budget // a query for what is used of it
}

// newCharge returns the charge of b for calls of a region, without that
// region's own floor.
func (b *Budget) newCharge(index int, region string, coverage *engine.Coverage) *charge {
	c := &charge{Budget: b, index: index, coverage: coverage}
	c.engine = &engine.Budget{Name: b.Name, Coverage: *coverage, Limit: int64(b.Limit),
		Window: b.Window.is, HasFloors: len(b.Floor) > 0, Config: b.Config.Name, Changed: microsOf(b.Config.Changed)}
	if b.Config.Name != "" {
		c.engine.Identity = c.identity()
	}
	for key, limit := range b.Keys {
		if c.engine.Keys == nil {
			c.engine.Keys = make(map[string]int64, len(b.Keys))
		}
		c.engine.Keys[key] = int64(limit)
	}
	for _, other := range slices.Sorted(maps.Keys(b.Floor)) {
		if other == region {
			continue
		}
		f := floor{coverage: b.Coverage(), units: b.Floor[other]}
		f.coverage.Regions = []string{other}
		f.engine = &engine.Budget{Name: b.Name, Coverage: *f.coverage, Limit: int64(b.Limit), Window: b.Window.is}
		c.floors = append(c.floors, f)
		c.engine.Floors = append(c.engine.Floors, engine.Floor{Coverage: *f.coverage, Units: int64(f.units)})
		c.engine.FloorUntil = b.FloorUntil.Microseconds()
	}
	return c
}

// keyOf returns a call's key if the charge limits each key for itself.
func (c *charge) keyOf(key string) string {
	if c.PerKey {
		return key
	}
	return ""
}

// always returns the part of the limit that calls outside the floors can never
// use: units of a floor are either reserved or used.
func (c *charge) always() (kept Units) {
	if c.FloorUntil == 0 {
		for _, floor := range c.floors {
			kept += floor.units
		}
	}
	return kept
}

// ledgerTime returns a time of the engine, or the zero time for 0.
func ledgerTime(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// microsOf is the inverse of ledgerTime.
func microsOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// micros returns a length of time of the engine.
func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

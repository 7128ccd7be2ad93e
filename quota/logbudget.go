package quota

import (
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// engineBudgets returns charges as the engine sees them.
func engineBudgets(charges []*Charge) []*engine.Budget {
	budgets := make([]*engine.Budget, len(charges))
	for i, charge := range charges {
		charge.once.Do(func() { charge.budget = charge.engineBudget() }) // the engine knows a budget by its address
		budgets[i] = charge.budget
	}
	return budgets
}

// engineBudget returns the charge as the engine sees it.
func (c *Charge) engineBudget() *engine.Budget {
	b := &engine.Budget{
		Name: c.Budget, Coverage: c.Coverage.engineCoverage(), Limit: int64(c.Limit), Window: c.Window.is,
		HasFloors: c.hasFloors || len(c.Floors) > 0, FloorUntil: c.FloorUntil.Microseconds(), Config: c.Config.Name,
		Changed: microsOf(c.Config.Changed),
	}
	if c.Config.Name != "" {
		b.Identity = c.Identity()
	}
	for key, limit := range c.Keys {
		if b.Keys == nil {
			b.Keys = make(map[string]int64, len(c.Keys))
		}
		b.Keys[key] = int64(limit)
	}
	for _, floor := range c.Floors {
		b.Floors = append(b.Floors, engine.Floor{Coverage: floor.Coverage.engineCoverage(), Units: int64(floor.Units)})
	}
	return b
}

// engineCoverage returns the coverage as the engine sees it.
func (c *Coverage) engineCoverage() engine.Coverage {
	return engine.Coverage{Methods: c.Methods, Except: c.Except, Lanes: c.Lanes, Regions: c.Regions, ByKey: c.PerKey,
		Measure: string(c.Measure)}
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

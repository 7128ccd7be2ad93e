package quota

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
)

// Budget is a limit on the calls of one account over a window. It covers all
// calls of the account, or those that Methods, Except, Lanes and Regions
// select. A call is charged to every budget that covers it, or to none of them.
//
// Budgets are plain values. Limits and windows are not stored in the ledger, so
// a change applies at once to what is already recorded.
type Budget struct {
	Account string
	Name    string // unique within the account
	Limit   Units  // the most that Window may hold, 1 to MaxLimit
	Window  Window
	Measure Measure // what Limit counts: units, calls or a named measure

	Methods []string // methods covered; empty means all
	Except  []string // methods not covered
	Lanes   []string // lanes covered; empty means all
	Regions []string // regions covered; empty means all

	// PerKey gives each Call.Key the limit: the budget counts the calls of one
	// key, such as those of a tenant. Calls without a key have it together.
	PerKey bool
	// Keys are the limits of keys that have another one than Limit. They need
	// PerKey, and no Floor; there may be MaxKeyLimits of them.
	Keys map[string]Units

	// Shadow makes a budget that refuses nothing and is charged nothing, to try
	// it out. Its balance is that of any other budget. The ledger keeps entries
	// for twice its window, so that plan.Replay can say what it would have
	// refused in one.
	Shadow bool

	Config Config // where the budget is configured, as costs.Load sets it

	// Floor reserves a part of Limit for each region, in the budget's measure.
	// A call is admitted only if it leaves every other region the unused part
	// of its floor. The floors add up to at most Limit.
	Floor map[string]Units
	// FloorUntil ends the floors of a calendar window this long before the
	// window ends; from then on, any region may use what is left. 0 keeps the
	// floors until the end. A call that is too large to fit beside the floors
	// waits until they end.
	FloorUntil time.Duration
}

// Coverage returns which calls b covers, for the other packages of this module.
func (b *Budget) Coverage() *engine.Coverage {
	return &engine.Coverage{Measure: string(b.Measure), Methods: b.Methods, Except: b.Except, Lanes: b.Lanes,
		Regions: b.Regions, ByKey: b.PerKey}
}

// narrowsCallers reports whether b covers the calls of some callers only.
func (b *Budget) narrowsCallers() bool { return len(b.Lanes) > 0 || len(b.Regions) > 0 }

// CoverageAmong returns the coverage of b in a Guard of budgets. It is
// Coverage, adjusted for notes about external usage (see Verdict.LeftOf). A
// note about one budget counts for another budget of the account only if that
// one covers every call the note may stand for and its window is more than half
// as long. Otherwise a day's external usage would exhaust a budget per minute.
func (b *Budget) CoverageAmong(budgets []Budget) *engine.Coverage {
	c := b.Coverage()
	if b.narrowsCallers() {
		return c
	}
	for i := range budgets {
		noted := &budgets[i]
		sameKind := noted.Account == b.Account && noted.Measure == b.Measure
		if !sameKind || noted.narrowsCallers() {
			continue
		}
		isOfKeys := b.PerKey && !noted.PerKey // which a note without a key does not count in
		isAsLong := 2*b.Horizon() > noted.Horizon() && !isOfKeys
		counts := b.Name == noted.Name || isAsLong && b.coversAllOf(noted)
		switch {
		case counts && len(b.Methods) > 0:
			c.Methods = append(slices.Clip(c.Methods), externalMethod(noted.Name))
		case !counts && len(b.Methods) == 0:
			c.Except = append(slices.Clip(c.Except), externalMethod(noted.Name))
		}
	}
	return c
}

// coversAllOf reports whether b covers every call that other covers. Neither is
// limited to some lanes or regions.
func (b *Budget) coversAllOf(other *Budget) bool {
	for _, method := range b.Except {
		listed := len(other.Methods) == 0 || slices.Contains(other.Methods, method)
		if listed && !slices.Contains(other.Except, method) {
			return false
		}
	}
	if len(b.Methods) == 0 {
		return true
	}
	for _, method := range other.Methods {
		if !slices.Contains(b.Methods, method) && !slices.Contains(other.Except, method) {
			return false
		}
	}
	return len(other.Methods) > 0
}

func (b *Budget) check() error {
	var errs []error
	complain := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("budget %q: %w", b.Name, fmt.Errorf(format, args...)))
	}
	if b.Account == "" {
		complain("no account; name the upstream project that owns the quota")
	}
	if b.Name == "" {
		complain("no name; give it one that is unique in its account")
	}
	if len(b.Account) > maxName || len(b.Name) > maxName {
		complain("a name of more than %d bytes; shorten it", maxName)
	}
	if b.Limit < 1 || b.Limit > MaxLimit {
		complain("a limit of %d; set it to 1 to %d", b.Limit, MaxLimit)
	}
	if len(b.Measure) > MaxLabel || b.Measure == "units" {
		complain("a measure of more than %d bytes, or \"units\", which is quota.ByUnits", MaxLabel)
	}
	for _, list := range [][]string{b.Methods, b.Except, b.Lanes, b.Regions} {
		if slices.Contains(list, "") {
			complain("an empty word in Methods, Except, Lanes or Regions; remove it")
			break
		}
	}
	b.checkKeys(complain)
	if err := b.Window.check(); err != nil {
		complain("%w", err)
	} else if b.Window.Kind() == engine.Bucket && !b.Window.Refills(b.Limit) {
		complain("a bucket of %d that refills by %s; let it refill within 100 days", b.Limit, b.Window.Rate())
	} else {
		b.checkFloor(complain)
	}
	return errors.Join(errs...)
}

func (b *Budget) checkKeys(complain func(format string, args ...any)) {
	if len(b.Keys) == 0 {
		return
	}
	if mayHave := b.PerKey && len(b.Floor) == 0; !mayHave || len(b.Keys) > MaxKeyLimits {
		complain("limits of %d keys; they need PerKey and no Floor, and %d at most", len(b.Keys), MaxKeyLimits)
	}
	for _, key := range slices.Sorted(maps.Keys(b.Keys)) {
		limit := b.Keys[key]
		if isKey := key != "" && engine.CheckKey(key) == nil; !isKey || limit < 1 || limit > MaxLimit {
			complain("a limit of %d for key %.40q; give 1 to %d for a key of 1 to %d bytes", limit, key, MaxLimit,
				MaxKey)
		}
	}
}

// LimitOf returns the limit for calls with a key.
func (b *Budget) LimitOf(key string) Units { return limitOf(b.Keys, key, b.Limit) }

func limitOf(keys map[string]Units, key string, limit Units) Units {
	if own, ok := keys[key]; ok {
		return own
	}
	return limit
}

// highest returns the highest of a budget's limits.
func highest(keys map[string]Units, limit Units) Units {
	for _, own := range keys {
		limit = max(limit, own)
	}
	return limit
}

func (b *Budget) checkFloor(complain func(format string, args ...any)) {
	sum := Units(0)
	for _, region := range slices.Sorted(maps.Keys(b.Floor)) {
		units := b.Floor[region]
		if region == "" {
			complain("a floor without a region; name one")
		}
		if len(b.Regions) > 0 && !slices.Contains(b.Regions, region) {
			complain("a floor for %q, which the budget does not cover; remove it", region)
		}
		if units < 1 || units > MaxLimit {
			complain("a floor of %d for %q; set it to 1 to the limit", units, region)
			return
		}
		sum += units
	}
	hasDailyFloors := len(b.Floor) > 0 && b.Window.Kind() == engine.Calendar
	switch {
	case len(b.Floor) > 0 && !b.Window.CountsSince():
		complain("floors in window %s; floors need a sliding or calendar window", b.Window)
	case sum > max(b.Limit, 0):
		complain("floors of %d together, above the limit of %d; lower them", sum, b.Limit)
	case b.FloorUntil < 0 || b.FloorUntil > 0 && !hasDailyFloors:
		complain("floors that end %s before the window does; FloorUntil needs floors and a calendar window",
			human.Exactly(b.FloorUntil))
	case b.FloorUntil > 0 && (b.FloorUntil >= b.Window.Shortest() || b.FloorUntil%time.Microsecond != 0):
		complain("floors that end %s before the window does; set FloorUntil to less than %s, in whole microseconds",
			human.Exactly(b.FloorUntil), human.Exactly(b.Window.Shortest()))
	}
}

// maxName is the most bytes in the name of an account or budget.
const maxName = 256

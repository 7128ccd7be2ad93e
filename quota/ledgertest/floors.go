package ledgertest

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// runFloors tests the contract for floors and for entries that are not calls.
func runFloors(t *testing.T, open Factory) {
	runAll(t, open, []subtest{
		{"NoCall", noCall},
		{"FloorIsKept", floorIsKept},
		{"FloorNeverFits", floorNeverFits},
		{"FloorRetryAt", floorRetryAt},
		{"FloorInsideABatch", floorInsideABatch},
		{"FloorOfCalls", floorOfCalls},
		{"FloorSettled", floorSettled},
		{"FloorFirstSeenLater", floorFirstSeenLater},
		{"FloorDaily", floorDaily},
		{"FloorMonthly", floorMonthly},
		{"FloorUntil", floorUntil},
		{"FloorUntilInTheMargin", floorUntilInTheMargin},
		{"FloorUntilBesideOthers", floorUntilBesideOthers},
		{"FloorAndCooldown", floorAndCooldown},
		{"ConcurrentFloors", concurrentFloors},
	})
	t.Run("FloorsAgainstAModel", func(t *testing.T) { againstModel(t, open, withFloors) })
}

// floors are the floors of a budget by region.
type floors map[string]quota.Units

// of returns c with the floors that apply to calls of a region.
func (f floors) of(region string, c *quota.Charge) *quota.Charge {
	keeps := *c
	for _, other := range slices.Sorted(maps.Keys(f)) {
		if other != region {
			coverage := *c.Coverage
			coverage.Regions = []string{other}
			keeps.Floors = append(keeps.Floors, quota.Floor{Coverage: quota.NewCoverage(coverage), Units: f[other]})
		}
	}
	return &keeps
}

// from returns a request of a region, charged to budgets with floors.
func (f floors) from(region string, units quota.Units, charges ...*quota.Charge) quota.Request {
	r := request("m", units)
	r.Caller.Region = region
	for _, c := range charges {
		r.Charges = append(r.Charges, f.of(region, c))
	}
	return r
}

// short spends a request, which must be refused with these units kept.
func (w *world) short(r quota.Request, after time.Duration, remaining, kept quota.Units) {
	w.Helper()
	if refused := w.refused(w.batch(r)[0], r.Charges[0].Budget, after, remaining); refused.Kept != kept {
		w.Fatalf("%d kept for others; want %d", refused.Kept, kept)
	}
}

func floorIsKept(w *world) {
	day, f := charge("day", 10, minute), floors{"IN": 4, "BR": 2}
	w.grant(f.from("US", 3, day))
	w.short(f.from("US", 2, day), time.Minute, 1, 6)
	w.short(f.from("", 2, day), time.Minute, 1, 6)
	w.grant(f.from("IN", 4, day)) // its own
	w.grant(f.from("IN", 1, day)) // the last unit that no floor keeps
	w.short(f.from("IN", 1, day), time.Minute, 0, 2)
	w.short(f.from("US", 1, day), time.Minute, 0, 2)
	w.grant(f.from("BR", 2, day))
	w.short(f.from("BR", 1, day), time.Minute, 0, 0)
	w.used(10, day)
	if n := len(w.log()); n != 4 {
		w.Fatalf("%d entries in the log; want one a grant, 4", n)
	}
}

func floorNeverFits(w *world) {
	day, f := charge("day", 10, minute), floors{"IN": 4, "BR": 2}
	never, ok := errors.AsType[*quota.NeverFitsError](w.batch(f.from("US", 5, day))[0].Err)
	saysLimit := ok && never.Limit == 10 && never.Kept == 6
	if !saysLimit || never.Needed != 5 {
		w.Fatalf("5 of 10, of which 6 are kept: %+v; want a NeverFitsError", never)
	}
	w.grant(f.from("US", 4, day))
	w.short(f.from("IN", 8, day), time.Minute, 4, 2)
}

// floorRetryAt waits for returning units that no floor keeps.
func floorRetryAt(w *world) {
	day, f := charge("day", 20, minute), floors{"IN": 4, "BR": 3}
	for _, spent := range []struct {
		region string
		units  quota.Units
	}{{"IN", 4}, {"US", 2}, {"IN", 3}, {"BR", 1}, {"US", 5}, {"BR", 2}, {"US", 3}} { // at 0 s to 6 s; of the US 10
		w.grant(f.from(spent.region, spent.units, day))
		w.clock.Add(time.Second)
	}
	w.clock.Add(3 * time.Second) // 10 s
	for _, want := range []struct {
		region string
		units  quota.Units
		after  time.Duration
	}{
		{"US", 1, 50 * time.Second},  // IN has 3 left of its 7: one of its 4 goes to its floor
		{"US", 3, 50 * time.Second},  // so that 3 return
		{"US", 4, 51 * time.Second},  // and 2 of the US
		{"US", 6, 54 * time.Second},  // what IN and BR free goes to their floors
		{"US", 10, 54 * time.Second}, //
		{"US", 11, 56 * time.Second},
		{"US", 13, 56 * time.Second},
		{"IN", 4, 50 * time.Second}, // of its own floor too
		{"IN", 6, 51 * time.Second},
		{"IN", 7, 52 * time.Second},
		{"IN", 9, 52 * time.Second},
		{"IN", 10, 54 * time.Second}, // BR's goes to its floor
	} {
		w.short(f.from(want.region, want.units, day), want.after, 0, 0)
	}
	w.clock.Add(51*time.Second - µs)
	w.short(f.from("US", 4, day), µs, 3, 1)
	w.clock.Add(µs)
	w.grant(f.from("US", 4, day))
}

func floorInsideABatch(w *world) {
	day, f := charge("day", 10, minute), floors{"IN": 4}
	answers := w.batch(f.from("US", 6, day), f.from("US", 1, day), f.from("IN", 1, day), f.from("US", 1, day), f.from("IN", 3, day), f.from("IN", 1, day))
	w.refused(answers[1], "day", time.Minute, 0)
	w.refused(answers[3], "day", time.Minute, 0)
	w.refused(answers[5], "day", time.Minute, 0)
	for _, i := range []int{0, 2, 4} {
		if answers[i].Err != nil {
			w.Fatalf("request %d: %v; want a grant", i, answers[i].Err)
		}
	}
}

func floorOfCalls(w *world) {
	calls := charge("calls", 5, minute, counted)
	day := charge("day", 1000, minute)
	f := floors{"IN": 2}
	w.grant(f.from("US", 100, calls, day))
	w.grant(f.from("US", 1, calls, day))
	w.grant(f.from("IN", 7, calls, day))
	w.grant(f.from("US", 50, calls, day))
	w.short(f.from("US", 1, calls, day), time.Minute, 0, 1)
	w.grant(f.from("IN", 100, calls, day))
	w.short(f.from("IN", 1, calls, day), time.Minute, 0, 0)
	w.used(258, day)
}

// floorSettled: units that a region returns go to its floor first.
func floorSettled(w *world) {
	day, f := charge("day", 10, minute), floors{"IN": 4}
	india := w.grant(f.from("IN", 6, day))
	w.clock.Add(time.Second)
	w.grant(f.from("US", 4, day))
	w.settle(india, 3)
	w.short(f.from("US", 3, day), time.Minute, 2, 1)
	w.settle(india, 0)
	w.short(f.from("US", 3, day), time.Minute, 2, 4) // nothing of India's returns
	for range 3 {
		w.settle(w.grant(f.from("IN", 1, day)), 0)
	}
	w.short(f.from("US", 3, day), time.Minute, 2, 4)
	w.clock.Add(time.Second)
	w.grant(entered(f.from("IN", 3, day), quota.EntryCorrection, 0))
	w.short(f.from("US", 3, day), 59*time.Second, 2, 1)
	w.settle(india, 30)
	w.short(f.from("US", 1, day), 59*time.Second-time.Second, 0, 0)
}

// floorFirstSeenLater asks for floors after spends without any.
func floorFirstSeenLater(w *world) {
	day, f := charge("day", 10, minute), floors{"IN": 4}
	w.grant(floors{}.from("IN", 1, day))
	w.grant(floors{}.from("US", 2, day))
	w.clock.Add(time.Second)
	w.short(f.from("US", 5, day), 59*time.Second+µs, 4, 3)
	w.grant(f.from("US", 4, day))
	w.grant(floors{}.from("US", 1, day)) // takes of India's
	w.short(f.from("US", 1, day), 59*time.Second+µs, 0, 3)
	w.short(floors{"IN": 2}.from("US", 2, day), 59*time.Second+µs, 1, 1) // a lower floor holds at once
	w.grant(floors{"IN": 2}.from("US", 1, day))
	w.short(f.from("IN", 2, day), 59*time.Second, 1, 0) // it comes too late
	w.short(floors{"GB": 1}.from("IN", 1, day), 59*time.Second, 0, 1)
	w.grant(f.from("IN", 1, day))
}

func floorDaily(w *world) {
	pacific := zone(w, "America/Los_Angeles")
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, pacific)
	floorOnTheCalendar(w, quota.Daily(pacific), midnight, midnight.AddDate(0, 0, 1))
}

func floorMonthly(w *world) {
	pacific := zone(w, "America/Los_Angeles")
	floorOnTheCalendar(w, quota.Monthly(pacific), time.Date(2027, 3, 1, 0, 0, 0, 0, pacific), time.Date(2027, 4, 1, 0, 0, 0, 0, pacific))
}

// floorOnTheCalendar spends around one boundary and checks the next.
func floorOnTheCalendar(w *world, window quota.Window, boundary, next time.Time) {
	margin, length := quota.DefaultMargin, next.Sub(boundary)
	c, f := charge("calendar", 10, window), floors{"IN": 4}
	w.clock.Set(boundary.Add(-time.Hour))
	w.grant(f.from("US", 5, c))
	w.short(f.from("US", 2, c), time.Hour+margin, 1, 4)
	w.grant(f.from("IN", 4, c))
	w.clock.Set(boundary.Add(-margin)) // both count from here on
	w.grant(f.from("US", 1, c))
	w.short(f.from("US", 1, c), 2*margin, 0, 0)
	w.short(f.from("US", 6, c), length+2*margin, 0, 0)
	w.clock.Set(boundary.Add(margin))
	w.short(f.from("US", 6, c), length, 5, 4)
	w.grant(f.from("US", 5, c))
	w.grant(f.from("IN", 4, c))
	w.used(10, c)
}

// until sets how long before a day's end its floors end.
func until(d time.Duration, r quota.Request) quota.Request {
	for i, c := range r.Charges {
		ends := *c
		ends.FloorUntil = d
		r.Charges[i] = &ends
	}
	return r
}

func floorUntil(w *world) {
	pacific := zone(w, "America/Los_Angeles")
	midnight, margin := time.Date(2026, 11, 21, 0, 0, 0, 0, pacific), quota.DefaultMargin
	day, f := charge("day", 10, quota.Daily(pacific)), floors{"IN": 4}
	from := func(region string, units quota.Units) quota.Request {
		return until(2*time.Hour, f.from(region, units, day))
	}
	w.clock.Set(midnight.Add(-5 * time.Hour))
	w.grant(from("US", 3))
	w.short(from("US", 4), 3*time.Hour-margin, 3, 4)
	w.short(from("US", 7), 3*time.Hour-margin, 3, 4)
	w.short(from("US", 8), 27*time.Hour-margin, 3, 4) // fits the last hours of a day only
	w.fails(w.batch(from("US", 11))[0].Err, quota.ErrNeverFits, "11 of 10")
	ends := midnight.Add(-2*time.Hour - margin)
	w.clock.Set(ends.Add(-µs))
	w.short(from("US", 4), µs, 3, 4)
	w.clock.Set(ends)
	w.grant(from("US", 4))
	w.short(from("US", 4), 2*time.Hour+2*margin, 3, 0)
	w.short(from("US", 7), 24*time.Hour, 3, 0)
	w.grant(from("IN", 3))
	w.short(from("IN", 1), 2*time.Hour+2*margin, 0, 0)
	w.clock.Set(midnight.Add(margin))
	w.short(from("US", 7), 22*time.Hour-2*margin, 6, 4)
	w.clock.Set(ends.Add(24 * time.Hour))
	w.grant(from("US", 7))
}

// floorUntilInTheMargin: within the margin, the ending day keeps nothing and
// the beginning day keeps all.
func floorUntilInTheMargin(w *world) {
	pacific := zone(w, "America/Los_Angeles")
	midnight, margin := time.Date(2026, 11, 21, 0, 0, 0, 0, pacific), quota.DefaultMargin
	day, f := charge("day", 10, quota.Daily(pacific)), floors{"IN": 4}
	from := func(region string, units quota.Units) quota.Request {
		return until(2*time.Hour, f.from(region, units, day))
	}
	w.clock.Set(midnight.Add(-margin - µs))
	w.grant(from("US", 6))
	w.clock.Add(µs)
	w.grant(from("US", 4)) // fills the day that ends
	w.short(from("IN", 1), 2*margin, 0, 0)
	w.short(from("US", 8), 46*time.Hour, 0, 0) // it fits neither day, and the next only at its end

	midnight = midnight.Add(48 * time.Hour)
	w.clock.Set(midnight.Add(-margin))
	w.short(from("US", 7), 22*time.Hour, 6, 4)
	w.grant(from("US", 6))
	w.grant(from("IN", 3))
	w.clock.Set(midnight.Add(margin - µs))
	w.short(from("US", 1), 22*time.Hour-2*margin+µs, 0, 1)
	w.grant(from("IN", 1))
	w.clock.Add(µs)
	w.used(10, day)
}

// floorUntilBesideOthers: once another budget or a cooldown admits a call,
// floors that have ended may apply again.
func floorUntilBesideOthers(w *world) {
	pacific := zone(w, "America/Los_Angeles")
	midnight, f := time.Date(2026, 11, 21, 0, 0, 0, 0, pacific), floors{"IN": 4}
	hour, day := charge("hour", 9, quota.Sliding(time.Hour)), charge("day", 10, quota.Daily(pacific))
	w.clock.Set(midnight.Add(-50 * time.Minute))
	w.spend(3, hour)
	r := until(2*time.Hour, f.from("US", 7, day))
	r.Charges = append([]*quota.Charge{hour}, r.Charges...)
	w.short(r, 22*time.Hour+50*time.Minute-quota.DefaultMargin, 6, 0)

	w.cool(quota.Cooldown{Account: account, Budget: "day", Until: midnight})
	w.short(until(2*time.Hour, f.from("US", 6, day)), 50*time.Minute, 7, 0) // within the margin it fits both days
	w.short(until(2*time.Hour, f.from("US", 7, day)), 22*time.Hour+50*time.Minute-quota.DefaultMargin, 7, 0)
}

func floorAndCooldown(w *world) {
	day, f := charge("day", 10, minute), floors{"IN": 4}
	w.grant(f.from("US", 5, day))
	w.cool(quota.Cooldown{Account: account, Budget: "day", Until: noon.Add(time.Second)})
	w.short(f.from("US", 1, day), time.Second, 1, 4)
	w.short(f.from("IN", 1, day), time.Second, 5, 0)
	w.short(f.from("US", 2, day), time.Minute, 1, 4) // the later of both
	w.clock.Add(time.Second)
	w.grant(f.from("US", 1, day))
}

package ledgertest

import (
	"fmt"
	"time"
	_ "time/tzdata" // the zones of the tests, on machines that have none

	"github.com/ration-dev/ration/quota"
)

const µs = time.Microsecond

func slidingEdge(w *world) {
	day := charge("day", 10, minute)
	w.spend(10, day)
	w.clock.Add(time.Minute - µs)
	w.used(10, day)
	w.refuse(10, "day", µs, 0, day)
	w.clock.Add(µs) // its age is the window: it has left
	w.used(0, day)
	w.spend(10, day)
	w.refuse(1, "day", time.Minute, 0, day)
}

// slidingMargin: units return one margin after the window's length.
func slidingMargin(w *world) {
	burst := charge("burst", 10, quota.Sliding(2*time.Second).WithMargin(20*time.Millisecond))
	w.spend(6, burst)
	w.clock.Add(time.Second)
	w.spend(4, burst)
	w.clock.Add(time.Second)
	w.used(10, burst)
	w.refuse(6, "burst", 20*time.Millisecond, 0, burst)
	w.clock.Add(20*time.Millisecond - µs)
	w.refuse(1, "burst", µs, 0, burst)
	w.clock.Add(µs)
	w.used(4, burst)
	w.refuse(7, "burst", time.Second, 6, burst)
	w.spend(6, burst)
}

func slidingIsNotAClock(w *world) {
	w.clock.Set(noon.Add(time.Minute - time.Second)) // a second before the full minute
	day := charge("day", 50, minute)
	w.spend(50, day)
	w.clock.Add(2 * time.Second)
	w.refuse(1, "day", 58*time.Second, 0, day)
}

func retryAtIsWeighted(w *world) {
	day := charge("day", 10, minute)
	for _, units := range []quota.Units{1, 2, 3, 4} { // at 0 s, 1 s, 2 s, 3 s
		w.spend(units, day)
		w.clock.Add(time.Second)
	}
	w.clock.Add(6 * time.Second) // 10 s
	for _, want := range []struct {
		units quota.Units
		after time.Duration
	}{{1, 50 * time.Second}, {2, 51 * time.Second}, {3, 51 * time.Second}, {4, 52 * time.Second}, {6, 52 * time.Second}, {7, 53 * time.Second}, {10, 53 * time.Second}} {
		w.refuse(want.units, "day", want.after, 0, day)
	}
	w.clock.Add(51*time.Second - µs)
	w.refuse(3, "day", µs, 1, day)
	w.clock.Add(µs)
	w.spend(3, day)
}

func retryAtWithZeros(w *world) {
	day := charge("day", 10, quota.Sliding(1000*time.Second))
	w.spend(1, day)
	for range 5 {
		w.settle(w.spend(1, day), 0)
	}
	w.clock.Add(10 * time.Second)
	w.spend(9, day)
	w.clock.Add(10 * time.Second)
	w.refuse(2, "day", 990*time.Second, 0, day)
	w.refuse(1, "day", 980*time.Second, 0, day)
}

func retryAtInsideABatch(w *world) {
	day := charge("day", 10, minute)
	w.spend(5, day)
	w.clock.Add(10 * time.Second)
	answers := w.batch(request("m", 3, day), request("m", 8, day), request("m", 2, day), request("m", 6, day))
	w.refused(answers[1], "day", time.Minute, 2)
	w.refused(answers[3], "day", time.Minute, 0)
	answers = w.batch(request("m", 5, day), request("m", 5, day))
	w.refused(answers[0], "day", 50*time.Second, 0)
	w.refused(answers[1], "day", 50*time.Second, 0)
}

func retryAtLatest(w *world) {
	short, long := charge("short", 10, minute), charge("long", 20, quota.Sliding(time.Hour))
	w.spend(10, short, long)
	w.refuse(5, "short", time.Minute, 0, short, long)
	w.clock.Add(2 * time.Minute)
	w.spend(9, short, long)
	w.refuse(2, "long", 58*time.Minute, 1, short, long)
	w.refuse(2, "long", 58*time.Minute, 1, long, short)
}

func zone(w *world, name string) *time.Location {
	w.Helper()
	location, err := time.LoadLocation(name)
	if err != nil {
		w.Fatal(err)
	}
	return location
}

func dailyAroundMidnight(w *world) {
	pacific := zone(w, "America/Los_Angeles")
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, pacific)
	margin := quota.DefaultMargin
	day := charge("day", 10, quota.Daily(pacific))

	w.clock.Set(midnight.Add(-2 * time.Hour))
	w.spend(6, day)
	w.refuse(5, "day", 2*time.Hour+margin, 4, day)
	w.clock.Set(midnight.Add(-margin)) // from here on a call may count into the new day
	w.spend(3, day)
	w.refuse(2, "day", 2*margin, 1, day)
	w.clock.Set(midnight.Add(margin - µs)) // to here it may count into the old one
	w.spend(1, day)
	w.refuse(1, "day", µs, 0, day)
	w.refuse(7, "day", 24*time.Hour+µs, 0, day) // the new day has 4 already
	w.clock.Add(µs)
	w.used(4, day)
	w.refuse(7, "day", 24*time.Hour, 6, day)
	w.spend(6, day)
	w.refuse(1, "day", 24*time.Hour, 0, day)
}

func dailyLengths(w *world) {
	pacific := zone(w, "America/Los_Angeles")
	margin := quota.DefaultMargin
	for _, day := range []struct {
		midnight time.Time
		hours    int
	}{
		{time.Date(2027, 3, 14, 0, 0, 0, 0, pacific), 23},
		{time.Date(2027, 6, 1, 0, 0, 0, 0, pacific), 24},
		{time.Date(2027, 11, 7, 0, 0, 0, 0, pacific), 25},
	} {
		budget := charge(fmt.Sprint("day ", day.midnight), 10, quota.Daily(pacific))
		length := time.Duration(day.hours) * time.Hour
		w.clock.Set(day.midnight.Add(margin))
		w.spend(10, budget)
		w.refuse(10, budget.Budget, length, 0, budget)
		w.clock.Add(length - 2*margin)
		w.refuse(1, budget.Budget, 2*margin, 0, budget)
		w.clock.Add(2*margin - µs)
		w.refuse(1, budget.Budget, µs, 0, budget)
		w.clock.Add(µs)
		w.spend(10, budget)
	}
}

// dailyWithoutMidnight tests the last hours of days whose midnight is skipped
// or repeated, where a naive boundary lies in the past.
func dailyWithoutMidnight(w *world) {
	for _, day := range []struct {
		zone string
		end  time.Time // of the day in which the budget is spent
	}{
		{"Africa/Cairo", time.Date(2027, 4, 29, 22, 0, 0, 0, time.UTC)},       // 00:00 is skipped
		{"America/Santiago", time.Date(2027, 9, 5, 4, 0, 0, 0, time.UTC)},     // the same
		{"Atlantic/Azores", time.Date(2027, 10, 31, 0, 0, 0, 0, time.UTC)},    // 00:00 is shown twice: the first counts
		{"America/Havana", time.Date(2027, 11, 7, 4, 0, 0, 0, time.UTC)},      // 00:00 is shown twice: the first counts
		{"Australia/Lord_Howe", time.Date(2028, 4, 1, 13, 0, 0, 0, time.UTC)}, // set back by half an hour the day after
	} {
		budget := charge(day.zone, 10, quota.Daily(zone(w, day.zone)))
		w.clock.Set(day.end.Add(-90 * time.Minute))
		w.spend(10, budget)
		for _, before := range []time.Duration{time.Hour, 30 * time.Minute, time.Minute, µs, 0, -quota.DefaultMargin + µs} {
			w.clock.Set(day.end.Add(-before))
			w.refuse(10, budget.Budget, before+quota.DefaultMargin, 0, budget)
		}
		w.clock.Set(day.end.Add(quota.DefaultMargin))
		w.spend(10, budget)
	}
}

func dailyBesideSliding(w *world) {
	pacific := zone(w, "America/Los_Angeles")
	begin := time.Date(2027, 11, 7, 0, 1, 0, 0, pacific) // a day of 25 hours
	log, day := charge("log", 10, quota.Sliding(24*time.Hour)), charge("day", 10, quota.Daily(pacific))
	w.clock.Set(begin)
	w.spend(10, log, day)
	w.clock.Add(24*time.Hour + time.Minute)
	w.used(0, log)
	w.refuse(10, "day", 58*time.Minute+quota.DefaultMargin, 0, log, day)
	w.clock.Add(58*time.Minute + quota.DefaultMargin)
	w.spend(10, log, day)
}

func counterEstimates(w *world) {
	w.clock.Set(noon) // a full minute: a period begins
	each := charge("each", 100, quota.Counter(time.Minute))
	w.clock.Add(30 * time.Second)
	w.spend(80, each)
	w.refuse(21, "each", 30*time.Second+750*time.Millisecond, 20, each)
	w.clock.Add(45 * time.Second) // 15 s into the next period: 80 * 45/60 still show
	w.used(60, each)
	w.spend(40, each)
	w.used(100, each)
	w.refuse(1, "each", 750*time.Millisecond, 0, each)
	w.clock.Add(750*time.Millisecond - µs)
	w.refuse(1, "each", µs, 0, each)
	w.clock.Add(µs)
	w.spend(1, each)
	r := w.spend(1, charge("other", 1000, minute)) // covered too, though not named
	w.used(101, each)
	w.settle(r, 0)
	w.used(100, each)
	w.clock.Add(2 * time.Minute)
	w.used(0, each)
}

func limitChanged(w *world) {
	w.spend(8, charge("day", 10, minute))
	w.refuse(1, "day", time.Minute, 0, charge("day", 5, minute))
	w.spend(4, charge("day", 12, minute))
	w.refuse(1, "day", time.Minute, 0, charge("day", 10, minute))
	w.refuse(5, "day", time.Minute+µs, 0, charge("day", 8, minute))
}

func windowChanged(w *world) {
	long, short := charge("day", 10, quota.Sliding(time.Hour)), charge("day", 10, minute)
	w.spend(8, long)
	w.clock.Add(2 * time.Minute)
	w.spend(10, short) // a shorter window sees nothing, and must not trim what the longer one needs
	w.used(18, long)
	w.refuse(1, "day", 60*time.Minute, 0, long)
	w.refuse(1, "day", time.Minute, 0, short)

	w.clock.Add(time.Second)
	first, later := charge("first", 10, minute, methods("x")), charge("later", 10, quota.Sliding(time.Hour), methods("x"))
	w.grant(request("x", 6, first))
	w.clock.Add(5 * time.Minute)
	w.grant(request("x", 2, first))
	w.used(8, later) // a longer window over a coverage known by a shorter one
	w.refused(w.batch(request("x", 3, later))[0], "later", 55*time.Minute, 2)
}

func budgetFirstSeenLater(w *world) {
	w.history = 24 * time.Hour
	day := quota.Sliding(24 * time.Hour)
	all := charge("all", 1000, minute)
	w.grant(request("search", 100, all))
	w.clock.Add(time.Hour)
	w.grant(request("list", 1, all))
	w.grant(request("search", 200, all))
	search := charge("search", 350, day, methods("search"))
	calls := charge("calls", 3, day, counted)
	w.used(300, search)
	w.used(3, calls)
	w.refused(w.batch(request("search", 100, search))[0], "search", 23*time.Hour, 50)
	w.refused(w.batch(request("list", 1, calls))[0], "calls", 23*time.Hour, 0)
	w.refused(w.batch(request("list", 1, charge("estimate", 1, quota.Counter(time.Minute))))[0], "estimate", 2*time.Minute, 0)
	w.grant(request("search", 50, search))
}

func stormOfExpiries(w *world) {
	const n = 3000
	day, search := charge("day", n, minute), charge("search", n, minute, methods("search"))
	requests := make([]quota.Request, 0, 100)
	for i := range n {
		method := "list"
		if i%3 == 0 {
			method = "search"
		}
		requests = append(requests, request(method, 1, day, search))
		if len(requests) == cap(requests) {
			w.batch(requests...)
			requests = requests[:0]
		}
	}
	w.used(n, day)
	w.used(n/3, search)
	w.refuse(1, "day", time.Minute, 0, day)
	w.clock.Add(time.Minute + n*µs)
	w.used(0, day, search)
	w.spend(n, day)
	w.refuse(1, "day", time.Minute, 0, day)
	w.used(0, search)
}

func clockStandsStill(w *world) {
	day := charge("day", 10, minute)
	first, second := w.spend(5, day), w.spend(5, day)
	if !second.At.Equal(first.At.Add(µs)) {
		w.Fatalf("stamps %s and %s; want a microsecond apart", first.At, second.At)
	}
	w.clock.Add(time.Minute) // only the first is that old
	w.used(5, day)
}

func clockStepsBack(w *world) {
	day := charge("day", 10, minute)
	w.spend(4, day)
	w.clock.Add(30 * time.Second)
	r := w.spend(2, day)
	w.clock.Add(-2 * time.Hour)
	w.used(6, day)
	if later := w.spend(4, day); !later.At.Equal(r.At.Add(µs)) {
		w.Fatalf("stamped %s after %s; want a microsecond later", later.At, r.At)
	}
	w.refuse(1, "day", time.Minute, 0, day) // far behind the newest: no promise beyond the window
	w.clock.Add(2*time.Hour - time.Minute)
	w.refuse(1, "day", 90*time.Second, 0, day) // exact again
	w.clock.Add(90*time.Second - µs)
	w.refuse(1, "day", µs, 0, day)
	w.clock.Add(µs)
	w.used(6, day)
}

func clockStepsForward(w *world) {
	day := charge("day", 10, minute)
	w.spend(10, day)
	w.clock.Add(30 * time.Second)
	w.refuse(1, "day", 30*time.Second, 0, day)
	w.clock.Add(48 * time.Hour)
	w.spend(10, day)
	w.refuse(1, "day", time.Minute, 0, day)
}

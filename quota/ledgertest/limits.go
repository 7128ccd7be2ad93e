package ledgertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/ration-dev/ration/quota"
)

// longestHold is how long a limit holds at most after it was last asked.
const longestHold = quota.LimitHold + 2*quota.LimitRecord

// by returns a charge as a configuration asks it that was last changed a number
// of minutes after noon.
func by(config string, changed int, c *quota.Charge) *quota.Charge {
	c.Config = quota.Config{Name: config, Changed: noon.Add(time.Duration(changed) * time.Minute)}
	return c
}

func (w *world) clearLimits() {
	w.Helper()
	if err := w.ClearLimits(w.ctx, account); err != nil {
		w.Fatalf("clear limits: %v", err)
	}
}

// stricterLimitHolds: two configurations with the limits 500 and 2,000 admitted
// 2,000 together.
func stricterLimitHolds(w *world) {
	for _, window := range []quota.Window{quota.Sliding(48 * time.Hour), quota.Monthly(time.UTC), quota.Counter(30 * 24 * time.Hour)} {
		w.strictAndLoose(window.String(), window)
	}
}

func (w *world) strictAndLoose(name string, window quota.Window) {
	strict, loose := by("a", 1, charge("shared", 500, window, methods(name))), by("b", 0, charge("shared", 2000, window, methods(name)))
	w.grant(request(name, 300, loose))
	w.grant(request(name, 100, strict))
	alone := charge("alone", 2000, window, methods(name))
	answer := w.batch(request(name, 90, loose, alone))[0]
	if answer.Err != nil || answer.Held[0].Limit != 500 || answer.Held[0].Used != 490 {
		w.Fatalf("%s: %+v; want a grant below 500", name, answer)
	}
	if answer.Held[1].Limit != 0 {
		w.Fatalf("%s: %+v; want no other limit of %s", name, answer, alone.Budget)
	}
	for _, c := range []*quota.Charge{loose, strict} {
		answer := w.batch(request(name, 11, c))[0]
		refused, ok := errors.AsType[*quota.RefusedError](answer.Err)
		saysLimit := ok && refused.Limit == 500 && refused.Used == 490
		if !saysLimit || refused.Remaining != 10 {
			w.Fatalf("%s: %v; want a refusal by the limit of 500", name, answer.Err)
		}
		if c == strict && (refused.OwnLimit != 0 || !refused.LimitUntil.IsZero()) {
			w.Fatalf("%s: %+v; want the caller's own limit", name, refused)
		}
		if c == loose {
			w.holdsFor(refused.OwnLimit, refused.LimitUntil)
		}
	}
	standings := w.standings(loose, strict)
	if standings[0].Limit != 500 || standings[1].Limit != 0 {
		w.Fatalf("%s: %+v; want the limit that holds", name, standings)
	}
	w.holdsFor(2000, standings[0].LimitUntil)

	w.grant(forced(request(name, 600, loose)))
	w.clearLimits()
	w.grant(request(name, 100, loose))
	if s := w.standings(loose)[0]; s.Limit != 0 {
		w.Fatalf("%s: %+v; want the caller's own limit", name, s)
	}
	for _, c := range []*quota.Charge{strict, loose} { // the first asks it again
		w.fails(w.batch(request(name, 1, c))[0].Err, quota.ErrRefused, name)
	}
}

// holdsFor checks what is said of a limit that holds in place of 2,000.
func (w *world) holdsFor(own quota.Units, until time.Time) {
	w.Helper()
	if left := until.Sub(w.clock.Now()); own != 2000 || left < quota.LimitHold || left > longestHold {
		w.Fatalf("own limit %d, other holds for %s; want 2000, and %s at least", own, left, quota.LimitHold)
	}
}

func (w *world) refuseAny(units quota.Units, charges ...*quota.Charge) {
	w.Helper()
	w.fails(w.batch(request("m", units, charges...))[0].Err, quota.ErrRefused, "spend")
}

// stricterLimitIsAsked: the stricter limit holds for a day after it was last
// asked, even if all that asked it was refused.
func stricterLimitIsAsked(w *world) {
	week := quota.Sliding(7 * 24 * time.Hour)
	strict, loose := by("a", 0, charge("week", 500, week)), by("b", 0, charge("week", 2000, week))
	w.spend(500, strict)
	for range 30 {
		w.clock.Add(time.Hour)
		w.refuseAny(1, loose)
		w.refuseAny(1, strict)
	}
	w.clock.Add(quota.LimitHold)
	w.refuseAny(1, loose)
	w.clock.Add(2 * quota.LimitRecord)
	w.spend(1500, loose)
	w.refuseAny(1, loose)
}

// stricterLimitOfAnother: a limit holds for the budget with this name, window
// and coverage. Margins, floors and external usage do not make another budget.
func stricterLimitOfAnother(w *world) {
	hour := quota.Sliding(time.Hour)
	w.spend(5, by("a", 0, charge("hour", 5, hour)))
	w.spend(5, by("b", 0, charge("other", 100, hour)), by("b", 0, charge("hour", 100, quota.Sliding(2*time.Hour))), by("b", 0, charge("hour", 100, hour, methods("m"))),
		by("b", 0, charge("hour", 100, hour, counted)), by("b", 0, charge("hour", 100, quota.Daily(time.UTC))), charge("hour", 100, hour))
	w.refuseAny(1, by("b", 0, charge("hour", 100, hour)))
	w.refuseAny(1, by("b", 0, charge("hour", 100, hour.WithMargin(time.Minute))))
	w.refuseAny(1, by("b", 0, charge("hour", 100, hour, func(c *quota.Coverage) { c.Except = []string{"others: day"} })))
	w.granted(&quota.Batch{Account: "another", Requests: []quota.Request{request("m", 9, by("b", 0, charge("hour", 100, hour)))}})
}

// limitOfAChangedConfiguration: a changed limit holds at once, raised or
// lowered, and processes that still use the limit from before do not bring
// it back.
func limitOfAChangedConfiguration(w *world) {
	hour := quota.Sliding(time.Hour)
	before := by("a", 0, charge("hour", 5, hour))
	raised := by("a", 1, charge("hour", 50, hour))
	other := by("b", 9, charge("hour", 40, hour))
	w.spend(5, before)
	if s := w.standings(raised, other); s[0].Limit != 0 || s[1].Limit != 5 {
		w.Fatalf("%+v; want the raised limit, and the one before it for others", s)
	}
	w.spend(10, raised)
	w.refuseAny(1, before)
	w.spend(20, other)
	w.clock.Add(20 * time.Minute)
	w.refuseAny(1, before)
	w.refuseAny(6, raised) // 40 hold
	w.spend(5, raised)
	w.refuseAny(1, raised)
	w.clearLimits()
	w.refuseAny(1, before)
	w.spend(1, raised)
	lowered := by("a", 2, charge("hour", 30, hour))
	w.refuseAny(1, lowered)
	w.refuseAny(1, raised)
	if refused, _ := errors.AsType[*quota.RefusedError](w.batch(request("m", 1, raised))[0].Err); refused.Limit != 30 || refused.OwnLimit != 50 {
		w.Fatalf("%+v; want the lowered limit to hold", refused)
	}
}

func stricterLimitOfKeys(w *world) {
	ask := func(key string, units quota.Units, c *quota.Charge) error {
		return w.ask(&quota.Batch{Account: account, Key: key, Requests: []quota.Request{request("m", units, c)}})[0].Err
	}
	strict, loose := by("a", 0, charge("hour", 5, quota.Sliding(time.Hour))), by("b", 0, charge("hour", 100, quota.Sliding(time.Hour)))
	for _, err := range []error{ask("a", 5, strict), ask("b", 5, loose)} {
		if err != nil {
			w.Fatal(err)
		}
	}
	for _, key := range []string{"a", "b"} {
		w.fails(ask(key, 1, loose), quota.ErrRefused, "key "+key)
	}
	if s := w.standingsOf("c", loose)[0]; s.Limit != 5 {
		w.Fatalf("%+v; want the limit of 5", s)
	}
	w.clearLimits()
	if err := ask("b", 95, loose); err != nil {
		w.Fatal(err)
	}
}

// stricterLimitBelowACall: a call may fit the caller's limit, and never the one
// that holds.
func stricterLimitBelowACall(w *world) {
	strict, loose := by("a", 0, charge("hour", 5, quota.Sliding(time.Hour))), by("b", 0, charge("hour", 100, quota.Sliding(time.Hour)))
	w.spend(1, strict)
	for range 2 {
		answers := w.batch(request("m", 2, loose), request("m", 50, loose), request("m", 50, loose), request("m", 1, strict), request("m", 3, loose))
		for i, want := range []error{nil, quota.ErrNeverFits, quota.ErrNeverFits, nil, quota.ErrRefused} {
			w.fails(answers[i].Err, want, fmt.Sprint("request ", i))
		}
		if never, _ := errors.AsType[*quota.NeverFitsError](answers[1].Err); never.Limit != 5 || never.OwnLimit != 100 || never.Needed != 50 {
			w.Fatalf("%+v; want both limits", never)
		}
		w.clock.Add(2 * time.Hour)
	}
	w.clearLimits()
	w.spend(50, loose) // first, since nothing else has told the client
	w.spend(50, loose)
	w.clock.Add(2 * time.Hour)
	w.spend(1, strict)
	w.fails(w.batch(request("m", 50, loose))[0].Err, quota.ErrNeverFits, "50 units")
	w.clearLimits()
	w.spend(50, loose)
}

// stricterLimitBesideFloors: floors may be higher than the limit that holds.
func stricterLimitBesideFloors(w *world) {
	day := quota.Daily(time.UTC)
	india := quota.NewCoverage(quota.Coverage{Regions: []string{"IN"}})
	others := charge("day", 2000, day)
	others.Floors = []quota.Floor{{Coverage: india, Units: 600}}
	by("b", 0, others)
	w.spend(100, by("a", 0, charge("day", 500, day)))
	w.fails(w.batch(request("m", 1, others))[0].Err, quota.ErrNeverFits, "1 unit, when all of 500 are kept")
	ending := by("b", 0, charge("day", 2000, day))
	ending.Floors, ending.FloorUntil = others.Floors, 6*time.Hour
	w.refuseAny(1, ending)
	own := request("m", 400, by("b", 0, charge("day", 2000, day)))
	own.Caller.Region = "IN"
	w.grant(own)
	w.refuseAny(1, by("b", 0, charge("day", 2000, day)))
	w.clearLimits()
	w.spend(1300, others)
	w.refuseAny(1, others)
}

// stricterLimitFarAhead: a limit that was asked while the clock was a year
// ahead ends a day after the clock is right.
func stricterLimitFarAhead(w *world) {
	minute := quota.Sliding(time.Minute)
	strict, loose := by("a", 0, charge("minute", 5, minute)), by("b", 0, charge("minute", 100, minute))
	w.clock.Add(365 * 24 * time.Hour)
	w.refuseOver(6, strict)
	w.clock.Add(-365 * 24 * time.Hour)
	w.refuseOver(6, loose)
	w.clock.Add(longestHold + quota.LimitRecord)
	w.spend(6, loose)
}

// refuseOver asks more than a limit holds.
func (w *world) refuseOver(units quota.Units, c *quota.Charge) {
	w.Helper()
	answers := w.batch(request("m", units-1, c), request("m", units, c))
	if err := answers[1].Err; err == nil {
		w.Fatal("granted; want the limit to hold")
	}
}

// limitsInAnyOrder: many limits of one budget end one after the other.
func limitsInAnyOrder(w *world) {
	minute := quota.Sliding(time.Minute)
	for i, limit := range []quota.Units{70, 10, 90, 30, 50, 20, 80, 40, 60, 100, 110, 120} {
		w.batch(request("m", 1, by(fmt.Sprint("config ", i), i, charge("minute", limit, minute))))
		w.clock.Add(2 * time.Hour)
	}
	last := by("last", 0, charge("minute", 1000, minute))
	for _, c := range []struct {
		after time.Duration
		limit quota.Units
	}{{0, 10}, {3 * time.Hour, 20}, {4 * time.Hour, 20}, {2 * time.Hour, 20}, {2 * time.Hour, 40}, {2 * time.Hour, 40}, {2 * time.Hour, 60}, {2 * time.Hour, 100}, {6 * time.Hour, 0}} {
		w.clock.Add(c.after)
		w.batch(request("m", 1, last))
		if s := w.standings(last)[0]; s.Limit != c.limit {
			w.Fatalf("at %s the limit %d holds; want %d", w.clock.Now(), s.Limit, c.limit)
		}
	}
}

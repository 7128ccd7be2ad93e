package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// standing is one budget as status shows it.
type standing struct {
	Account        string                 `json:"account"`
	Name           string                 `json:"name"`
	Limit          quota.Units            `json:"limit"`
	Used           quota.Units            `json:"used"`
	Remaining      quota.Units            `json:"remaining"`
	Window         string                 `json:"window"`
	Measure        string                 `json:"measure"`
	Estimate       bool                   `json:"estimate"`
	Over           quota.Units            `json:"estimate_error"` // of an estimate: how much more the window may really hold
	NextFreeAt     *time.Time             `json:"next_free_at"`
	NextFree       []returning            `json:"next_free"`
	CooldownUntil  *time.Time             `json:"cooldown_until"`
	CooldownReason *string                `json:"cooldown_reason"`
	ByMethod       map[string]quota.Units `json:"by_method"`
	ByRegion       map[string]quota.Units `json:"by_region"`
	ByLane         map[string]quota.Units `json:"by_lane"`
	ByJob          map[string]quota.Units `json:"by_job"`
	Reconciled     quota.Units            `json:"reconciled_units"` // of what is used, in its measure: found missing by ration ledger reconcile
	Reported       quota.Units            `json:"reported_units"`   // likewise, by the upstream's answers
	Floors         map[string]floor       `json:"floors"`           // by region
	Ahead          int64                  `json:"ahead_s"`          // how far the newest entry is stamped ahead of the ledger's clock, if by minutes
}

// floor is what a budget keeps for a region.
type floor struct {
	Floor quota.Units `json:"floor"`
	Used  quota.Units `json:"used"`
	Kept  quota.Units `json:"kept"` // of the floor, not used yet
}

// returning is a time by which Units have returned, not counting those of the
// returning before it.
type returning struct {
	At    time.Time   `json:"at"`
	Units quota.Units `json:"units"`
}

func newStanding(b quota.Balance) *standing {
	s := &standing{Account: b.Budget.Account, Name: b.Budget.Name, Limit: b.Budget.Limit, Used: b.Used, Remaining: b.Remaining,
		Window: b.Budget.Window.String(), Measure: b.Budget.Measure.String(), Estimate: b.Budget.Window.Estimate(), Over: b.Over, Ahead: seconds(b.Ahead),
		NextFreeAt: instant(b.NextFree), NextFree: []returning{},
		ByMethod: map[string]quota.Units{}, ByRegion: map[string]quota.Units{}, ByLane: map[string]quota.Units{}, ByJob: map[string]quota.Units{}, Floors: map[string]floor{}}
	for region, units := range b.Budget.Floor { // as long as there is no ledger, none of it is used
		s.Floors[region] = floor{Floor: units, Kept: units}
	}
	for _, f := range b.Floors {
		s.Floors[f.Region] = floor{Floor: f.Floor, Used: f.Used, Kept: f.Kept}
	}
	if c := b.Cooldown; c != nil {
		s.CooldownUntil, s.CooldownReason = instant(c.Until), &c.Reason
	}
	return s
}

// attribution adds the entries of an account up to one budget's standing.
type attribution struct {
	*standing
	balance  quota.Balance
	coverage *quota.Coverage

	groupBegan time.Time // when the first of the last group in NextFree returns
}

// since is when the budget's window begins; for an estimate, what its two
// counters can hold.
func (b *attribution) since() time.Time {
	if b.balance.Since.IsZero() {
		return b.balance.At.Add(-b.balance.Budget.Window.Horizon())
	}
	return b.balance.Since
}

// maxReturns is how many of the next returns are shown, those that begin within
// one minute together.
const maxReturns = 3

func (b *attribution) add(e quota.Entry) {
	amount := b.coverage.Amount(e.Units)
	if b.coverage.Measure == quota.Calls {
		amount = e.Calls
	}
	if amount == 0 || e.At.Before(b.since()) || !b.coverage.Covers(e.Method, e.Caller) {
		return
	}
	b.ByMethod[dash(e.Method)] += amount
	b.ByRegion[dash(e.Caller.Region)] += amount
	b.ByLane[dash(e.Caller.Lane)] += amount
	b.ByJob[dash(e.Caller.Job)] += amount
	switch driftOf(&e) {
	case byHand:
		b.Reconciled += amount
	case byUpstream:
		b.Reported += amount
	}
	at, exact := returnsAt(b.balance.Budget.Window, e.At)
	if !exact {
		return
	}
	if last := len(b.NextFree) - 1; last >= 0 && at.Sub(b.groupBegan) < time.Minute {
		b.NextFree[last].At = at // by then all of them are back
		b.NextFree[last].Units += amount
	} else if len(b.NextFree) < maxReturns {
		b.NextFree, b.groupBegan = append(b.NextFree, returning{at, amount}), at
	}
}

// returnsAt returns when a window no longer counts what was stamped at an
// instant. It reports false for an estimate, which lets go little by little.
func returnsAt(window quota.Window, stamp time.Time) (at time.Time, exact bool) {
	switch window.Kind() {
	case quota.KindSliding:
		return stamp.Add(window.Length()).UTC(), true
	case quota.KindDaily:
		day := window.Day(stamp)
		if stamp.Before(day.Next) {
			return day.Opens, true
		}
		return day.Reopens, true // within the margin of a boundary it counts into both
	}
	return time.Time{}, false
}

// floors says what is kept for each region: IN 120 of 500 (380 kept).
func (b *standing) floors() string {
	var parts []string
	for _, region := range slices.Sorted(maps.Keys(b.Floors)) {
		f := b.Floors[region]
		parts = append(parts, fmt.Sprintf("%s %d of %d (%d kept)", safe(region), f.Used, f.Floor, f.Kept))
	}
	return strings.Join(parts, ", ")
}

// returns says when the next units return.
func (b *standing) returns(now time.Time) string {
	if len(b.NextFree) == 0 {
		if b.NextFreeAt == nil {
			return "-"
		}
		return fmt.Sprintf("%s (in %s)", dated(roundUp(*b.NextFreeAt).UTC(), now, tableTime), quota.Human(b.NextFreeAt.Sub(now)))
	}
	var parts []string
	for i, r := range b.NextFree {
		part := fmt.Sprintf("+%d %s", r.Units, dated(roundUp(r.At).UTC(), now, tableTime))
		if i == 0 {
			part += fmt.Sprintf(" (in %s)", quota.Human(r.At.Sub(now)))
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// roundUp returns the first whole second at or after an instant: units that are
// said to return at a second have returned then.
func roundUp(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); !whole.Equal(t) {
		return whole.Add(time.Second)
	}
	return t
}

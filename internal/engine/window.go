package engine

import (
	"math"
	"time"
)

// Window is the time over which a budget counts. Which fields it has depends on
// its kind; the others are zero. Times are in microseconds.
type Window struct {
	Kind WindowKind

	Length int64 // of a sliding window; the longest lease of one in flight; of the steps of a calendar window
	Margin int64 // by how much clocks, or the times of two calls on the wire, may differ

	Zone  *time.Location // of a calendar window
	Unit  CalendarUnit
	First int   // the day at which its weeks (0 is Sunday) or months (1 to 28) begin
	Start int64 // the time of day at which its days, weeks or months do

	Restore int64 // how many units a bucket gets back
	Every   int64 // in which time
}

// WindowKind is a kind of Window.
type WindowKind uint8

// The kinds of window.
const (
	Sliding WindowKind = iota + 1
	Calendar
	Bucket
	InFlight
)

// Floor is a part of a limit that is reserved for the calls of a coverage,
// which is part of the budget's.
type Floor struct {
	Coverage Coverage
	Units    int64
}

// meter tells what one budget's window holds. It belongs to a fold and sees its
// changes. All times are the ledger's, in microseconds.
//
// While nothing is added, load never rises with time, except where until says.
// That is what makes a decision safe that is appended later than it was made.
type meter interface {
	used(now int64) int64                 // what counts at a time
	load(now int64) int64                 // used, and what is reserved by floors: a call must fit beside it
	until(now int64) int64                // load does not rise until after that; 0: it never does
	retry(now, most int64) int64          // the first time from now on at which load is at most most
	returns(now int64) (at, amount int64) // when used falls next, and by how much; 0 if it is 0
	steps(now int64, most int) []loadStep // up to most times at which load falls, each with the load then
}

// loadStep is a time and the load from then on.
type loadStep struct{ at, load int64 }

// Never is later than any time.
const Never = math.MaxInt64

// newMeter returns the meter of a budget's window, for a limit of it. missing
// returns when records are missing that a horizon may need. A new kind of
// window is registered here and in horizon; the rest of it is a file of its
// own.
func newMeter(b *Budget, limit int64, main *series, floors []*series, missing func(horizon int64) int64) meter {
	reserve := newReserve(b, floors)
	switch b.Window.Kind {
	case Calendar:
		return newCalendarMeter(b, main, reserve)
	case Bucket:
		return newBucketMeter(b, limit, main, func() int64 { return missing(b.horizon()) })
	case InFlight:
		return newInFlightMeter(b, main)
	}
	return newSlidingMeter(b, main, reserve)
}

// Horizon returns how old a record can be and still count, in microseconds.
func (w *Window) Horizon(limit int64) int64 {
	switch w.Kind {
	case Calendar:
		return w.calendarHorizon()
	case Bucket:
		return w.bucketHorizon(limit)
	}
	return w.Length + w.Margin
}

// reserve is what the floors of a budget keep for other callers.
type reserve struct {
	floors []reservedFloor
}

type reservedFloor struct {
	series *series
	cursor *cursor
	units  int64
}

func newReserve(b *Budget, floors []*series) *reserve {
	r := &reserve{}
	for i, s := range floors {
		r.floors = append(r.floors, reservedFloor{s, s.newCursor(), b.Floors[i].Units})
	}
	return r
}

// at returns what is reserved if records from a time on count.
func (r *reserve) at(since int64) (kept int64) {
	for i := range r.floors {
		kept += max(0, r.floors[i].units-r.floors[i].cursor.to(since))
	}
	return kept
}

// copy returns a reserve that can look at other times without moving r.
func (r *reserve) copy() *reserve {
	c := &reserve{floors: append([]reservedFloor(nil), r.floors...)}
	for i := range c.floors {
		cursor := *c.floors[i].cursor
		c.floors[i].cursor = &cursor
	}
	return c
}

package decide

// Floor is what is kept for the calls that a list counts. They are part of
// what the charge's own list counts.
type Floor struct {
	List  List
	Units int64
}

// kept returns what of the floors the calls stamped at or after an instant
// have not used.
func (q *Question) kept(since int64) (kept int64) {
	for _, floor := range q.Floors {
		kept += max(0, floor.Units-usedSince(floor.List, since))
	}
	return kept
}

// besideFloors is Fits for a sliding window. When an entry leaves, its floor
// opens by as much at most: what is taken never grows while nobody spends, and
// falls only when a record of list leaves, by as much at most. So the record to
// wait for is searched for by how much must have left: in steps that double,
// since most often little of it goes to floors, and then by halves.
func (q *Question) besideFloors(list List, amount int64) Fit {
	length := q.Window.Length().Microseconds()
	used, since := q.Used(list)
	fit := Fit{Used: used, Kept: q.kept(since)}
	short := fit.Used + fit.Kept + amount - q.Limit
	if short <= 0 {
		return fit
	}
	_, total := list.Newest()
	low, high, step := total-used+short, total, int64(0) // when all has left it fits
	for low < high {
		middle := low + min(step, (high-low)/2)
		after := list.Reach(middle) + 1
		left := list.Before(after)
		if short := total - left + q.kept(after) + amount - q.Limit; short > 0 {
			low, step = max(middle+1, left+short), 2*step+1
		} else {
			high = middle
		}
	}
	fit.RetryAt = list.Reach(high) + length
	return fit
}

// besideDaysFloors is Fits for a daily window.
func (q *Question) besideDaysFloors(list List, amount int64) Fit {
	fit := q.taken(list, q.Day, q.Now)
	if fit.Used+fit.Kept+amount > q.Limit {
		fit.RetryAt = q.from(list, amount, q.Now)
	}
	return fit
}

// taken returns what counts at an instant of a day. When its floors have
// ended, those of the next day hold from its margin on: then it is what counts in
// the fuller of both. Floors that do not end need no second look, since what a day's
// margin takes of the next day is never more than of the day itself.
func (q *Question) taken(list List, day *Day, at int64) Fit {
	fit := Fit{Used: usedSince(list, day.Since)}
	if q.FloorUntil == 0 || at < day.Next-q.FloorUntil {
		fit.Kept = q.kept(day.Since)
		return fit
	}
	if at < day.Next {
		return fit
	}
	if next := (Fit{Used: usedSince(list, day.Next), Kept: q.kept(day.Next)}); next.Used+next.Kept > fit.Used {
		return next
	}
	return fit
}

// from returns the first instant from one on at which amount fits a daily
// window if nobody else spends: then, or when the floors of a day end, or a
// day opens. What is spent now counts into two days at most, and not
// into the third.
func (q *Question) from(list List, amount, at int64) int64 {
	for range 3 {
		day := q.Day
		if !day.Holds(at) {
			day = new(DayOf(*q.Window, at))
		}
		for _, then := range [...]int64{at, max(at, day.Next-q.FloorUntil)} {
			if fit := q.taken(list, day, then); fit.Used+fit.Kept+amount <= q.Limit {
				return then
			}
		}
		at = day.Opens
	}
	return at
}

package decide

// Floor is what is kept for the calls that a list counts. The charge's own list
// counts them too.
type Floor struct {
	List  List
	Units int64
}

// kept returns the part of the floors that calls stamped at or after an instant
// have not used.
func (q *Question) kept(since int64) (kept int64) {
	for _, floor := range q.Floors {
		kept += max(0, floor.Units-usedSince(floor.List, since))
	}
	return kept
}

// besideFloors is Fits for a sliding window. An entry that leaves raises what
// its floor keeps by at most its own amount. So while nothing is spent, used
// and kept together never grow, and fall only when a record of list leaves, by
// at most its amount. The search is for how much must have left: in steps that
// double, since usually little of it goes to floors, then by bisection.
func (q *Question) besideFloors(list List, amount int64) Fit {
	length := q.Window.Length().Microseconds()
	used, since := q.Used(list)
	fit := Fit{Used: used, Kept: q.kept(since)}
	short := fit.Used + fit.Kept + amount - q.Limit
	if short <= 0 {
		return fit
	}
	_, total := list.Newest()
	low, high := total-used+short, total // when all has left it fits
	step := int64(0)
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
	fit := q.usedAndKeptAt(list, q.Day, q.Now)
	if fit.Used+fit.Kept+amount > q.Limit {
		fit.RetryAt = q.firstFit(list, amount, q.Now)
	}
	return fit
}

// usedAndKeptAt returns what counts at an instant of a day. Once the day's
// floors have ended, those of the next day apply from its margin on, and the
// fuller of both days counts. Floors that do not end need no such comparison:
// the calls in the margin take no more of the next day than of the day itself.
func (q *Question) usedAndKeptAt(list List, day *Day, at int64) Fit {
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

// firstFit returns the first instant, from at on, at which amount fits a daily
// window if nothing else is spent: at, or when the floors of a day end or a day
// opens. What is spent now counts in at most two days, so three are tried.
func (q *Question) firstFit(list List, amount, at int64) int64 {
	for range 3 {
		day := q.Day
		if !day.Holds(at) {
			day = new(DayOf(*q.Window, at))
		}
		for _, then := range [...]int64{at, max(at, day.Next-q.FloorUntil)} {
			if fit := q.usedAndKeptAt(list, day, then); fit.Used+fit.Kept+amount <= q.Limit {
				return then
			}
		}
		at = day.Opens
	}
	return at
}

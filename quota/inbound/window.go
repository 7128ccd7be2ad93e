package inbound

// Window is what one limit of one client holds: a log of requests or, of an
// estimate, two counts. The zero Window is empty. It is not safe for concurrent
// use. The script of package redisstore decides in the same way.
type Window struct {
	Times []int64 `json:",omitempty"` // of the requests, oldest first, in microseconds since 1970
	Costs []int64 `json:",omitempty"`

	Period   int64 `json:",omitempty"` // the number of the current period since 1970
	Previous int64 `json:",omitempty"` // what the period before it held
	Current  int64 `json:",omitempty"`
}

// standing brings the window to a time, and returns what it holds.
func (w *Window) standing(now, cost int64, limit *Limit) (s WindowUsage) {
	if limit.Estimate {
		return w.estimate(now, cost, limit)
	}
	per := limit.Per.Microseconds()
	at := w.time(now, per)
	for len(w.Times) > 0 && w.Times[0] <= at-per {
		w.Times, w.Costs = w.Times[1:], w.Costs[1:]
	}
	for _, c := range w.Costs {
		s.Used += c
	}
	if s.Used > 0 {
		s.NextFree = w.Times[0] + per
	}
	over := s.Used + cost - limit.Calls
	for i := 0; over > 0; i++ {
		over -= w.Costs[i]
		s.RetryAt = w.Times[i] + per
	}
	return s
}

// time returns the time at which a log counts a request. If the clock has
// stepped back, that is the time of the newest one; if it has stepped back by
// more than the window, the log starts anew.
func (w *Window) time(now, per int64) int64 {
	if len(w.Times) == 0 {
		return now
	}
	newest := w.Times[len(w.Times)-1]
	if newest > now+per {
		*w = Window{}
		return now
	}
	return max(now, newest)
}

// estimate is standing for two counts. It is in whole milliseconds. If the
// clock has stepped back by up to a period, that does not begin anew.
func (w *Window) estimate(now, cost int64, limit *Limit) (s WindowUsage) {
	length := limit.Per.Milliseconds()
	switch present := now / 1000 / length; present - w.Period {
	case 0, -1:
	case 1:
		*w = Window{Period: present, Previous: w.Current}
	default:
		*w = Window{Period: present}
	}
	at := max(now/1000, w.Period*length)
	covered := (w.Period+1)*length - at // of the previous period
	s.Used = w.Current + (w.Previous*covered+length-1)/length
	if s.Used > 0 {
		s.NextFree = 1000 * w.fallsTo(s.Used-1, length)
	}
	if fits := w.fallsTo(limit.Calls-cost, length); fits > at {
		s.RetryAt = 1000 * fits
	}
	return s
}

// fallsTo returns the millisecond at which the estimate is most or less if no
// request follows: in this period, in the next one, or at any time before.
func (w *Window) fallsTo(most, length int64) int64 {
	start, falling := w.Period*length, w.Previous
	if most < w.Current { // in the next period, in which the current count falls
		start, falling = start+length, w.Current
	} else {
		most -= w.Current
	}
	if falling == 0 {
		return start
	}
	return start + length - most*length/falling
}

// add counts a request at a time to which standing has brought the window.
func (w *Window) add(now, cost int64, limit *Limit) {
	if limit.Estimate {
		w.Current += cost
		return
	}
	w.Times = append(w.Times, w.time(now, limit.Per.Microseconds()))
	w.Costs = append(w.Costs, cost)
}

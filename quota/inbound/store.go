package inbound

import (
	"cmp"
	"context"
	"time"
)

// Store keeps what each client has asked for. Memory, redisstore.Open and
// sqlitestore.Open return one. It is safe for concurrent use.
type Store interface {
	// Count counts a request in all of its limits if it fits each of them, and
	// in none otherwise. A request that does not fit is not an error. After an
	// error the request may have been counted, at most once.
	Count(ctx context.Context, r *Request) (*Answer, error)
}

// Request is one request as a store counts it. Times, here and in Answer, are
// microseconds since 1970.
type Request struct {
	Client string  // unique among all limiters
	Limits []Limit // at least one
	Cost   int64   // 1 to the lowest Calls of the limits
	At     int64   // 0 means the store's clock
}

// Key returns the key of a limit, by its index, for the request's client. The
// keys of one client are in one slot of a Redis Cluster.
func (r *Request) Key(i int) string {
	kind := "}log:"
	if r.Limits[i].Estimate {
		kind = "}counter:"
	}
	return "inbound:{" + r.Client + kind + r.Limits[i].name()
}

// Answer is what a store says of a request.
type Answer struct {
	Admitted     bool
	At           int64         // when it was decided
	WindowUsages []WindowUsage // of each limit, in their order
}

// WindowUsage is what a limit holds, with the request if it was admitted.
type WindowUsage struct {
	Used     int64 // of the limit's Calls
	NextFree int64 // when Used falls next, or 0 if it is 0
	RetryAt  int64 // when the request fits if no other comes, or 0 if it fits now
}

// Decide decides a request for a store that keeps windows, one for each limit.
// If it is admitted, the windows have changed, and the store must keep them. At
// is this host's time if the request has none.
func Decide(r *Request, windows []*Window) *Answer {
	at := cmp.Or(r.At, time.Now().UnixMicro())
	a := &Answer{Admitted: true, At: at, WindowUsages: make([]WindowUsage, len(windows))}
	for i, w := range windows {
		a.WindowUsages[i] = w.standing(at, r.Cost, &r.Limits[i])
		a.Admitted = a.Admitted && a.WindowUsages[i].RetryAt == 0
	}
	if a.Admitted {
		for i, w := range windows {
			w.add(at, r.Cost, &r.Limits[i])
			a.WindowUsages[i] = w.standing(at, 0, &r.Limits[i])
		}
	}
	return a
}

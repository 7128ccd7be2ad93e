// Package inbound limits what each client of an HTTP server may ask for:
//
//	limiter, err := inbound.New(inbound.Memory(), []inbound.Limit{
//		{Calls: 10, Per: time.Second},
//		{Calls: 3000, Per: 10 * time.Minute},
//	}, nil)
//	http.Handle("/search", limiter.Handler(search))
//
// A request is let through if it fits all limits. One that does not is answered
// with 429, and counts in none. The windows slide, so a client does not get two
// bursts around the turn of a minute. Servers that share a Store share the
// limits: Memory is for one process, package sqlitestore for one host, package
// redisstore for several.
package inbound

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Limit is how many requests a client may make in a time.
type Limit struct {
	Calls int64         // 1 to 1e12
	Per   time.Duration // 1ms to 400 days, in whole microseconds

	// Estimate keeps two integers for each client in place of a log of its
	// requests: the counts of the current period and of the one before it, each
	// of length Per. The previous count is weighted with the part of its period
	// that the window still covers, as if its requests had been spread evenly.
	// The error is at most that count. At a fraction f of the current period
	// the window may really hold up to 1+f times Calls, always less than twice
	// Calls. The estimate may also refuse what an exact window would admit. Per
	// must be in whole milliseconds, and their number times Calls at most 1<<52:
	// 52 million calls a day, for example.
	Estimate bool
}

// check returns what is wrong with a limit, or nil.
func (l *Limit) check() error {
	switch {
	case l.Calls < 1 || l.Calls > 1e12:
		return fmt.Errorf("inbound: limit of %s; give 1 to 1e12 calls", l.name())
	case l.Per < time.Millisecond || l.Per > 400*24*time.Hour || l.Per%time.Microsecond != 0:
		return fmt.Errorf("inbound: limit of %s; give a time of 1ms to 400 days, in whole microseconds", l.name())
	case l.Estimate && l.Per%time.Millisecond != 0:
		return fmt.Errorf("inbound: estimated limit of %s; give a time in whole milliseconds", l.name())
	case l.Estimate && l.Calls > 1<<52/l.Per.Milliseconds():
		return fmt.Errorf("inbound: estimated limit of %s; give at most %d calls", l.name(), 1<<52/l.Per.Milliseconds())
	}
	return nil
}

// name returns the limit as it is named in headers: 3000 in 10m0s is 3000/10m.
func (l *Limit) name() string {
	per := strings.Replace(l.Per.String()+" ", "m0s ", "m ", 1)
	return fmt.Sprintf("%d/%s", l.Calls, strings.TrimSpace(strings.Replace(per, "h0m ", "h", 1)))
}

// Options configures New. A nil *Options is the default.
type Options struct {
	// Name separates the clients of limiters that share a store. Limiters of
	// one name share the counts of equal limits. "" is inbound.
	Name string

	// Client returns the client that makes a request. Requests for which it
	// returns "" share one count. nil is Address with no trusted proxy.
	Client func(*http.Request) string

	// Cost returns how many of the calls a request counts as, at least 1. nil
	// is 1 for each. A cost above Calls is answered with 413.
	Cost func(*http.Request) int64

	// FailClosed answers 503 to requests that the store cannot decide. By
	// default they pass: a limiter that is down should not stop the server.
	FailClosed bool

	// Timeout is how long the store may take for a decision. 0 is a second.
	Timeout time.Duration

	// Report is called with the errors of the store. It must be safe for
	// concurrent use. nil drops them.
	Report func(error)

	// Now is the clock, for tests. nil is the store's.
	Now func() time.Time
}

// Limiter limits the clients of HTTP handlers. It is safe for concurrent use.
type Limiter struct {
	options Options
	store   Store
	limits  []Limit
}

// New returns a Limiter that counts requests in store. It returns an error if
// there is no limit, if one is out of range, or if two have the same Calls
// and Per.
func New(store Store, limits []Limit, o *Options) (*Limiter, error) {
	l := &Limiter{store: store}
	if o != nil {
		l.options = *o
	}
	l.options.Name = url.QueryEscape(cmp.Or(l.options.Name, "inbound")) // without : and }
	if l.options.Client == nil {
		l.options.Client = Address()
	}
	l.options.Timeout = cmp.Or(max(0, l.options.Timeout), time.Second)
	if len(limits) == 0 {
		return nil, errors.New("inbound: no limit; give at least one")
	}
	for _, limit := range limits {
		if err := limit.check(); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(l.limits, func(other Limit) bool { return other.name() == limit.name() }) {
			return nil, fmt.Errorf("inbound: two limits of %s; remove one", limit.name())
		}
		l.limits = append(l.limits, limit)
	}
	return l, nil
}

// Package inbound limits what each client of an HTTP server may ask for, with
// the windows and ledgers that guard outgoing calls:
//
//	limiter, err := inbound.New(ledger, []inbound.Limit{
//		{Calls: 10, Per: time.Second},
//		{Calls: 3000, Per: 10 * time.Minute},
//	}, nil)
//	http.Handle("/search", limiter.Handler(search))
//
// All servers that share the ledger share the limits. A request is let through
// if it fits all of them; one that does not is answered with 429, and counts in
// none. The windows slide, so that no client gets two bursts around the turn of
// a minute.
package inbound

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Limit is how many requests a client may make in a time.
type Limit struct {
	Calls quota.Units
	Per   time.Duration // in whole microseconds

	// Estimate keeps two counters for each client in place of a log of its
	// requests; see quota.Counter for the error. It takes a few bytes for each
	// client, however high the limit is.
	Estimate bool
}

// name returns the limit as it is named in headers: 3000 in 10m0s is 3000/10m.
func (l *Limit) name() string {
	per := l.Per.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if n := len(per) - len(zero); n > 0 && per[n:] == zero {
			per = per[:n+1]
		}
	}
	return fmt.Sprintf("%d/%s", l.Calls, per)
}

// Options configures New. A nil *Options is the default.
type Options struct {
	// Name separates the clients of limiters that share a ledger. ""
	// is inbound.
	Name string

	// Client returns who makes a request: all requests of one client share its
	// limits. nil is Address with no trusted proxy. Requests for which it
	// returns "" share one count.
	Client func(*http.Request) string

	// Cost returns how many of the calls a request counts as, at least 1. nil
	// is 1 for each.
	Cost func(*http.Request) quota.Units

	// FailClosed answers 503 to requests that the ledger cannot decide. By
	// default they are let through, since a limiter that is down should not
	// take the server with it.
	FailClosed bool

	// Timeout is how long the ledger may take for a decision. 0 is a second.
	Timeout time.Duration

	// Report is called with the errors of the ledger. It must be safe for
	// concurrent use. nil drops them.
	Report func(error)
}

// Limiter limits the clients of HTTP handlers. It is safe for concurrent use.
type Limiter struct {
	options Options
	guard   *quota.Guard
}

// New returns a Limiter that counts requests in ledger. It returns an error for
// limits that a budget cannot have, and for two that are the same.
func New(ledger quota.Log, limits []Limit, o *Options) (*Limiter, error) {
	l := &Limiter{}
	if o != nil {
		l.options = *o
	}
	l.options.Name = cmp.Or(l.options.Name, "inbound")
	if l.options.Client == nil {
		l.options.Client = Address()
	}
	if l.options.Timeout <= 0 {
		l.options.Timeout = time.Second
	}
	if len(limits) == 0 {
		return nil, errors.New("inbound: no limit; give at least one")
	}
	var budgets []quota.Budget
	for _, limit := range limits {
		window := quota.Sliding(limit.Per)
		if limit.Estimate {
			window = quota.Counter(limit.Per)
		}
		budgets = append(budgets, quota.Budget{Account: l.options.Name, Name: limit.name(), Limit: limit.Calls, Window: window})
	}
	var err error
	if l.guard, err = quota.NewGuard(ledger, budgets, nil); err != nil {
		return nil, fmt.Errorf("inbound: %w", err)
	}
	return l, nil
}

// Handler returns a handler that passes to next the requests that fit. Its
// answers have the headers that SetHeaders sets.
func (l *Limiter) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), l.options.Timeout)
		grant, err := l.guard.Spend(ctx, l.call(r))
		cancel()
		refused, isRefused := errors.AsType[*quota.RefusedError](err)
		switch {
		case err == nil:
			SetHeaders(w.Header(), grant.Balances())
		case isRefused:
			l.refuse(w, refused)
			return
		case errors.Is(err, quota.ErrNeverFits) || errors.Is(err, quota.ErrBadCall):
			writeProblem(w, http.StatusRequestEntityTooLarge, "the request counts more than its limit allows")
			return
		case errors.Is(context.Cause(r.Context()), context.Canceled):
			return // the client has gone
		default:
			if l.options.Report != nil {
				l.options.Report(err)
			}
			if l.options.FailClosed {
				w.Header().Set("Retry-After", "1")
				writeProblem(w, http.StatusServiceUnavailable, "requests cannot be counted at the moment")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// maxKey is the most bytes of a client's name that are kept as they are.
const maxKey = 64

// call returns the call that a request counts as.
func (l *Limiter) call(r *http.Request) quota.Call {
	key := l.options.Client(r)
	if len(key) > maxKey {
		sum := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(sum[:])
	}
	call := quota.Call{Account: l.options.Name, Key: cmp.Or(key, "-"), Method: "request", Units: 1}
	if l.options.Cost != nil {
		call.Units = max(1, l.options.Cost(r))
	}
	return call
}

// refuse answers a request that does not fit.
func (l *Limiter) refuse(w http.ResponseWriter, refused *quota.RefusedError) {
	for _, b := range l.guard.Covering(quota.Call{Account: refused.Account, Method: refused.Method}) {
		if b.Name == refused.Budget {
			at := refused.RetryAt.Add(-refused.RetryAfter)
			SetHeaders(w.Header(), []quota.Balance{{Budget: b, At: at, Used: refused.Used, Remaining: refused.Remaining, NextFree: refused.RetryAt}})
		}
	}
	w.Header().Set("Retry-After", strconv.FormatInt(max(1, ceilSeconds(refused.RetryAfter)), 10))
	writeProblem(w, http.StatusTooManyRequests, fmt.Sprintf("the limit of %s is reached", refused.Budget))
}

// writeProblem writes an answer in the form of RFC 9457.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail})
}

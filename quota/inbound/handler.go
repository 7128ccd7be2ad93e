package inbound

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Handler returns a handler that passes to next the requests that fit. Its
// answers have the headers that SetHeaders sets.
func (l *Limiter) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cost := int64(1)
		if l.options.Cost != nil {
			cost = max(1, l.options.Cost(r))
		}
		if slices.ContainsFunc(l.limits, func(limit Limit) bool { return limit.Calls < cost }) {
			writeProblem(w, http.StatusRequestEntityTooLarge, "the request counts more than its limit allows")
			return
		}
		answer, err := l.count(r.Context(), l.options.Client(r), cost)
		switch {
		case err == nil && answer.Admitted:
			SetHeaders(w.Header(), l.balances(answer))
		case err == nil:
			l.refuse(w, answer)
			return
		case errors.Is(context.Cause(r.Context()), context.Canceled):
			return // the client has gone
		default:
			if l.options.Report != nil {
				l.options.Report(fmt.Errorf("inbound: count a request: %w", err))
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

// Count counts a request that reached the program in another way than Handler,
// from a client that the caller names. It reports whether the request was
// admitted, and what is left of each limit, or of those that refuse it.
func (l *Limiter) Count(ctx context.Context, client string) (admitted bool, left []Balance, err error) {
	answer, err := l.count(ctx, client, 1)
	if err != nil {
		return false, nil, err
	}
	return answer.Admitted, l.balances(answer), nil
}

// count has the store count a request.
func (l *Limiter) count(ctx context.Context, client string, cost int64) (*Answer, error) {
	client = cmp.Or(client, "-")
	if len(client) > 64 {
		client = fmt.Sprintf("%x", sha256.Sum256([]byte(client)))
	}
	request := &Request{Client: l.options.Name + ":" + client, Limits: l.limits, Cost: cost}
	if l.options.Now != nil {
		request.At = l.options.Now().UnixMicro()
	}
	ctx, cancel := context.WithTimeout(ctx, l.options.Timeout)
	defer cancel()
	return l.store.Count(ctx, request)
}

// balances returns what an answer says of each limit, or of those that refuse.
func (l *Limiter) balances(a *Answer) (balances []Balance) {
	for i, limit := range l.limits {
		s := a.WindowUsages[i]
		if !a.Admitted && s.RetryAt == 0 {
			continue
		}
		b := Balance{Name: limit.name(), Limit: limit.Calls, Window: limit.Per, At: time.UnixMicro(a.At),
			Remaining: max(0, limit.Calls-s.Used)}
		if next := cmp.Or(s.RetryAt, s.NextFree); next != 0 {
			b.NextFree = time.UnixMicro(next)
		}
		balances = append(balances, b)
	}
	return balances
}

// refuse answers a request that does not fit. The headers name the limit for
// which the client must wait longest.
func (l *Limiter) refuse(w http.ResponseWriter, a *Answer) {
	b := slices.MaxFunc(l.balances(a), func(a, b Balance) int { return a.NextFree.Compare(b.NextFree) })
	SetHeaders(w.Header(), []Balance{b})
	w.Header().Set("Retry-After", strconv.FormatInt(b.RetryAfter(), 10))
	writeProblem(w, http.StatusTooManyRequests, fmt.Sprintf("the limit of %s is reached", b.Name))
}

// writeProblem writes an answer in the form of RFC 9457.
func writeProblem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": detail})
}

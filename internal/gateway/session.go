package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// tokenPrefix begins the tokens of sessions, so that one which has ended is not
// taken for an upstream's credential.
const tokenPrefix = "ration_"

// Session is the use of a gateway by one program, which has a token of its own.
type Session struct {
	// Token is what the program sends.
	Token string

	gateway         *Gateway
	fixed, fallback quota.Caller
	key             string // of all calls, if it is not empty

	mu      sync.Mutex
	refused error
	stopped *connected // if refused is the upstream's; that client has the cooldown
}

// NewSession returns a session, whose calls are attributed to fixed, and have
// the key. Requests may set the fields that are empty in fixed; fallback fills
// the rest. They may have any key if key is empty.
func (g *Gateway) NewSession(fixed, fallback quota.Caller, key string) *Session {
	s := &Session{Token: tokenPrefix + rand.Text(), gateway: g, fixed: fixed, fallback: fallback, key: key}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sessions[s.Token] = s
	return s
}

// Caller returns to whom a call is attributed that asks for asked.
func (s *Session) Caller(asked quota.Caller) quota.Caller {
	return quota.Caller{
		Lane:   cmp.Or(s.fixed.Lane, asked.Lane, s.fallback.Lane),
		Job:    cmp.Or(s.fixed.Job, asked.Job, s.fallback.Job),
		Region: cmp.Or(s.fixed.Region, asked.Region, s.fallback.Region),
	}
}

// Key returns the key of all calls of the session, or "" if each may have its
// own.
func (s *Session) Key() string { return s.key }

// End makes the token invalid.
func (s *Session) End() {
	s.gateway.mu.Lock()
	defer s.gateway.mu.Unlock()
	delete(s.gateway.sessions, s.Token)
}

// Refused returns the session's latest refusal, or nil: a *quota.RefusedError
// of a budget, a cooldown or the upstream, or an error of the ledger that has
// granted none since. A refusal by the upstream is one that has set a cooldown,
// and is over when that ends.
func (s *Session) Refused(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	upstream, ok := errors.AsType[*quota.RefusedError](s.refused)
	if s.stopped == nil || !ok {
		return s.refused
	}
	refused := *upstream
	if now, end := cooldownEnd(ctx, s.stopped.Guard(), quota.Call{Account: refused.Account, Key: refused.Key},
		refused.Budget); !end.IsZero() {
		refused.RetryAt, refused.RetryAfter = end, end.Sub(now)
	}
	return &refused
}

// recordRefusal records err if a call was not made because of it: it is a
// refusal, or the ledger's. s may be nil.
func (s *Session) recordRefusal(err error) {
	_, refused := errors.AsType[*quota.RefusedError](err)
	if s == nil || !refused && problemOf(err).Status != http.StatusServiceUnavailable {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused, s.stopped = err, nil
}

// recordGrant forgets an error of the ledger, which grants calls again. s may
// be nil.
func (s *Session) recordGrant() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, refused := errors.AsType[*quota.RefusedError](s.refused); !refused {
		s.refused = nil
	}
}

// recordVerdict records what an upstream's answer to a call says, if it sets a
// cooldown. s may be nil.
func (s *Session) recordVerdict(c *connected, call quota.Call, v *quota.Verdict) {
	if s == nil || v.For <= 0 || v.Never {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = c
	s.refused = &quota.RefusedError{Account: call.Account, Key: call.Key, OfKey: v.KeyOf(&call) != "", Budget: v.Budget,
		Method: call.Method, Units: call.Units, Needed: call.Units, Caller: call.Caller,
		Reason: quota.ReasonCooldown, Detail: v.Reason, RetryAt: time.Now().Add(v.For), RetryAfter: v.For}
}

// keyOf returns the key of a request that asks for one: that of its session
// comes first.
func keyOf(r *http.Request, asked string) (string, error) {
	if s := sessionOf(r); s != nil && s.key != "" {
		asked = s.key
	}
	return asked, engine.CheckKey(asked)
}

type sessionKey struct{}

// sessionOf returns the session of a request, or nil.
func sessionOf(r *http.Request) *Session {
	s, _ := r.Context().Value(sessionKey{}).(*Session)
	return s
}

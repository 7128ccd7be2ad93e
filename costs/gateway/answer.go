package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
)

// Spend is the answer to a spend, granted or not, in JSON. Command ration prints
// the same.
type Spend struct {
	Granted    bool         `json:"granted"`
	Grant      *string      `json:"grant"`  // what settle, refund and report take
	Grants     []string     `json:"grants"` // one for each call
	Account    string       `json:"account"`
	Method     string       `json:"method"`
	Units      quota.Units  `json:"units"` // the cost of each call
	Calls      int          `json:"calls"`
	Used       *quota.Units `json:"used"`
	Remaining  *quota.Units `json:"remaining"`
	Limit      *quota.Units `json:"limit"`
	NextFreeAt *time.Time   `json:"next_free_at"`
	RetryAfter *int64       `json:"retry_after_s"`
	RetryAt    *time.Time   `json:"retry_at"`
	Budget     *string      `json:"budget"`
	Shortfall  *quota.Units `json:"shortfall"` // how much the budget lacks
	Reason     *string      `json:"reason"`
	LimitUntil *time.Time   `json:"limit_until,omitempty"` // when limit ends, if another configuration has asked it
}

// NewSpend returns the answer to a spend of count calls, with its grants or the
// error that refused them. now is a clock for tests; see client.RefusedAt.
func NewSpend(c *client.Client, call quota.Call, count int, grants []*quota.Grant, err error, now func() time.Time) *Spend {
	s := &Spend{Granted: err == nil, Grants: []string{}, Account: call.Account, Method: call.Method, Units: call.Units, Calls: count}
	for _, grant := range grants {
		s.Grants = append(s.Grants, grant.Token())
	}
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		s.RetryAt, s.RetryAfter, s.Reason = human.Instant(refused.RetryAt), new(human.SecondsUntil(client.RefusedAt(refused, now), refused.RetryAt)), new(refused.Error())
		s.LimitUntil = human.Instant(refused.LimitUntil)
		if refused.Budget != "" {
			s.Used, s.Remaining, s.Limit, s.Budget = &refused.Used, &refused.Remaining, &refused.Limit, &refused.Budget
			s.Shortfall = new(max(0, refused.Needed-refused.Remaining))
		}
		return s
	}
	if len(grants) == 0 {
		return s
	}
	s.Grant = &s.Grants[0]
	if tightest, ok := grants[len(grants)-1].Tightest(); ok {
		s.Used, s.Remaining, s.Limit = &tightest.Used, &tightest.Remaining, new(tightest.Limit())
		s.NextFreeAt, s.Budget = human.Instant(tightest.NextFree), &tightest.Budget.Name
		s.LimitUntil = human.Instant(tightest.LimitUntil)
	} else if outage := c.Outage(); outage != nil && outage.Down {
		s.Reason = new("within the allowance: " + outage.Reason)
	}
	return s
}

// problem is an answer that says why something was not done: RFC 9457.
type problem struct {
	status int
	body   map[string]any
	header http.Header
}

// newProblem returns the problem of a kind, which is stable.
func newProblem(status int, kind, format string, args ...any) *problem {
	return &problem{status: status, header: http.Header{}, body: map[string]any{
		"type": "urn:ration:" + kind, "title": strings.ReplaceAll(kind, "-", " "), "status": status, "detail": fmt.Sprintf(format, args...)}}
}

func (p *problem) write(w http.ResponseWriter) {
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(p.body)
}

// problemOf returns the problem that an error is.
func problemOf(err error) *problem {
	is := func(target error) bool { return errors.Is(err, target) }
	kind, status := "failed", http.StatusInternalServerError
	switch {
	case is(quota.ErrReused):
		kind, status = "key-reused", http.StatusUnprocessableEntity
	case is(quota.ErrNeverFits):
		kind, status = "never-fits", http.StatusUnprocessableEntity
	case is(costs.ErrNoRoute), is(costs.ErrNoCost), is(costs.ErrManyUpstreams):
		kind, status = "unknown-method", http.StatusUnprocessableEntity
	case is(quota.ErrBadCall), is(quota.ErrBadToken):
		kind, status = "bad-call", http.StatusUnprocessableEntity
	case is(quota.ErrStays):
		kind, status = "too-late", http.StatusConflict
	case is(quota.ErrLedgerBusy):
		kind, status = "ledger-busy", http.StatusServiceUnavailable
	case is(quota.ErrInDoubt):
		kind, status = "in-doubt", http.StatusServiceUnavailable
	case is(quota.ErrLedgerDown), is(quota.ErrLedgerConfig), is(quota.ErrLedgerLost):
		kind, status = "ledger-down", http.StatusServiceUnavailable
	}
	p := newProblem(status, kind, "%v", err)
	if status == http.StatusServiceUnavailable {
		p.header.Set("Retry-After", "1")
	}
	return p
}

// refusal returns the problem of a call that was not granted.
func (c *connected) refusal(call quota.Call, count int, err error) *problem {
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if !ok {
		p := problemOf(err)
		p.body["granted"] = false
		return p
	}
	p := newProblem(http.StatusTooManyRequests, "refused", "%s", refused.Short())
	answer, _ := json.Marshal(NewSpend(c.Client, call, count, nil, err, nil))
	_ = json.Unmarshal(answer, &p.body)
	p.body["why"] = refused.Error()
	seconds := *NewSpend(c.Client, call, count, nil, err, nil).RetryAfter
	p.header.Set("Retry-After", strconv.FormatInt(max(1, seconds), 10))
	by := refused.Budget
	if by == "" {
		by = refused.Account
	}
	p.header.Set(headerRefusedBy, headerText(by))
	var balances []quota.Balance
	for _, b := range c.Guard().Covering(call) {
		if b.Name == refused.Budget {
			balances = append(balances, quota.Balance{Budget: b, At: refused.RetryAt.Add(-refused.RetryAfter), Remaining: refused.Remaining, NextFree: refused.RetryAt})
		}
	}
	setRateLimit(p.header, balances)
	return p
}

// setRateLimit sets the fields of draft-ietf-httpapi-ratelimit-headers-10 (q: the
// limit, w: the window in seconds, r: what remains, t: seconds until more does),
// and the older X-RateLimit ones for the budget with the least left. Their reset
// is in seconds since 1970.
func setRateLimit(header http.Header, balances []quota.Balance) {
	var policies, limits []string
	var tightest *quota.Balance
	for i := range balances {
		b := &balances[i]
		name := quoted(b.Budget.Name)
		policies = append(policies, fmt.Sprintf("%s;q=%d;w=%d", name, b.Budget.Limit, int64(b.Budget.Window.Horizon().Seconds())))
		limit := fmt.Sprintf("%s;r=%d", name, b.Remaining)
		if !b.NextFree.IsZero() {
			limit += fmt.Sprintf(";t=%d", human.SecondsUntil(b.At, b.NextFree))
		}
		limits = append(limits, limit)
		if tightest == nil || b.Remaining < tightest.Remaining {
			tightest = b
		}
	}
	if tightest == nil {
		return
	}
	header.Set("RateLimit-Policy", strings.Join(policies, ", "))
	header.Set("RateLimit", strings.Join(limits, ", "))
	header.Set("X-RateLimit-Limit", strconv.FormatInt(int64(tightest.Budget.Limit), 10))
	header.Set("X-RateLimit-Remaining", strconv.FormatInt(int64(tightest.Remaining), 10))
	reset := tightest.NextFree
	if reset.IsZero() {
		reset = tightest.At
	}
	header.Set("X-RateLimit-Reset", strconv.FormatInt(reset.Add(time.Second-1).Unix(), 10))
}

// headerText returns a name as it may stand in a header: other characters than
// those of ASCII become ?.
func headerText(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
}

// quoted returns a name as a string of RFC 9651.
func quoted(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(headerText(name)) + `"`
}

func writeJSON(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(document)
}

package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/inbound"
)

// Spend is the answer to a spend, granted or not, in JSON. Command ration
// prints the same.
type Spend struct {
	Granted    bool         `json:"granted"`
	Grant      *string      `json:"grant"`  // what settle, refund and report take
	Grants     []string     `json:"grants"` // one for each call
	Account    string       `json:"account"`
	Method     string       `json:"method"`
	Key        *string      `json:"key,omitempty"`
	Units      quota.Units  `json:"units"` // the cost of each call
	Amounts    Amounts      `json:"amounts,omitempty"`
	Calls      int          `json:"calls"`
	Measure    string       `json:"measure,omitempty"` // of the budget, if it does not count units
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
func NewSpend(c *client.Client, call quota.Call, count int, grants []*quota.Grant, err error,
	now func() time.Time) *Spend {
	s := &Spend{Granted: err == nil, Grants: []string{}, Account: call.Account, Method: call.Method,
		Key:   human.Optional(call.Key),
		Units: call.Units, Amounts: newAmounts(call.Measures), Calls: count}
	for _, grant := range grants {
		s.Grants = append(s.Grants, grant.Token())
	}
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		s.RetryAt = human.OptionalTime(refused.RetryAt)
		s.RetryAfter = new(human.SecondsUntil(client.RefusedAt(refused, now), refused.RetryAt))
		s.Reason = new(refused.Error())
		s.LimitUntil = human.OptionalTime(refused.LimitUntil)
		s.Budget = human.Optional(refused.Budget)
		isKnown := refused.Limit > 0
		if isKnown {
			s.Limit, s.Measure = &refused.Limit, string(refused.Measure)
		}
		if isKnown && !refused.IsOfProcess() { // which was not asked what it holds
			s.Used, s.Remaining = &refused.Used, &refused.Remaining
			s.Shortfall = new(max(0, refused.Needed-refused.Remaining))
		}
		return s
	}
	if len(grants) == 0 {
		return s
	}
	s.Grant, s.Units = &s.Grants[0], grants[0].Call().Units
	s.Amounts = newAmounts(grants[0].Call().Measures)
	if tightest, ok := grants[len(grants)-1].Tightest(); ok {
		s.Used = &tightest.Used
		s.Remaining = &tightest.Remaining
		s.Limit, s.Measure = new(tightest.Limit()), string(tightest.Budget.Measure)
		s.NextFreeAt, s.Budget = human.OptionalTime(tightest.NextFree), &tightest.Budget.Name
		s.LimitUntil = human.OptionalTime(tightest.LimitUntil)
	} else if outage := c.Outage(); outage != nil && outage.Down {
		s.Reason = new("within the allowance: " + outage.Reason)
	}
	return s
}

// Describe says what was granted. covered says whether any budget covers the
// call.
func (s *Spend) Describe(covered bool) string {
	granted := fmt.Sprintf("granted: %s %d", s.Method, s.Units)
	if s.Calls > 1 {
		granted = fmt.Sprintf("granted: %d calls of %s, %d each", s.Calls, s.Method, s.Units)
	}
	switch {
	case s.Remaining != nil:
		left := strconv.FormatInt(int64(*s.Remaining), 10)
		if s.Measure != "" {
			left = quota.Measure(s.Measure).Text(*s.Remaining)
		}
		return fmt.Sprintf("%s; %s has %s left", granted, *s.Budget, left)
	case s.Reason != nil:
		return fmt.Sprintf("%s, %s", granted, *s.Reason)
	case !covered:
		return granted + "; no budget covers it"
	}
	return granted + ", once with this key" // an earlier spend with the same key
}

// problem is an answer that says why something was not done: RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	*Spend
	Why string `json:"why,omitempty"` // of a refusal: Detail, and when to try again

	header http.Header
}

// maxDetail is the most bytes of a detail in headerDetail.
const maxDetail = 1000

// newProblem returns the problem of a kind, which is stable.
func newProblem(status int, kind, format string, args ...any) *problem {
	return &problem{Type: "urn:ration:" + kind, Title: strings.ReplaceAll(kind, "-", " "), Status: status,
		Detail: report.WithoutPackage(fmt.Sprintf(format, args...)), header: http.Header{}}
}

// Error returns the detail.
func (p *problem) Error() string { return p.Detail }

func (p *problem) write(w http.ResponseWriter) { p.writeAs(w, p) }

// writeAs writes a document that has the members of the problem.
func (p *problem) writeAs(w http.ResponseWriter, document any) {
	maps.Copy(w.Header(), p.header)
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set(headerDetail, inbound.HeaderText(human.Shorten(p.Detail, maxDetail)))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(document)
}

// problemOf returns the problem that an error is.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
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
	case is(quota.ErrLedgerBusy):
		kind, status = "ledger-busy", http.StatusServiceUnavailable
	case is(quota.ErrInDoubt):
		kind, status = "in-doubt", http.StatusServiceUnavailable
	case is(quota.ErrLedgerConfig):
		kind, status = "ledger-misconfigured", http.StatusServiceUnavailable
	case is(quota.ErrLedgerDown), is(quota.ErrLedgerClosed):
		kind, status = "ledger-down", http.StatusServiceUnavailable
	}
	p := newProblem(status, kind, "%v", err)
	switch {
	case is(quota.ErrLedgerConfig): // until someone changes it
		p.header.Set("Retry-After", "60")
	case status == http.StatusServiceUnavailable:
		p.header.Set("Retry-After", "1")
	}
	return p
}

// refusal returns the problem of calls that were not granted.
func (c *connected) refusal(call quota.Call, count int, err error) *problem {
	spend := NewSpend(c.Client, call, count, nil, err, nil)
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if !ok {
		p := problemOf(err)
		p.Spend = spend
		return p
	}
	p := newProblem(http.StatusTooManyRequests, "refused", "%s", refused.Short())
	p.Spend, p.Why = spend, refused.Error()
	p.header.Set("Retry-After", strconv.FormatInt(max(1, *spend.RetryAfter), 10))
	p.header.Set(headerRefusedBy, inbound.HeaderText(cmp.Or(refused.Budget, refused.Account)))
	for _, b := range c.Guard().Covering(call) {
		if b.Name == refused.Budget {
			at := client.RefusedAt(refused, nil)
			setBalances(p.header, []quota.Balance{{Budget: b, StricterLimit: refused.Limit, At: at,
				Remaining: refused.Remaining, NextFree: refused.RetryAt}})
		}
	}
	return p
}

// maxChunk is how much of an answer a client must read within limits.answer.
const maxChunk = 64 << 10

func (g *Gateway) writeJSON(w http.ResponseWriter, status int, document any) {
	text, err := json.Marshal(document)
	if err != nil {
		problemOf(err).write(w)
		return
	}
	g.writeAnswer(w, status, "application/json", append(text, '\n'))
}

// writeAnswer writes an answer to a client that may read it slowly, but reads
// it. Before the header, net/http reads the rest of a body that the handler did
// not read.
func (g *Gateway) writeAnswer(w http.ResponseWriter, status int, kind string, text []byte) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(g.limits.answer + g.limits.body))
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	for len(text) > maxChunk {
		n, err := w.Write(text[:maxChunk])
		if err != nil {
			return
		}
		text = text[n:]
		_ = control.SetWriteDeadline(time.Now().Add(g.limits.answer + g.limits.body))
	}
	_, _ = w.Write(text)
}

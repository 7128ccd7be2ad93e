package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// Answer is what an upstream answered, as a program reports it.
type Answer struct {
	Status  int                     `json:"status"`
	Headers map[string]HeaderValues `json:"headers"`
	Body    string                  `json:"body"`
	Units   *quota.Units            `json:"units"` // what the call really cost, if the program knows
	Amounts Amounts                 `json:"amounts"`
}

// HeaderValues are the values of a header. In JSON they may be one string.
type HeaderValues []string

// UnmarshalJSON implements json.Unmarshaler.
func (v *HeaderValues) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*v = HeaderValues{one}
		return nil
	}
	var all []string
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("a header's value is a string, or a list of strings")
	}
	*v = all
	return nil
}

// response returns the answer as package feedback reads it.
func (a *Answer) response() *http.Response {
	header := http.Header{}
	for name, values := range a.Headers {
		name = textproto.CanonicalMIMEHeaderKey(name)
		header[name] = append(header[name], values...)
	}
	return &http.Response{StatusCode: a.Status, Status: fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status)),
		Header:     header,
		ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(len(a.Body)), Body: io.NopCloser(strings.NewReader(a.Body))}
}

// Apply applies an answer to a call, as client.Client does for its own
// requests. grant may be nil, if it is not known; then nothing is settled.
func (a *Answer) Apply(ctx context.Context, c *client.Client, call quota.Call, grant *quota.Grant) (*ReportResult,
	error) {
	if a.Status < 100 || a.Status > 599 {
		return nil, fmt.Errorf("%w: status %d; give the upstream's, 100 to 599", quota.ErrBadCall, a.Status)
	}
	if grant != nil && len(c.Table().Measures(call.Account)) > 0 {
		grant.Refresh(ctx)
		call = grant.Call()
	}
	resp := a.response()
	defer resp.Body.Close()
	verdict, err := c.Answered(ctx, call, grant, resp)
	if err == nil {
		err = settleTo(ctx, c, grant, Given{a.Units, a.Amounts})
	}
	if err == nil {
		err = grant.End(ctx)
	}
	if err != nil {
		return nil, err
	}
	result := &ReportResult{Retry: verdict.Transient && !verdict.Never}
	if grant != nil {
		grant.Refresh(ctx)
		result.Units = new(grant.Call().Units)
		result.Amounts = newAmounts(grant.Call().Measures)
	}
	if verdict.For > 0 {
		lasts := human.Seconds(verdict.For)
		now, until := cooldownEnd(ctx, c.Guard(), call, verdict.Budget)
		if !until.IsZero() { // of a longer one, perhaps, that was in force
			lasts = human.SecondsUntil(now, until)
		}
		result.Cooldown = &Cooldown{Account: call.Account, Budget: human.Optional(verdict.Budget),
			Key: human.Optional(verdict.KeyOf(&call)), Reason: verdict.Reason, For: lasts,
			Until: human.OptionalTime(until)}
		result.After = &lasts
	} else if verdict.After > 0 {
		result.After = new(human.Seconds(verdict.After))
	}
	if verdict.LeftOf != "" {
		result.Left = &UnitsLeft{verdict.LeftOf, verdict.Left}
	}
	return result, nil
}

// cooldownEnd returns the ledger's time, and when the cooldowns end of a
// budget and its account that stop a call: zero if there are none, or if the
// ledger does not answer.
func cooldownEnd(ctx context.Context, guard *quota.Guard, call quota.Call, budget string) (now, end time.Time) {
	now, held, err := guard.Cooldowns(ctx, call.Account)
	if err != nil {
		return now, end
	}
	for _, c := range held {
		isOfBudget, isOfKey := c.Budget == "" || c.Budget == budget, c.Key == "" || c.Key == call.Key
		if isOfBudget && isOfKey && c.Until.After(end) {
			end = c.Until
		}
	}
	return now, end
}

// Redeem returns the grant of a token. It must be of an account in the
// costs.yaml of c and, unless method is "", of that method.
func Redeem(c *client.Client, token, method string) (*quota.Grant, error) {
	grant, err := c.Guard().Redeem(token)
	if err != nil {
		return nil, err
	}
	call := grant.Call()
	if !slices.Contains(c.Table().Accounts(), call.Account) {
		return nil, fmt.Errorf("it is of account %s, which is not in costs.yaml; use the one that it was spent with",
			human.Name(call.Account))
	}
	if method != "" && method != call.Method {
		return nil, fmt.Errorf("it is of %s, not of %s; leave the method out", human.Name(call.Method),
			human.Name(method))
	}
	return grant, nil
}

// withGrant calls act with the grant that the request's path names.
func (g *Gateway) withGrant(w http.ResponseWriter, r *http.Request, c *connected, body any,
	act func(*quota.Grant) (any, error)) (any, error) {
	if err := g.readJSON(w, r, body); err != nil {
		return nil, err
	}
	grant, err := Redeem(c.Client, r.PathValue("grant"), "")
	if err != nil {
		return nil, newProblem(http.StatusNotFound, "no-grant", "%v", err)
	}
	return act(grant)
}

// report answers POST /v1/grants/{grant}/report.
func (g *Gateway) report(w http.ResponseWriter, r *http.Request, c *connected) (any, error) {
	var answer Answer
	return g.withGrant(w, r, c, &answer, func(grant *quota.Grant) (any, error) {
		result, err := answer.Apply(r.Context(), c.Client, grant.Call(), grant)
		if err == nil && result.Cooldown != nil {
			v := quota.Verdict{For: time.Duration(result.Cooldown.For) * time.Second, Reason: result.Cooldown.Reason}
			if budget := result.Cooldown.Budget; budget != nil {
				v.Budget = *budget
			}
			sessionOf(r).recordVerdict(c, grant.Call(), &v)
		}
		return result, err
	})
}

// settled is the answer to a settle or a refund.
type settled struct {
	Units   quota.Units `json:"units"`
	Amounts Amounts     `json:"amounts,omitempty"`
}

// settle answers POST /v1/grants/{grant}/settle.
func (g *Gateway) settle(w http.ResponseWriter, r *http.Request, c *connected) (any, error) {
	var body Given
	return g.withGrant(w, r, c, &body, func(grant *quota.Grant) (any, error) {
		if body.Units == nil && len(body.Amounts) == 0 {
			return nil, fmt.Errorf("%w: give the units or the amounts that the call really cost", quota.ErrBadCall)
		}
		err := settleTo(r.Context(), c.Client, grant, body)
		return settled{grant.Call().Units, newAmounts(grant.Call().Measures)}, err
	})
}

// refund answers POST /v1/grants/{grant}/refund.
func (g *Gateway) refund(w http.ResponseWriter, r *http.Request, c *connected) (any, error) {
	return g.withGrant(w, r, c, &struct{}{}, func(grant *quota.Grant) (any, error) {
		return settled{}, grant.Refund(r.Context())
	})
}

package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// question is "would this call pass?", and its answer.
type question struct {
	Call, Region, Lane string
	Pass               bool
	Answer, Cost       string
	RetryAt, Now       time.Time // RetryAt is zero if it would pass, or never will
}

// verbs are what a question may begin with.
func verbs() []string {
	return []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodHead}
}

// answerQuestion answers the question of a request, or returns nil if it
// has none.
func (p *Page) answerQuestion(r *http.Request, c *client.Client) *question {
	q := &question{Call: strings.TrimSpace(r.FormValue("call")), Region: strings.TrimSpace(r.FormValue("region")),
		Lane: strings.TrimSpace(r.FormValue("lane")), Now: time.Now()}
	if q.Call == "" {
		return nil
	}
	call, passes, err := q.price(c.Table())
	if err != nil || passes != "" {
		q.Pass, q.Answer = err == nil, passes
		if err != nil {
			q.Answer = p.options.Redact(err.Error())
		}
		return q
	}
	call.Caller = quota.Caller{Region: p.options.Region(attributed(q.Region), c.Table()), Lane: attributed(q.Lane)}
	var names []string
	for _, b := range c.Guard().Covering(call) {
		names = append(names, b.Name)
	}
	q.Cost = fmt.Sprintf("%s costs %s of %s, charged to %s", human.Name(call.Method), human.Count(call.Units, "unit"),
		human.Name(call.Account), strings.Join(names, ", "))
	q.probe(r, c, call)
	q.Answer = p.options.Redact(q.Answer)
	return q
}

// attributed returns a name of a caller: none for the dash that stands for it.
func attributed(name string) string {
	if name == usage.Unattributed {
		return ""
	}
	return name
}

// price returns the call that is meant: a method, or a URL with or without a
// verb. passes says why a request is not charged.
func (q *question) price(table *costs.Table) (call quota.Call, passes string, err error) {
	verb, target, hasVerb := strings.Cut(q.Call, " ")
	if !hasVerb {
		verb, target = http.MethodGet, q.Call
	}
	if !strings.Contains(target, "://") {
		call, err = table.Call("", q.Call)
		return call, "", err
	}
	for _, known := range verbs() {
		if strings.EqualFold(verb, known) {
			verb = known
		}
	}
	quote, err := table.Quote(verb, strings.TrimSpace(target))
	switch {
	case err != nil:
	case !quote.Guarded:
		passes = "It would pass uncharged: costs.yaml guards no such host."
	case quote.Paid:
		passes = "It would pass: it carries on an upload that was charged when it began."
	}
	return quote.Call, passes, err
}

// probe asks the guard.
func (q *question) probe(r *http.Request, c *client.Client, call quota.Call) {
	err := c.Guard().Probe(r.Context(), call)
	refused, isRefused := errors.AsType[*quota.RefusedError](err)
	switch {
	case err == nil:
		q.Pass, q.Answer = true, "It would pass."
	case isRefused && refused.Moved() != nil:
		q.Answer = "It would not pass: " + refused.Moved().Error() + "."
	case isRefused:
		q.Answer, q.RetryAt = "It would be refused: "+refused.Short()+".", refused.RetryAt
		q.Now = client.RefusedAt(refused, nil)
	default:
		q.Answer = "It would not pass: " + err.Error()
	}
}

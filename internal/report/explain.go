package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// Explanation says how an answer is read, and what ration would do. Command
// ration prints it, as JSON too.
type Explanation struct {
	Account string             `json:"account"`
	Method  string             `json:"method"`
	Dialect string             `json:"dialect"`
	Status  int                `json:"status"`
	Rules   []string           `json:"rules"`   // those that matched
	Source  *string            `json:"source"`  // where the dialect's rules come from; null if none matched
	Decided *string            `json:"decided"` // the rule that decided the stop; null if it is a common one
	Found   []feedback.Finding `json:"found"`
	Would   Verdict            `json:"would"`
}

// Verdict is what ration would do.
type Verdict struct {
	Stop    *Stop                  `json:"stop"`    // null: nothing
	Blocked *string                `json:"blocked"` // why waiting does not help
	Charge  *quota.Units           `json:"charge"`  // what the call would be charged in the end; null: its price
	Free    bool                   `json:"free"`    // the call would count in no budget
	Later   bool                   `json:"later"`   // the cost is at the end of the body
	Left    map[string]quota.Units `json:"left"`    // what would be left of budgets
	Retry   bool                   `json:"retry"`   // the same call may succeed
}

// Stop is a stop that ration would set.
type Stop struct {
	Budget  *string `json:"budget"`        // null: the whole account
	Key     *string `json:"key,omitempty"` // none: all keys
	Kind    string  `json:"kind"`
	Seconds float64 `json:"seconds"`
	UpTo    int64   `json:"doubles_up_to_s"` // 0: it does not double
	Reason  string  `json:"reason"`
}

// Explain explains an answer to a call of an upstream. Of an answer without a
// call, the request in the answer says which call it was.
func Explain(table *costs.Table, call quota.Call, answer *Answer, now func() time.Time) (*Explanation, error) {
	resp := &http.Response{
		StatusCode: answer.Status, Header: answer.Header,
		ContentLength: int64(len(answer.Body)), Body: io.NopCloser(bytes.NewReader(answer.Body)),
	}
	if answer.URL != "" {
		u, err := url.Parse(answer.URL)
		if err != nil {
			return nil, fmt.Errorf("the address of the request: %w", err)
		}
		resp.Request = &http.Request{Method: answer.Verb, URL: u, Host: u.Host, Header: http.Header{}}
		if call.Method == "" {
			if call, err = table.Price(resp.Request); err != nil {
				return nil, fmt.Errorf("the request to %s: %w; name its method with --method", u.Host, err)
			}
		}
	}
	e, dialect, err := client.Explain(table, call, resp, now)
	if err != nil {
		return nil, err
	}
	return newDocument(call, answer.Status, dialect, e), nil
}

func newDocument(call quota.Call, status int, dialect string, e *feedback.Explanation) *Explanation {
	v := &e.Verdict
	d := &Explanation{
		Account: call.Account, Method: call.Method, Dialect: dialect, Status: status,
		Rules: append([]string{}, e.Rules...), Source: human.Optional(e.Source),
		Decided: human.Optional(e.Decided), Found: append([]feedback.Finding{}, e.Found...),
	}
	d.Would.Left = map[string]quota.Units{}
	d.Would.Free, d.Would.Later = v.Free, v.Later != nil
	d.Would.Retry = v.Transient
	if v.Settled {
		d.Would.Charge = &v.Units
	}
	if v.Never {
		d.Would.Blocked = &v.Reason
	} else if v.For > 0 {
		d.Would.Stop = &Stop{
			Budget: human.Optional(v.Budget), Key: human.Optional(v.KeyOf(&call)), Kind: e.Kind,
			Seconds: v.For.Seconds(), UpTo: int64(v.UpTo.Seconds()), Reason: v.Reason,
		}
	}
	if v.LeftOf != "" {
		d.Would.Left[v.LeftOf] = v.Left
	}
	for _, also := range v.AlsoLeft {
		if also.Budget != "" {
			d.Would.Left[also.Budget] = also.Left
		}
	}
	return d
}

// Lines returns the document for people, a label and a text a line.
func (d *Explanation) Lines() (lines [][2]string) {
	add := func(label, format string, args ...any) {
		lines = append(lines, [2]string{label, fmt.Sprintf(format, args...)})
	}
	add("answer", "%d, to a call of %s, read as %s", d.Status, human.Name(d.Method), d.Dialect)
	if len(d.Rules) > 0 {
		add("rules", "%s", strings.Join(d.Rules, ", "))
	} else {
		add("rules", "none matched; what most upstreams have in common")
	}
	if d.Source != nil {
		add("source", "%s", *d.Source)
	}
	for _, f := range d.Found {
		if f.Missing {
			add("missing", "%s: %s, by rule %s", f.From, f.What, f.Rule)
		} else {
			add("read", "%s: %s", f.From, f.What)
		}
	}
	for _, text := range d.Would.lines(d.Account, d.Decided) {
		add("ration", "%s", text)
	}
	return lines
}

func (w *Verdict) lines(account string, decided *string) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	by := ""
	if decided != nil {
		by = ", by rule " + *decided
	}
	if s := w.Stop; s != nil {
		budget := ""
		if s.Budget != nil {
			budget = *s.Budget
		}
		length := time.Duration(s.Seconds * float64(time.Second))
		doubles := ""
		if s.UpTo > 0 {
			most := human.Exactly(time.Duration(s.UpTo) * time.Second)
			doubles = fmt.Sprintf(", doubled at each further refusal up to %s", most)
		}
		add("would stop %s for %s%s (%s%s)", human.Scope(account, budget, human.Given(s.Key)), human.Duration(length),
			doubles, s.Reason, by)
	}
	if w.Blocked != nil {
		add("would stop nothing, since waiting does not help (%s%s)", *w.Blocked, by)
	}
	if w.Free {
		add("would take the charge back: the call counts in no budget")
	}
	if w.Charge != nil {
		add("would charge %d for the call", *w.Charge)
	}
	if w.Later {
		add("would read the cost at the end of the body")
	}
	for _, name := range sortedNames(w.Left) {
		add("would note that %d is left of %s", w.Left[name], human.Name(name))
	}
	if w.Retry {
		add("may send the same request again")
	}
	if len(lines) == 0 {
		add("would do nothing")
	}
	return lines
}

func sortedNames(left map[string]quota.Units) []string { return slices.Sorted(maps.Keys(left)) }

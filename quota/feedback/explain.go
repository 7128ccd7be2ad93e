package feedback

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// Explanation is how an answer was read.
type Explanation struct {
	Rules   []string // the rules that matched, in order: where each is written
	Decided string   // the rule that asks for the stop; empty if it is what most upstreams mean
	Kind    string   // of the stop: Spent, Busy or Blocked; empty for none
	Found   []Finding
	Source  string // of the dialect's rules, if one of them matched: its Origin
	Verdict quota.Verdict
}

// Explain returns a function that reads answers as that of New does, and says
// how it did so. Nothing is charged or stopped.
func Explain(name string, o Options) (func(quota.Call, *http.Response) Explanation, error) {
	r, err := newReader(name, o)
	if err != nil {
		return nil, err
	}
	r.traces = true
	return func(call quota.Call, resp *http.Response) Explanation {
		v, out, h := r.read(call, resp)
		e := Explanation{Rules: out.reasons, Found: out.seen, Verdict: v}
		if h != nil {
			e.Kind, e.Decided = h.kind, h.rule
		}
		isOfDialect := func(at string) bool { return strings.HasPrefix(at, name+" ") }
		if slices.ContainsFunc(e.Rules, isOfDialect) {
			e.Source = dialectNamed(name).Origin()
		}
		for i := range out.limits {
			l := &out.limits[i]
			e.Found = append(e.Found, l.finding())
		}
		return e
	}, nil
}

// finding says what a limit is, for people.
func (l *limit) finding() Finding {
	var parts []string
	add := func(isKnown bool, format string, value any) {
		if isKnown {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	add(l.left >= 0, "%d left", l.left)
	add(l.max >= 0, "limit %d", l.max)
	add(l.span > 0, "window %s", human.Duration(l.span))
	add(l.reset != unknownReset, "resets in %s", human.Duration(l.reset))
	add(l.bucket != "", "named %s", l.bucket)
	return Finding{From: l.from, What: strings.Join(parts, ", ")}
}

package client

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// newFeedback returns a quota.Transport.Feedback that reads each upstream's
// answers in its own dialect. If several upstreams share an account, the host
// of the answer decides.
func newFeedback(table *costs.Table, now func() time.Time) (func(quota.Call, *http.Response) quota.Verdict, error) {
	upstreams, budgets := table.Upstreams(), table.Budgets()
	readers := make([]func(quota.Call, *http.Response) quota.Verdict, len(upstreams))
	for i, u := range upstreams {
		var err error
		readers[i], err = feedback.New(u.Feedback, optionsOf(&u, budgets, now))
		if err != nil {
			return nil, &ConfigError{err}
		}
	}
	return func(call quota.Call, resp *http.Response) quota.Verdict {
		found := answered(table, upstreams, call, resp)
		if found < 0 {
			return quota.Verdict{}
		}
		return readers[found](call, resp)
	}, nil
}

func optionsOf(u *costs.Upstream, budgets []quota.Budget, now func() time.Time) feedback.Options {
	measures := u.Measures
	if u.CountsErrors() {
		measures = append(slices.Clip(measures), quota.Errors)
	}
	return feedback.Options{
		Rules: u.Answers, Zone: u.Resets, Resets: u.ResetWindow, Budgets: budgets, Now: now,
		NotModified: func(call quota.Call) quota.Units { return u.NotModified(call.Method) },
		Measures:    measures,
		Costs:       u.Settled,
		PerCall:     func(call quota.Call) quota.Units { return u.BatchCall(call.Method) },
	}
}

// answered returns the index of the upstream that gave an answer, or -1. If
// several share the call's account, the host of the answer decides.
func answered(table *costs.Table, upstreams []costs.Upstream, call quota.Call, resp *http.Response) int {
	var name string // of the upstream whose host answered
	if resp.Request != nil && resp.Request.URL != nil {
		if u := table.UpstreamOf(resp.Request.URL); u != nil {
			name = u.Name
		}
	}
	found := -1
	for i := range upstreams {
		if u := &upstreams[i]; u.Account == call.Account && (found < 0 || u.Name == name) {
			found = i
		}
	}
	return found
}

// Explain says how the answer to a call is read, and in which dialect. Nothing
// is charged or stopped.
func Explain(
	table *costs.Table, call quota.Call, resp *http.Response, now func() time.Time,
) (e *feedback.Explanation, dialect string, err error) {
	upstreams := table.Upstreams()
	found := answered(table, upstreams, call, resp)
	if found < 0 {
		return nil, "", fmt.Errorf("no upstream has account %s", call.Account)
	}
	u := &upstreams[found]
	read, err := feedback.Explain(u.Feedback, optionsOf(u, table.Budgets(), now))
	if err != nil {
		return nil, "", &ConfigError{err}
	}
	explained := read(call, resp)
	return &explained, u.Feedback, nil
}

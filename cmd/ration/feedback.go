package main

import (
	"net/http"
	"slices"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// feedbackOf reads what the upstreams of costs.yaml say about their quotas, each
// in its own dialect. Upstreams that share an account are told apart by host.
func (a *app) feedbackOf(table *costs.Table) (func(quota.Call, *http.Response) quota.Verdict, error) {
	upstreams, budgets := table.Upstreams(), table.Budgets()
	readers := make([]func(quota.Call, *http.Response) quota.Verdict, len(upstreams))
	for i, u := range upstreams {
		var err error
		if readers[i], err = feedback.New(u.Feedback, feedback.Options{Zone: u.Resets, Budgets: budgets, Now: a.now,
			NotModified: func(call quota.Call) quota.Units { return u.NotModified(call.Method) }}); err != nil {
			return nil, &configError{err}
		}
	}
	return func(call quota.Call, resp *http.Response) quota.Verdict {
		found := -1
		for i, u := range upstreams {
			if u.Account != call.Account {
				continue
			}
			if found < 0 || resp.Request != nil && slices.Contains(u.Hosts, resp.Request.URL.Hostname()) {
				found = i
			}
		}
		if found < 0 {
			return quota.Verdict{}
		}
		return readers[found](call, resp)
	}, nil
}

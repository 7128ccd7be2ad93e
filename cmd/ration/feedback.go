package main

import (
	"net/http"

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
		if readers[i], err = feedback.New(u.Feedback, feedback.Options{Zone: u.Resets, Resets: u.ResetWindow, Budgets: budgets, Now: a.now,
			NotModified: func(call quota.Call) quota.Units { return u.NotModified(call.Method) }}); err != nil {
			return nil, &configError{err}
		}
	}
	return func(call quota.Call, resp *http.Response) quota.Verdict {
		var spoke string // of several upstreams on the account, the one whose host it is
		if resp.Request != nil && resp.Request.URL != nil {
			if u := table.UpstreamOf(resp.Request.URL); u != nil {
				spoke = u.Name
			}
		}
		found := -1
		for i := range upstreams {
			if u := &upstreams[i]; u.Account == call.Account && (found < 0 || u.Name == spoke) {
				found = i
			}
		}
		if found < 0 {
			return quota.Verdict{}
		}
		return readers[found](call, resp)
	}, nil
}

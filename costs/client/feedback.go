package client

import (
	"net/http"
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
		readers[i], err = feedback.New(u.Feedback, feedback.Options{
			Rules: u.Answers, Zone: u.Resets, Resets: u.ResetWindow, Budgets: budgets, Now: now,
			NotModified: func(call quota.Call) quota.Units { return u.NotModified(call.Method) },
		})
		if err != nil {
			return nil, &ConfigError{err}
		}
	}
	return func(call quota.Call, resp *http.Response) quota.Verdict {
		var answered string // the name of the upstream whose host answered
		if resp.Request != nil && resp.Request.URL != nil {
			if u := table.UpstreamOf(resp.Request.URL); u != nil {
				answered = u.Name
			}
		}
		found := -1
		for i := range upstreams {
			if u := &upstreams[i]; u.Account == call.Account && (found < 0 || u.Name == answered) {
				found = i
			}
		}
		if found < 0 {
			return quota.Verdict{}
		}
		return readers[found](call, resp)
	}, nil
}

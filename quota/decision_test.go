package quota_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestEachDecisionOfATransportIsObserved: each call of a Transport is one
// decision, with and without feedback, and all observers hear of it with the
// context's caller.
func TestEachDecisionOfATransportIsObserved(t *testing.T) {
	for name, feedback := range map[string]func(quota.Call, *http.Response) quota.Verdict{
		"plain": nil, "feedback": func(quota.Call, *http.Response) quota.Verdict { return quota.Verdict{} },
	} {
		t.Run(name, func(t *testing.T) {
			guard := newGuard(t, nil, budget("day", 2, time.Hour), budget("searches", 5, time.Hour))
			var heard [2][]string
			for i := range heard {
				guard.Observe(func(d quota.Decision) {
					heard[i] = append(heard[i], fmt.Sprint(d.Call.Method, d.Call.Caller, d.Count, d.Budgets, d.MayWait,
						d.Err == nil))
				})
			}
			c := call("list", 1)
			transport := &quota.Transport{Guard: guard, Base: immediate{&http.Response{}}, Feedback: feedback,
				Price: func(*http.Request) (quota.Call, error) { return c, nil }}
			ctx := quota.WithCaller(t.Context(), quota.Caller{Lane: "cron", Job: "j"})
			for range 3 {
				req, err := http.NewRequestWithContext(ctx, "GET", "http://127.0.0.1/", nil)
				if err != nil {
					t.Fatal(err)
				}
				if resp, err := transport.RoundTrip(req); err == nil && resp.Body != nil {
					resp.Body.Close()
				}
			}
			want := []string{"list{cron j } 1 [0 1] false true", "list{cron j } 1 [0 1] false true",
				"list{cron j } 1 [0 1] false false"}
			if !slices.Equal(heard[0], want) || !slices.Equal(heard[1], want) {
				t.Errorf("heard %q\nand %q\nwant %q", heard[0], heard[1], want)
			}
		})
	}
}

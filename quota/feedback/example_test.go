package feedback_test

import (
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
	"github.com/ration-dev/ration/quota/memledger"
)

// After an upstream has answered that its limit is spent, the next call is
// refused locally.
func ExampleNew() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer upstream.Close()
	budgets := []quota.Budget{{Account: "my-project", Name: "day", Limit: 1000, Window: quota.Sliding(24 * time.Hour)}}
	guard, err := quota.NewGuard(memledger.Open(nil), budgets, nil)
	if err != nil {
		log.Fatal(err)
	}
	read, err := feedback.New("generic", feedback.Options{Budgets: budgets})
	if err != nil {
		log.Fatal(err)
	}
	price := func(*http.Request) (quota.Call, error) {
		return quota.Call{Account: "my-project", Method: "get", Units: 1}, nil
	}
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: price, Feedback: read}}
	resp, err := client.Get(upstream.URL)
	if err != nil {
		log.Fatal(err)
	}
	resp.Body.Close()
	fmt.Println(resp.Status)
	_, err = client.Get(upstream.URL)
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		fmt.Println(refused.Reason, "for", refused.RetryAfter.Round(time.Minute))
	}
	// Output:
	// 429 Too Many Requests
	// cooldown for 1h0m0s
}

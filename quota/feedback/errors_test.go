package feedback_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
	"github.com/ration-dev/ration/quota/memledger"
)

// statuses answers with these statuses, one after the other.
type statuses []int

func (s *statuses) RoundTrip(req *http.Request) (*http.Response, error) {
	status := (*s)[0]
	*s = (*s)[1:]
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}

// TestABudgetOfErrorsCountsErrorsAlone counts the answers that are errors, and
// refuses calls once it is full; what else they count stays as it is, unless
// they are free.
func TestABudgetOfErrorsCountsErrorsAlone(t *testing.T) {
	day := quota.Budget{Account: "a", Name: "day", Limit: 100, Window: quota.Sliding(24 * time.Hour)}
	few := quota.Budget{Account: "a", Name: "few", Limit: 2, Window: quota.Sliding(time.Minute), Measure: quota.Errors}
	free := feedback.Rule{When: feedback.RuleCondition{Status: []string{"404"}}, Counts: new(false)}
	read, err := feedback.New("generic",
		feedback.Options{Rules: []feedback.Rule{free}, Budgets: []quota.Budget{day, few}})
	if err != nil {
		t.Fatal(err)
	}
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{day, few}, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Feedback: read,
		Base: &statuses{200, 400, 200, 404},
		Price: func(*http.Request) (quota.Call, error) {
			return quota.Call{Account: "a", Method: "m", Units: 5}, nil
		}}}
	for range 4 {
		if _, err := client.Get("https://api.example.com/m"); err != nil {
			t.Fatal(err)
		}
	}
	balances, err := guard.Balances(t.Context())
	if err != nil || balances[0].Used != 15 || balances[1].Used != 2 {
		t.Fatalf("%+v, %v; want 15 units and 2 errors", balances, err)
	}
	_, err = client.Get("https://api.example.com/m")
	if no, ok := errors.AsType[*quota.RefusedError](err); !ok || no.Budget != "few" || no.Needed != 1 {
		t.Errorf("got %v; want a refusal by the errors", err)
	}
}

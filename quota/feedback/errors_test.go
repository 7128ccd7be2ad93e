package feedback_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
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
	day := quota.Budget{Account: "my-project", Name: "day", Limit: 1000, Window: quota.Sliding(24 * time.Hour)}
	few := minutely
	few.Name, few.Limit, few.Measure = "few", 2, quota.Errors
	free := feedback.Rule{When: feedback.RuleCondition{Status: []string{"404"}}, Counts: new(false)}
	budgets := []quota.Budget{day, few}
	read := reader(t, "generic", feedback.Options{Rules: []feedback.Rule{free}, Budgets: budgets})
	client := clientOf(t, budgets, &quota.Transport{Feedback: read, Base: &statuses{200, 400, 200, 404}})
	for range 4 {
		if _, err := client.Get("https://api.example.com/m"); err != nil {
			t.Fatal(err)
		}
	}
	if got := used(t, client); got[0] != 300 || got[1] != 2 {
		t.Fatalf("%d; want 300 units and 2 errors", got)
	}
	_, err := client.Get("https://api.example.com/m")
	if no, ok := errors.AsType[*quota.RefusedError](err); !ok || no.Budget != "few" || no.Needed != 1 {
		t.Errorf("got %v; want a refusal by the errors", err)
	}
}

package plan

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestJSONHasNullForWhatIsNotThere checks the parts of a report that fit, and
// a refusal by a whole account.
func TestJSONHasNullForWhatIsNotThere(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	refusal := Refusal{At: at, Local: at.In(tokyo), Region: "JP", Step: "trending", Err: &quota.RefusedError{Account: "a", Reason: quota.ReasonCooldown, RetryAt: at}}
	for _, c := range []struct {
		value any
		want  string
	}{
		{BudgetReport{Budget: quota.Budget{Account: "a", Name: "b", Limit: 5, Window: quota.Sliding(time.Hour)}, Unused: 5},
			`{"account":"a","name":"b","window":"1h","measure":"units","limit":5,"peak":0,"peak_at":null,"peak_late":0,"need_late":0,"refused":0,"unused":5,"unused_mean":0}`},
		{RegionReport{Region: "JP"}, `{"region":"JP","ticks":0,"ticks_refused":0,"planned":0,"refused":0,"units":0,"refused_units":0,"first_refused_at":null,"first_refused_local":null}`},
		{RegionReport{Region: "JP", Hit: 1, First: &refusal}, `{"region":"JP","ticks":0,"ticks_refused":1,"planned":0,"refused":0,"units":0,"refused_units":0,"first_refused_at":"2026-11-20T09:00:00Z","first_refused_local":"2026-11-20T18:00:00+09:00"}`},
		{Suggestion{Reason: "why"}, `{"fits":false,"reason":"why","changes":[],"calls":null,"units":null,"yaml":null}`},
	} {
		got, err := json.Marshal(c.value)
		if err != nil || string(got) != c.want {
			t.Errorf("%s, %v\nwant %s", got, err, c.want)
		}
	}
	var out map[string]any
	if text, err := json.Marshal(refusal); err != nil || json.Unmarshal(text, &out) != nil || out["budget"] != nil || out["job"] != "trending" || out["local"] != "2026-11-20T18:00:00+09:00" {
		t.Errorf("%s, %v", text, err)
	}
	refusal.Err.Budget = "day"
	if text, err := json.Marshal(refusal); err != nil || json.Unmarshal(text, &out) != nil || out["budget"] != "day" {
		t.Errorf("%s, %v; want budget day", text, err)
	}
}

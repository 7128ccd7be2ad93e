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
	refusal := Refusal{At: at, Local: at.In(tokyo), Region: "JP", Step: "trending",
		Err: &quota.RefusedError{Account: "a", Reason: quota.ReasonCooldown, RetryAt: at}}
	for _, c := range []struct {
		value any
		want  string
	}{
		{BudgetReport{Budget: quota.Budget{Account: "a", Name: "b", Limit: 5, Window: quota.Sliding(time.Hour)},
			Unused: 5},
			`{"account":"a","name":"b","window":"1h","measure":"units","limit":5,"peak":0,"peak_at":null,` +
				`"peak_late":0,"need_late":0,"refused":0,"unused":5,"unused_mean":0,"shadow":false}`},
		{RegionReport{Region: "JP"},
			`{"region":"JP","ticks":0,"ticks_refused":0,"planned":0,"refused":0,"units":0,"refused_units":0,` +
				`"first_refused_at":null,"first_refused_local":null}`},
		{RegionReport{Region: "JP", Hit: 1, First: &refusal},
			`{"region":"JP","ticks":0,"ticks_refused":1,"planned":0,"refused":0,"units":0,"refused_units":0,` +
				`"first_refused_at":"2026-11-20T09:00:00Z","first_refused_local":"2026-11-20T18:00:00+09:00"}`},
		{Suggestion{Reason: "why"}, `{"fits":false,"reason":"why","changes":[],"calls":null,"units":null,"yaml":null}`},
	} {
		got, err := json.Marshal(c.value)
		if err != nil || string(got) != c.want {
			t.Errorf("%s, %v\nwant %s", got, err, c.want)
		}
	}
	var out map[string]any
	if text, err := json.Marshal(refusal); err != nil || json.Unmarshal(text, &out) != nil || out["budget"] != nil ||
		out["job"] != "trending" || out["local"] != "2026-11-20T18:00:00+09:00" {
		t.Errorf("%s, %v", text, err)
	}
	refusal.Err.Budget = "day"
	if text, err := json.Marshal(refusal); err != nil || json.Unmarshal(text, &out) != nil || out["budget"] != "day" {
		t.Errorf("%s, %v; want budget day", text, err)
	}
}

// TestRegionsThatLoseTheMostAreNamed names those that lose the largest share of
// their calls.
func TestRegionsThatLoseTheMostAreNamed(t *testing.T) {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	region := func(name string, planned, refused int) RegionReport {
		return RegionReport{Region: name, Planned: planned, Refused: refused, First: &Refusal{At: at, Local: at}}
	}
	for _, c := range []struct {
		regions []RegionReport
		want    string
	}{
		{[]RegionReport{region("US", 10, 5), region("IN", 20, 9)},
			"US starves, with 5 of 10 calls refused from Fri 09:00 UTC on"},
		{[]RegionReport{region("US", 10, 5), region("IN", 20, 10)},
			"US, IN starve, each with 50 % of its calls refused"},
		{[]RegionReport{region("US", 10, 5), region("IN", 10, 5)}, "each of 2 regions has 5 of 10 calls refused"},
		{[]RegionReport{region("US", 10, 5), region("IN", 10, 5), region("BR", 10, 0)},
			"US, IN starve, each with 5 of 10 calls refused"},
	} {
		if got := (&Report{Regions: c.regions}).starving(); got != c.want {
			t.Errorf("%s; want %s", got, c.want)
		}
	}
}

package gateway_test

import (
	"strings"
	"testing"
)

// TestAProgramSpendsReportsAndIsRefused: a program asks, reports the answer,
// and is refused when the budget is spent.
func TestAProgramSpendsReportsAndIsRefused(t *testing.T) {
	c := newClient(t, table, t.TempDir(), nil)
	s := newServer(t, nil, c)
	granted := s.do("POST", "/v1/spend", `{"method": "items.insert", "job": "import", "region": "north"}`)
	if granted.StatusCode != 200 || granted.json["granted"] != true || granted.json["remaining"] != 60.0 ||
		granted.Header.Get("X-RateLimit-Remaining") != "60" ||
		granted.Header.Get("RateLimit-Policy") != `"day";q=100;w=86400` ||
		!strings.HasPrefix(granted.Header.Get("RateLimit"), `"day";r=60;t=`) {
		t.Fatalf("%s %s %v", granted.Status, granted.text, granted.Header)
	}
	grant := granted.json["grant"].(string)
	if a := s.do("POST", "/v1/grants/"+grant+"/settle", `{"units": 90}`); a.StatusCode != 200 || used(t, c) != 90 {
		t.Errorf("settle: %s %s, %d used", a.Status, a.text, used(t, c))
	}
	if a := s.do("POST", "/v1/grants/"+grant+"/report", `{"status": 200}`); a.json["units"] != 90.0 {
		t.Errorf("report: %s %s; want the units that it was settled to", a.Status, a.text)
	}
	refused := s.do("POST", "/v1/spend", `{"verb": "POST", "url": "https://api.example.com/v1/items?x=1"}`)
	if refused.StatusCode != 429 || refused.Header.Get("Content-Type") != "application/problem+json" ||
		refused.Header.Get("Ration-Refused-By") != "day" ||
		refused.json["budget"] != "day" || refused.json["shortfall"] != 30.0 || refused.json["retry_at"] == nil ||
		refused.json["granted"] != false || refused.json["why"] == nil {
		t.Errorf("%s %s %v", refused.Status, refused.text, refused.Header)
	}
	if seconds := refused.Header.Get("Retry-After"); seconds != "86400" && seconds != "86399" && seconds != "86398" {
		t.Errorf("Retry-After: %s; want a day, rounded up", seconds)
	}
	if a := s.do("POST", "/v1/grants/"+grant+"/refund", ""); a.StatusCode != 200 || used(t, c) != 0 {
		t.Errorf("refund: %s %s, %d used", a.Status, a.text, used(t, c))
	}
	if a := s.do("POST", "/v1/grants/"+grant+"/report", `{"status": 200}`); a.json["units"] != 0.0 {
		t.Errorf("report: %s %s; want that it was refunded", a.Status, a.text)
	}
	again := s.do("POST", "/v1/spend", `{"method": "items.list"}`)
	report := s.do("POST", "/v1/grants/"+again.json["grant"].(string)+"/report",
		`{"status": 429, "headers": {"retry-after": "7200"}, "body": "slow down"}`)
	if cooldown, _ := report.json["cooldown"].(map[string]any); report.StatusCode != 200 ||
		cooldown["for_s"] != 7200.0 || report.json["retry_after_s"] != 7200.0 {
		t.Errorf("report: %s %s", report.Status, report.text)
	}
	if cooled := s.do("POST", "/v1/spend", `{"method": "items.list"}`); cooled.StatusCode != 429 ||
		cooled.Header.Get("Retry-After") != "7200" {
		t.Errorf("%s %s; want the cooldown", cooled.Status, cooled.text)
	}
	checkCooldowns(t, s)
}

func checkCooldowns(t *testing.T, s *server) {
	t.Helper()
	for _, until := range []string{`"tomorrow"`, `5`, `"2026-11-20"`} {
		if a := s.do("POST", "/v1/cooldowns", `{"budget":"day","until":`+until+`}`, "Content-Type",
			"application/json"); a.StatusCode != 400 || !strings.Contains(a.text,
			" is not a time: write one such as 2026-11-20T09:00:00Z, or reset; ") {
			t.Errorf("until %s: %s %s", until, a.Status, a.text)
		}
	}
	for _, body := range []string{`{"account":"my-project"}`, `{"budget":"day"}`, `{"budget":"day","for":0}`,
		`{"budget":"day","for":"1h","until":"reset"}`, `{"budget":"day","for":"1h","until":"2100-01-01T00:00:00Z"}`} {
		if a := s.do("POST", "/v1/cooldowns", body, "Content-Type", "application/json"); a.StatusCode != 422 ||
			!strings.Contains(a.text, "one of for and until") {
			t.Errorf("%s: %s %s; want how to say how long", body, a.Status, a.text)
		}
	}
	if lifted := s.do("DELETE", "/v1/cooldowns?budget=day", ""); lifted.StatusCode != 200 ||
		lifted.json["lifted"] != true {
		t.Errorf("%s %s; want it lifted", lifted.Status, lifted.text)
	}
}

// TestTheAnswerToNegativeUnitsHasThePrice: the answer has the price of the
// call, since units are never negative in the API's own document.
func TestTheAnswerToNegativeUnitsHasThePrice(t *testing.T) {
	s := newServer(t, nil, newClient(t, table, t.TempDir(), nil))
	for body, units := range map[string]float64{`{"method": "items.insert", "units": -1}`: 40,
		`{"method": "items.insert", "units": 0}`: 40, `{"method": "items.insert", "units": 2147483648}`: 2147483648} {
		if a := s.do("POST", "/v1/spend", body); a.StatusCode != 422 || a.json["units"] != units {
			t.Errorf("%s: %s %s; want %v units", body, a.Status, a.text, units)
		}
	}
}

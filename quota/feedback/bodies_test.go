package feedback_test

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// TestRulesSeeEveryBody: whatever its kind, a body is visible to rules by text,
// and JSON to those by field.
func TestRulesSeeEveryBody(t *testing.T) {
	rules := []feedback.Rule{
		{
			When: feedback.RuleCondition{Status: feedback.RuleWords{"200", "4xx"},
				Text: feedback.RuleWords{"too * for you"}},
			Stop: &feedback.Stop{Until: feedback.RuleUntils{{Pause: "7s"}}},
		},
		{
			When: feedback.RuleCondition{Status: feedback.RuleWords{"200", "4xx"},
				Body: map[string]feedback.RuleWords{"code": {"x"}}},
			Stop: &feedback.Stop{Until: feedback.RuleUntils{{Pause: "7s"}}},
		},
	}
	long := strings.Repeat("filler ", 12_000)
	for name, c := range map[string]struct{ kind, body string }{
		"XML":                   {"application/xml", "<error><message>Too &#102;ast for you</message></error>"},
		"HTML":                  {"text/html", "<!DOCTYPE html><html><body>\n<p>Too <b>fast</b> for you</p>"},
		"text":                  {"text/plain", "Too fast for you"},
		"no type":               {"", "Too fast for you"},
		"a long text":           {"text/plain", "Too fast for you\n" + long},
		"a long document":       {"application/json", `{"message":"Too fast for you","more":"` + long + `"}`},
		"JSON without a type":   {"", `{"code":"x"}`},
		"JSON as text":          {"text/json", `{"code":"x"}`},
		"JSON as a problem":     {"application/problem+json", `{"code":"x"}`},
		"JSON as a page":        {"text/html", "\ufeff  {\"code\":\"x\"}"},
		"JSON as anything else": {"application/octet-stream", `{"code":"x"}`},
	} {
		for _, status := range []int{200, 400} {
			header := ""
			if c.kind != "" {
				header = "Content-Type: " + c.kind
			}
			read := reader(t, "generic", feedback.Options{Rules: rules, Now: clock(noon)})
			resp := response(status, header, c.body)
			if got := read(call, resp); got.For != 7*time.Second {
				t.Errorf("%s, %d: %+v; want a stop by the rule", name, status, got)
			}
			if text, err := io.ReadAll(resp.Body); err != nil || string(text) != c.body {
				t.Errorf("%s, %d: %d bytes, %v; want all that were sent", name, status, len(text), err)
			}
		}
	}
}

// TestListThatStreamsIsNotDelayed: an answer is passed on with the first byte
// of a JSON list that has no length, which may be a stream.
func TestListThatStreamsIsNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, rest := `[{"usage":{"total_tokens":1}}`, "\n,\n{\"usage\":{\"total_tokens\":900}}]"
		sent, _ := stalling(first, rest, time.Minute)
		resp := &http.Response{
			StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: sent, ContentLength: -1,
		}
		began := time.Now()
		got := reader(t, "openai", feedback.Options{})(call, resp)
		part := make([]byte, 10)
		if _, err := io.ReadFull(resp.Body, part); err != nil || got.Later == nil || time.Since(began) > 0 {
			t.Errorf("%+v, %v after %s; want it at once", got, err, time.Since(began))
		}
		text, err := io.ReadAll(resp.Body)
		if string(part)+string(text) != first+rest || err != nil {
			t.Errorf("%q, %v; want all", text, err)
		}
	})
}

// TestRuleHidesItsHeadersFromItsAnswersOnly: other answers are still read by
// what most upstreams have in common.
func TestRuleHidesItsHeadersFromItsAnswersOnly(t *testing.T) {
	value := func(header string) *feedback.RuleValue {
		return &feedback.RuleValue{Header: feedback.RuleWords{header}}
	}
	rules := []feedback.Rule{{
		When:   feedback.RuleCondition{Status: feedback.RuleWords{"200"}},
		Limits: feedback.Limits{{Budget: "hour", Left: value("X-RateLimit-Remaining")}},
	}}
	budgets := []quota.Budget{hour("hour", 100)}
	read := reader(t, "generic", feedback.Options{Rules: rules, Budgets: budgets, Now: clock(noon)})
	header := dated + "X-RateLimit-Limit: 100\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 600"
	if got := read(call, response(429, header, "")); got.For != 10*time.Minute || got.Budget != "hour" {
		t.Errorf("a 429: %+v; want it read without the rule", got)
	}
	header = strings.ReplaceAll(header, "Remaining: 0", "Remaining: 40")
	if got := read(call, response(200, header, "")); !reflect.DeepEqual(got, left(quota.Verdict{}, "hour", 40)) {
		t.Errorf("a 200: %+v; want it read by the rule alone", got)
	}
}

package feedback_test

import (
	"testing"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// TestAStreamIsSettledInMeasuresAlone, by the last of its events that says
// them.
func TestAStreamIsSettledInMeasuresAlone(t *testing.T) {
	rule := feedback.Rule{When: feedback.RuleCondition{Status: []string{"2xx"}},
		Measures: map[quota.Measure]feedback.RuleValues{"output_tokens": {{Body: []string{"usage.completion_tokens"}}}}}
	read := reader(t, "generic", feedback.Options{Rules: []feedback.Rule{rule}})
	const stream = "data: {\"delta\":\"a\"}\n\ndata: {\"usage\":{\"completion_tokens\":42}}\n\ndata: [DONE]\n\n"
	resp := response(200, "Content-Type: text/event-stream", stream)
	call := quota.Call{Account: "a", Method: "chat", Units: 1,
		Measures: map[quota.Measure]quota.Units{"output_tokens": 1000}}
	client := &quota.Transport{Feedback: read}
	verdict, err := client.Answered(t.Context(), call, nil, resp)
	if err != nil || verdict.Measures["output_tokens"] != 42 {
		t.Errorf("%+v, %v; want 42 output_tokens", verdict, err)
	}
}

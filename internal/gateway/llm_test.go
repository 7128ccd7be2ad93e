package gateway_test

import (
	"io"
	"maps"
	"net/http"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
)

const (
	openai    = "version: 1\naccount: a\npreset: {name: openai, variant: gpt-4o-tier-1}\n"
	anthropic = "version: 1\naccount: a\npreset: {name: anthropic, variant: start}\n"
)

// presetsSettleTokensCases are the cases of TestPresetsSettleTokens.
var presetsSettleTokensCases = []struct {
	name, table, path, request, kind, answer string
	want                                     map[string]int
}{
	{
		"chat", openai, "api.openai.com/v1/chat/completions",
		`{"messages":[{"content":"12345678"}],"max_tokens":900}`, "application/json",
		`{"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":7,"total_tokens":37}}`,
		map[string]int{"openai-requests": 1, "openai-tokens": 37},
	},
	{
		"chat without usage", openai, "api.openai.com/v1/chat/completions",
		`{"messages":[{"content":"12345678"}],"max_tokens":900}`, "text/event-stream",
		"data: {\"choices\":[],\"usage\":null}\n\ndata: [DONE]\n\n",
		map[string]int{"openai-requests": 1, "openai-tokens": 902},
	},
	{
		"responses", openai, "api.openai.com/v1/responses", `{"input":"12345678"}`, "text/event-stream",
		"event: response.created\ndata: {\"response\":{\"usage\":null}}\n\n" +
			"event: response.completed\ndata: " +
			"{\"response\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":50,\"total_tokens\":55}}}\n\n",
		map[string]int{"openai-requests": 1, "openai-tokens": 55},
	},
	{
		"embeddings", openai, "api.openai.com/v1/embeddings", `{"input":["1234","5678"]}`, "application/json",
		`{"data":[],"usage":{"prompt_tokens":3,"total_tokens":3}}`,
		map[string]int{"openai-embedding-requests": 1, "openai-embedding-tokens": 3},
	},
	{
		"messages", anthropic, "api.anthropic.com/v1/messages",
		`{"messages":[{"content":"12345678"}],"max_tokens":900}`, "application/json",
		`{"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":1000,` +
			`"output_tokens":20}}`,
		map[string]int{"anthropic-requests": 1, "anthropic-input-tokens": 15, "anthropic-output-tokens": 20},
	},
	{
		"messages in a stream", anthropic, "api.anthropic.com/v1/messages",
		`{"messages":[{"content":"12345678"}],"max_tokens":900}`, "text/event-stream",
		"event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":30,\"output_tokens\":1}}}\n\n" +
			"event: message_delta\ndata: {\"usage\":{\"output_tokens\":44}}\n\n",
		map[string]int{"anthropic-requests": 1, "anthropic-input-tokens": 30, "anthropic-output-tokens": 44},
	},
}

// TestPresetsSettleTokens reads the usage of each kind of answer of OpenAI and
// Anthropic, a stream or not. One without a usage stays charged as estimated.
func TestPresetsSettleTokens(t *testing.T) {
	for _, c := range presetsSettleTokensCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				io.WriteString(w, c.answer)
			})
			made := newClient(t, c.table, t.TempDir(), u)
			s := newServer(t, &gateway.Options{Endpoint: u.URL}, made)
			if a := s.do("POST", "/to/"+c.path, c.request, "Content-Type",
				"application/json"); a.StatusCode != http.StatusOK {
				t.Fatal(a.StatusCode, a.text)
			}
			if got := settled(t, made, c.want); !maps.Equal(got, c.want) {
				t.Errorf("the budgets hold %v; want %v", got, c.want)
			}
		})
	}
}

// settled returns what the budgets hold, as soon as that is what is wanted.
func settled(t *testing.T, of *client.Client, want map[string]int) map[string]int {
	t.Helper()
	got := map[string]int{}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && !maps.Equal(got, want); {
		balances, err := of.Guard().Balances(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		clear(got)
		for _, b := range balances {
			if b.Used > 0 {
				got[b.Budget.Name] = int(b.Used)
			}
		}
	}
	return got
}

// TestASpendSaysWhatItsNumbersCount says what its numbers count, and tells
// people dollars; it told them of millionths, as if they were units.
func TestASpendSaysWhatItsNumbersCount(t *testing.T) {
	table := "version: 1\naccount: a\nmeasures: [usd]\ncosts: {chat: {usd: 0.25}}\nbudgets: [{name: money, limit: " +
		"0.6, window: 30d, count: usd}]\n"
	c := newClient(t, table, t.TempDir(), nil)
	call, err := c.Table().Call("", "chat")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"granted: chat 1; money has $0.35 left", "granted: chat 1; money has $0.10 left",
		""} {
		grants, err := c.SpendTogether(t.Context(), call, 1, 0)
		answer := gateway.NewSpend(c, call, 1, grants, err, time.Now)
		if answer.Measure != "usd" || answer.Granted && answer.Describe(true) != want {
			t.Errorf("%+v; want %q", answer, want)
		}
	}
}

package costs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

const llm = `version: 1
account: llm
hosts: [llm.example.com]
routes: {"POST /v1/{method}": "{method}"}
measures: [input_tokens, output_tokens, usd]
costs:
  chat:
    input_tokens: {body: messages, count: text, or: 800}
    output_tokens: {body: [max_completion_tokens, options.most], or: 1000}
    usd: {per: {input_tokens: 2.5, output_tokens: 10}, each: 1000000}
  embed: {units: 3, input_tokens: 500, usd: 0.0001}
  rows:
    units: {body: rows, or: 100, each: 100}
    input_tokens: {body: rows, or: 100, times: 2}
    output_tokens: {body: pages, or: 1}
    usd: {per: {input_tokens: 2}, each: 1000000}
  plain: 2
budgets:
  - {name: units, limit: 100, window: 1h}
  - {name: output, limit: 4000, window: 1m, count: output_tokens}
  - {name: spend, limit: 12.50, window: {month: UTC}, count: usd}
`

// TestCallsCostWhatTheirRequestSays in each measure, and reserve what is only
// an estimate.
func TestCallsCostWhatTheirRequestSays(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte(llm))
	if err != nil {
		t.Fatal(err)
	}
	if limit := table.Budgets()[2].Limit; limit != 12_500_000 {
		t.Errorf("the limit of 12.50 dollars is %d millionths", limit)
	}
	for _, c := range []struct {
		method, body         string
		units                quota.Units
		input, output, spent quota.Units
		lease                time.Duration
	}{
		{"chat", `{}`, 1, 800, 1000, 12_000, 2 * time.Minute},
		{"chat", `{"messages":[{"role":"user","content":"twelve bytes"}],"max_completion_tokens":7}`, 1, 4, 7, 80,
			2 * time.Minute},
		{"chat", `{"messages":"abcde","options":{"most":2.5}}`, 1, 2, 3, 35, 2 * time.Minute},
		{"chat", `{"max_completion_tokens":"7"}`, 1, 800, 7, 2070, 2 * time.Minute},
		{"chat", `{"max_completion_tokens":7,"max_completion_tokens":9}`, 1, 800, 9, 2090, 2 * time.Minute},
		{"chat", `{"max_completion_tokens":null,"options":{"most":9}}`, 1, 800, 9, 2090, 2 * time.Minute},
		{"chat", `{"messages":[{"image_url":{"url":"data:image/png;base64,` + strings.Repeat("iVBO", 5000) + `"}}]}`, 1,
			1600, 1000, 14_000, 2 * time.Minute},
		{"rows", `{"rows":250,"pages":0}`, 3, 500, 0, 1000, 2 * time.Minute},
		{"chat", `{"max_completion_tokens":-7}`, 1, 800, 1000, 12_000, 2 * time.Minute},
		{"chat", `[]`, 1, 800, 1000, 12_000, 2 * time.Minute},
		// 2.5 millionths, rounded up
		{"chat", `{"max_completion_tokens":0,"messages":"a"}`, 1, 1, 0, 3, 2 * time.Minute},
		{"embed", `{}`, 3, 500, 0, 100, 0},
		{"plain", `{}`, 2, 0, 0, 0, 0},
	} {
		req, err := http.NewRequest(http.MethodPost, "https://llm.example.com/v1/"+c.method, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		call, err := table.Price(req)
		want := map[quota.Measure]quota.Units{"input_tokens": c.input, "output_tokens": c.output, quota.USD: c.spent}
		got := map[quota.Measure]quota.Units{}
		for m := range want {
			got[m] = call.Measures[m]
		}
		if err != nil || call.Units != c.units || call.Lease != c.lease || !maps.Equal(got, want) {
			t.Errorf("%s %s: %+v, %v; want %d units and %v", c.method, c.body, call, err, c.units, want)
		}
		if body, err := io.ReadAll(req.Body); err != nil || string(body) != c.body {
			t.Errorf("%s %s: the body is %q, %v afterwards", c.method, c.body, body, err)
		}
	}
}

// TestABodyThatCannotBeReadCostsTheDefault, which is also what a call by its
// name costs.
func TestABodyThatCannotBeReadCostsTheDefault(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte(llm))
	if err != nil {
		t.Fatal(err)
	}
	long := `{"max_completion_tokens":7,"messages":"` + strings.Repeat("x", 1<<20) + `"}`
	req, err := http.NewRequest(http.MethodPost, "https://llm.example.com/v1/chat", strings.NewReader(long))
	if err != nil {
		t.Fatal(err)
	}
	call, err := table.Price(req)
	if err != nil || call.Measures["output_tokens"] != 1000 {
		t.Errorf("a long body: %+v, %v; want the default", call, err)
	}
	if body, err := io.ReadAll(req.Body); err != nil || string(body) != long {
		t.Errorf("the body has %d bytes afterwards, %v", len(body), err)
	}
	call, err = table.Call("", "chat")
	if err != nil || call.Measures["output_tokens"] != 1000 || call.Measures[quota.USD] != 12_000 || call.Lease == 0 {
		t.Errorf("by name: %+v, %v; want the default", call, err)
	}
}

// TestAmountsThatAreGivenReplaceTheConfigured replace those of costs.yaml, and
// what follows from them is recomputed.
func TestAmountsThatAreGivenReplaceTheConfigured(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte(llm))
	if err != nil {
		t.Fatal(err)
	}
	call, err := table.Call("", "chat")
	if err != nil {
		t.Fatal(err)
	}
	got, err := table.ParseAmounts(call, map[string]json.Number{"input_tokens": "900"})
	if want := map[quota.Measure]quota.Units{"input_tokens": 900, quota.USD: 12_250}; err != nil ||
		!maps.Equal(got, want) {
		t.Errorf("900 input tokens: %v, %v; want %v", got, err, want)
	}
	got, err = table.ParseAmounts(call, map[string]json.Number{"input_tokens": "900", "usd": "0.25"})
	if want := map[quota.Measure]quota.Units{"input_tokens": 900, quota.USD: 250_000}; err != nil ||
		!maps.Equal(got, want) {
		t.Errorf("with a price: %v, %v; want %v", got, err, want)
	}
	for name, text := range map[string]json.Number{"inputtokens": "1", "units": "1", "input_tokens": "1.5",
		"output_tokens": "-1", "usd": "1e3"} {
		if _, err := table.ParseAmounts(call, map[string]json.Number{name: text}); !errors.Is(err, quota.ErrBadCall) {
			t.Errorf("%s of %s: %v; want ErrBadCall", text, name, err)
		}
	}
}

// TestAmountsHaveThePricesOfTheirDocument have the prices of the one that
// priced the call, if they tell.
func TestAmountsHaveThePricesOfTheirDocument(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte("version: 1\nupstream: one\naccount: a\nmeasures: [tok, usd]\n"+
		"costs: {chat: {tok: 100, usd: {per: {tok: 10}, each: 1000}}}\nbudgets: [{name: money, limit: 5, window: "+
		"1h, count: usd}]\n"+
		"---\nversion: 1\nupstream: two\naccount: a\nmeasures: [tok]\ncosts: {chat: {tok: 50}}\nbudgets: [{name: "+
		"toks, limit: 900, window: 1h, count: tok}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for upstream, want := range map[string]map[quota.Measure]quota.Units{"one": {"tok": 200, quota.USD: 2_000_000},
		"two": {"tok": 200}} {
		call, err := table.Call(upstream, "chat")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := table.ParseAmounts(call, map[string]json.Number{"tok": "200"}); err != nil ||
			!maps.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", upstream, got, err, want)
		}
	}
}

// TestMeaninglessMeasuresAreMistakes, each where it is written.
func TestMeaninglessMeasuresAreMistakes(t *testing.T) {
	const measures, embed, spend = "[input_tokens, output_tokens, usd]",
		"embed: {units: 3, input_tokens: 500, usd: 0.0001}", "limit: 12.50"
	none := func(at, measure string) string {
		return fmt.Sprintf("%s: measure %s without a cost: write costs: {METHOD: {%[2]s: 1}}, or remove it", at,
			measure)
	}
	expect(t, llm, []mistake{
		{measures, "[input_tokens, output_tokens, usd, spare]",
			none("5:46", "spare")},
		{measures, "[input_tokens, output_tokens, usd, calls]", "5:46: calls are always counted: remove it"},
		{measures, "[input_tokens, output_tokens, usd, Tokens]",
			`5:46: "Tokens" is not a measure: write lower case letters, digits and _, such as input_tokens`},
		{measures, "[input_tokens, output_tokens, usd, body]",
			"5:46: body is a word of answers: write another name, such as body_count"},
		{measures, "[input_tokens, output_tokens, usd, a, b, c, d]",
			"5:11: 7 measures: write at most 6, those of a preset included\n" + none("5:46", "a") + "\n" +
				none("5:49", "b") + "\n" + none("5:52", "c") + "\n" + none("5:55", "d")},
		{embed, "embed: {tokens: 3}",
			`11:11: unknown measure "tokens": write one of units, input_tokens, output_tokens, usd, or list it in ` +
				`measures`},
		{embed, "embed: {usd: -1}",
			"11:16: usd is -1: write a number from 0 to 140737488 with up to 6 decimals, such as 0.25"},
		{embed, "embed: {usd: 0.1234567}",
			"11:16: usd is 0.1234567: write a number from 0 to 140737488 with up to 6 decimals, such as 0.25"},
		{embed, "embed: {input_tokens: 1.5}", "11:25: input_tokens is 1.5: write an integer from 0 to 140737488355327"},
		{embed, "embed: {}", "11:10: no amount: write one, such as {usd: 1}"},
		{embed, "embed: {usd: {per: {input_tokens: 1}, each: 1}}",
			"11:10: per names input_tokens, of which embed has no amount: write input_tokens: {body: max_tokens, " +
				"or: 1000} beside it"},
		{embed, "embed: {usd: {per: {input_tokens: 1}}, input_tokens: 1}",
			"11:16: missing key \"each\": write each: 1000000, for how many the price is"},
		{embed, "embed: {input_tokens: {body: x}}",
			`11:25: missing key "or": write or: 20, what the upstream takes if the request does not say`},
		{embed, "embed: {usd: 12.51}",
			`11:10: embed costs 12.51, more than the limit 12.50 of budget "spend": lower the cost or raise the limit`},
		{embed, "embed: {output_tokens: 4001}",
			`11:10: embed costs 4001, more than the limit 4000 of budget "output": lower the cost or raise the limit`},
		{embed, "embed: {usd: {body: most, or: 1}}",
			"11:16: dollars that a field says: write a number, or {per: {input_tokens: 2.5}, each: 1000000}"},
		{spend, "limit: 0", "21:26: an amount of 0 dollars: write more than 0"},
		{"count: output_tokens", "count: tokens",
			`20:52: unknown count "tokens": write one of units, calls, errors, input_tokens, output_tokens, usd, or ` +
				`list it in measures`},
	})
}

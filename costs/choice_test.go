package costs_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
)

const byField = `version: 1
account: any
hosts: [api.example.com]
routes:
  POST /v1/chat/completions: {body: model, is: {"gpt-4o*": chat-4o, gpt-4o-mini: chat-mini}, or: chat}
  POST /v1/models: {body: options.model}
  GET /states/all:
    query: lamin
    is: {"*": {header: X-Tier, is: {gold: box-gold}, or: box}}
    or: all
  GET /time: {query: time, is: {"0": now}}
  GET /search: search
  POST /rows: rows
  GET /tickets: tickets
  GET /box: boxes
costs:
  chat-4o: 20
  chat-mini: 2
  chat: 5
  box: 1
  box-gold: 2
  all: 4
  now: 3
  search: {query: limit, or: 20, least: 1, most: 1000, each: 100}
  rows: {body: rows, or: 1, each: 100, times: 2}
  tickets: {query: include, count: items, or: 0, times: 2, plus: 1}
  boxes: {area: [lamin, lomin, lamax, lomax], or: 64800, steps: {25: 1, 100: 2, 400: 3, more: 4}}
budgets: [{name: all, limit: 100000, window: 24h}]
`

var fieldRequests = []struct {
	request string // verb, path, body
	header  http.Header
	want    string // method and units, or a part of the error
}{
	{"POST /v1/chat/completions {\"model\":\"gpt-4o-2026\"}", nil, "chat-4o 20"},
	{"POST /v1/chat/completions {\"model\":\"gpt-4o-mini\"}", nil, "chat-mini 2"},
	{"POST /v1/chat/completions {\"model\":\"o9\"}", nil, "chat 5"},
	{"POST /v1/chat/completions {\"messages\":[]}", nil, "chat 5"},
	{"POST /v1/chat/completions", nil, "chat 5"},
	{"POST /v1/chat/completions {\"model\":\"o9\",\"Model\":\"gpt-4o\"}", nil, "several values"},
	{"POST /v1/chat/completions {\"model\":[\"gpt-4o\"]}", nil, "a list or an object"},
	{"POST /v1/chat/completions {\"model\":\"gpt-4o\"", nil, "neither JSON nor a form"},
	{"POST /v1/models {\"options\":{\"model\":\"chat-mini\"}}", nil, "chat-mini 2"},
	{"POST /v1/models {\"options\":{\"model\":\"CHAT-MINI\"}}", nil, "names no method"},
	{"POST /v1/models {\"options\":{\"model\":\"unknown\"}}", nil, "no cost"},
	{"POST /v1/models model=x&options.model=chat-mini",
		http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, "chat-mini 2"},
	{"GET /states/all", nil, "all 4"},
	{"GET /states/all?lamin=1.5&lomin=2", nil, "box 1"},
	{"GET /states/all?l%61min=1.5", http.Header{"X-Tier": {"gold"}}, "box-gold 2"},
	{"GET /states/all?lamin=1&LAMIN=2", nil, "several values"},
	{"GET /time?time=0", nil, "now 3"},
	{"GET /time?time=1", nil, "none of those"},
	{"GET /time", nil, "has no query time"},
	{"GET /search", nil, "search 1"},
	{"GET /search?limit=101", nil, "search 2"},
	{"GET /search?limit=5000", nil, "search 10"},
	{"GET /search?limit=0", nil, "search 1"},
	{"GET /search?limit=-1", nil, "search 10"},
	{"GET /search?limit=1&limit=900", nil, "search 9"},
	{"GET /search?limit=1;limit=900", nil, "search 10"},
	{"POST /rows {\"rows\":[" + strings.Repeat("0,", 100) + "0]}", nil, "rows 4"},
	{"POST /rows {\"rows\":201}", nil, "rows 6"},
	{"POST /rows {\"rows\":\"many\"}", nil, "not a number"},
	{"GET /box", nil, "boxes 4"},
	{"GET /box?lamin=45.8389&lomin=5.9962&lamax=47.8229&lomax=10.5226", nil, "boxes 1"},
	{"GET /box?lamin=-5&lomin=-5&lamax=5&lomax=5.01", nil, "boxes 3"},
	{"GET /box?lamin=0&lomin=0&lamax=10&lomax=10", nil, "boxes 2"},
	{"GET /box?lamin=0&lomin=0&lamax=10&lomax=100", nil, "boxes 4"},
	{"GET /box?lamin=0&lomin=0&lamax=1", nil, "boxes 4"},
	{"GET /box?lamin=0&lomin=0&lamax=1&lomax=1e9", nil, "not a number"},
	{"GET /tickets", nil, "tickets 1"},
	{"GET /tickets?include=stats,requester", nil, "tickets 5"},
	{"GET /tickets?include=stats&include=requester,x", nil, "tickets 7"},
}

func TestFieldsOfARequestChooseItsMethodAndPrice(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte(byField))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range fieldRequests {
		verb, rest, _ := strings.Cut(c.request, " ")
		path, body, _ := strings.Cut(rest, " ")
		req, err := http.NewRequest(verb, "https://api.example.com"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, values := range c.header {
			req.Header[name] = values
		}
		call, err := table.Price(req)
		got := fmt.Sprint(call.Method, " ", call.Units)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%.60s: %s; want %s", c.request, got, c.want)
		}
		if sent, err := io.ReadAll(req.Body); err != nil || string(sent) != body {
			t.Errorf("%.60s: %q would be sent, %v", c.request, sent, err)
		}
	}
}

func TestMistakesInFieldsOfARequestSayWhereTheyAre(t *testing.T) {
	for text, want := range map[string]string{
		"routes: {/x: {is: {a: m}}}": "4:14: no field of the " +
			"request: write query: NAME, header: NAME or body: NAME",
		"routes: {/x: {query: a, body: b}}": "4:31: body beside query: " +
			"write one of them",
		"routes: {/x: {query: a, is: {}}}":           "4:29: no value: write one",
		"routes: {/x: {query: a, is: {b: \"c d\"}}}": `4:33: "c d" is not a method`,
		"routes: {/x: {query: a, else: m}}":          `4:25: unknown key "else"`,
		"routes: {\"/x?a={b}\": m}": `4:10: route "/x?a={b}" has a ` +
			`query: write the path alone, and {query: NAME`,
		"routes: {/x: m}\ncosts: {m: {query: a}}": `5:12: missing key "or": ` +
			`write or: 20, what the upstream takes`,
		"routes: {/x: m}\ncosts: {m: {or: 1}}": "5:12: no field of the request",
		"routes: {/x: m}\ncosts: {m: {query: a, or: -1}}": "5:27: or is -1: write an " +
			"integer from 0",
		"routes: {/x: m}\ncosts: {m: {query: a, or: 1, least: 9, most: 2}}": "5:12: least 9 is more than " +
			"most 2",
		"routes: {/x: m}\ncosts: {m: {query: a, or: 1, times: 2, steps: {more: 4}}}": "5:12: times beside steps, " +
			"which are the whole price: remove one",
		"routes: {/x: m}\ncosts: {m: {area: [a, b], or: 1}}":            "5:19: an area of 2 parameters",
		"routes: {/x: m}\ncosts: {m: {query: a, or: 1, steps: {9: 1}}}": "5:37: no price above the last step",
		"routes: {/x: m}\ncosts: {m: {query: a, or: 1, steps: {9: 1, 2: 2, more: 3}}}": "5:44: a step that is not " +
			"above the one before",
		"routes: {/x: m}\ncosts: {m: {query: a, or: 99}}": "5:12: m costs 99, more than " +
			"the limit 9",
	} {
		if !strings.Contains(text, "costs:") {
			text += "\ncosts: {m: 1}"
		}
		mistaken(t, "version: 1\naccount: a\nhosts: [api.example.com]\n", map[string]string{text: want},
			"\nbudgets: [{name: all, limit: 9, window: 24h}]")
	}
}

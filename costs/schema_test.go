package costs

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ration-dev/ration/quota/feedback"
)

// schema is the part of a JSON Schema that names keys.
type schema struct {
	Properties           map[string]schema
	AdditionalProperties any
	Required             []string
	OneOf                []schema
	Definitions          map[string]schema
	Enum                 []any
	Else                 *schema
	Items                *schema
}

func readSchema(t *testing.T) (root schema) {
	t.Helper()
	data, err := os.ReadFile("../docs/costs.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestSchemaHasTheParsersKeys compares the keys that mistakes name with those
// of the schema.
func TestSchemaHasTheParsersKeys(t *testing.T) {
	root := readSchema(t)
	budget := root.Definitions["budget"]
	window, answer := budget.Properties["window"].OneOf[1], root.Definitions["answer"]
	batch, lane := schema{}, schema{}
	for line, into := range map[string]*schema{"lanes": &lane, "batches": &batch} {
		if form, err := json.Marshal(root.Properties[line].AdditionalProperties); err != nil ||
			json.Unmarshal(form, into) != nil {
			t.Fatalf("%s has no form", line)
		}
	}
	whole, wholeBudget := root, budget
	whole.Required = append(slices.Clone(root.Required), root.Else.Required...)
	wholeBudget.Required = root.Else.Properties["budgets"].Items.Required
	for text, form := range map[string]schema{
		"{%s}":                             whole,
		"{preset: slack, %s}":              root,
		"preset: {%s}":                     root.Properties["preset"].OneOf[1],
		"credential: {%s}":                 root.Properties["credential"],
		"alert: {%s}":                      root.Properties["alert"],
		"resets: {day: UTC, %s}":           root.Properties["resets"],
		"budgets: [{in_flight: true, %s}]": wholeBudget,
		"preset: slack\nbudgets: [{%s}]":   budget,
		"budgets: [{name: b, limit: 9, window: {%s}}]":           window,
		"budgets: [{name: b, limit: 9, window: {bucket: {%s}}}]": window.Properties["bucket"],
		"lanes: {cron: {%s}}":                                    lane,
		"routes: {/x: {%s}}":                                     root.Definitions["choice"].OneOf[1],
		"costs: {m: {query: q, %s}}":                             root.Definitions["fieldPrice"],
		"costs: {m: 1}\nbatches: {m: {%s}}":                      batch,
		"when_ledger_down: {default: {%s}}":                      root.Definitions["then"].OneOf[1],
		"when_ledger_down: [{%s}]":                               *root.Properties["when_ledger_down"].OneOf[1].Items,
		"answers: [{%s}]":                                        answer,
		"answers: [{when: {%s}}]":                                answer.Properties["when"],
		"answers: [{when: {}, stop: {%s}}]":                      answer.Properties["stop"].OneOf[1],
		"answers: [{when: {}, limits: {left: {%s}}}]":            root.Definitions["value"],
		"answers: [{when: {}, stop: {until: {%s}}}]":             root.Definitions["until"],
		"answers: [{when: {}, limits: {%s}}]":                    root.Definitions["limitOf"],
	} {
		keys := strings.Split(strings.Join(inMistakes(text, "zzzzzz: 1", `"zzzzzz": write one of (.*)`), ""), ", ")
		slices.Sort(keys)
		if diff := cmp.Diff(keys, slices.Sorted(maps.Keys(form.Properties))); diff != "" {
			t.Errorf("keys of %s: %s", text, diff)
		}
		if diff := cmp.Diff(inMistakes(text, "", `missing key "(\w+)"`), form.Required); diff != "" {
			t.Errorf("required keys of %s: %s", text, diff)
		}
		if form.AdditionalProperties != false {
			t.Errorf("%s takes other keys", text)
		}
	}
}

// inMistakes returns what is found in the mistakes of a text with a key. A text
// with lines of its own is otherwise complete.
func inMistakes(text, key, find string) (found []string) {
	text = fmt.Sprintf(text, key)
	if !strings.HasPrefix(text, "{") {
		text = "version: 1\naccount: a\n" + text + "\n"
		for _, line := range []string{"costs: {m: 1}", "budgets: [{name: b, limit: 9, window: 1h}]"} {
			if name, _, _ := strings.Cut(line, ":"); !strings.Contains(text, "\n"+name) {
				text += line + "\n"
			}
		}
	}
	_, err := Parse("costs.yaml", []byte(text))
	for _, match := range regexp.MustCompile(find).FindAllStringSubmatch(fmt.Sprint(err), -1) {
		found = append(found, match[1])
	}
	return found
}

func TestSchemaHasTheParsersWords(t *testing.T) {
	root := readSchema(t)
	for name, c := range map[string]struct {
		known []string
		enum  []any
	}{
		"apis":     {apiNames(), root.Properties["api"].Enum},
		"presets":  {presetNames(), root.Definitions["preset"].Enum},
		"dialects": {feedback.Names(), root.Properties["feedback"].Enum},
	} {
		var known []any
		for _, word := range c.known {
			known = append(known, word)
		}
		if diff := cmp.Diff(known, c.enum); diff != "" {
			t.Errorf("the %s: %s", name, diff)
		}
	}
}

func TestEveryRouteIsFoundAndNoPrefixOfIt(t *testing.T) {
	for _, r := range youtubeV3.routes {
		resumable := routeOf(youtubeV3.routesAt(resumablePrefix+r.path), r.verb)
		if r.isUpload() != (resumable != nil && *resumable == r) {
			t.Errorf("%s %s as a resumable upload is %v", r.verb, r.path, resumable)
		}
		path := r.path
		if path[len(path)-1] == '/' {
			path += "x"
		}
		if found := routeOf(youtubeV3.routesAt(path), r.verb); found == nil || *found != r {
			t.Errorf("%s %s is %v", r.verb, path, found)
		}
		if found := youtubeV3.routesAt(path + "x/y"); len(found) > 0 {
			t.Errorf("%sx/y is %v", path, found)
		}
	}
	if methods := youtubeV3.methods(); len(methods) != 83 {
		t.Errorf("%d methods, want 83", len(methods))
	}
}

package costs_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota/feedback"
)

var update = flag.Bool("update", false, "write docs/upstreams.md and routes_youtube.go anew")

const upstreamsPage = "../docs/upstreams.md"

// TestUpstreamsPageIsThatOfTheDialects: docs/upstreams.md has a row for each
// dialect, made of its rules.
func TestUpstreamsPageIsThatOfTheDialects(t *testing.T) {
	data, err := os.ReadFile(upstreamsPage)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(data), "| upstream |")
	want := head + upstreamsTable()
	if *update {
		if err := os.WriteFile(upstreamsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(data) != want {
		t.Error("docs/upstreams.md is older than the dialects; run go test ./costs -run TestUpstreamsPage -update")
	}
}

func upstreamsTable() string {
	presets := map[string][]string{}
	for _, p := range costs.Presets() {
		if dialect := dialectOf(&p); dialect != "" {
			presets[dialect] = append(presets[dialect], p.Name)
		}
	}
	table := "| upstream | preset | stops by | charges by | knows what is left by |\n|---|---|---|---|---|\n"
	for _, d := range feedback.Dialects() {
		if d.Name == "generic" {
			continue
		}
		var stops, charges, left []string
		for i := range d.Rules {
			r := &d.Rules[i]
			if r.Stop != nil {
				stops = append(stops, places(r.When)...)
				stops = append(stops, places(r.Stop)...)
			}
			charges = append(append(charges, places(r.Cost)...), places(r.Measures)...)
			left = append(left, places(r.Limits)...)
		}
		table += fmt.Sprintf("| [%s](../quota/feedback/dialects/%[1]s.json) | %s | %s | %s | %s |\n",
			d.Name, cell(presets[d.Name]), cell(stops), cell(charges), cell(left))
	}
	return table
}

// dialectOf returns the name after feedback: in a preset's file.
func dialectOf(p *costs.Preset) string {
	for line := range strings.Lines(p.YAML()) {
		if name, found := strings.CutPrefix(line, "feedback: "); found {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// places returns the headers and the fields that a part of a rule names.
func places(part any) (found []string) {
	text, err := json.Marshal(part)
	if err != nil {
		panic(err)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		panic(err)
	}
	var walk func(key string, v any)
	walk = func(key string, v any) {
		switch v := v.(type) {
		case map[string]any:
			isPlaces := key == "header" || key == "body"
			for _, name := range slices.Sorted(maps.Keys(v)) {
				if isPlaces {
					found = append(found, name)
				} else {
					walk(name, v[name])
				}
			}
		case []any:
			for _, item := range v {
				walk(key, item)
			}
		case string:
			if key == "header" || key == "body" {
				found = append(found, v)
			}
		}
	}
	walk("", value)
	return found
}

// maxPlaces is the most names in a cell; the dialect's file has all.
const maxPlaces = 5

func cell(names []string) string {
	var once []string
	for _, name := range names {
		if quoted := "`" + strings.ReplaceAll(name, "|", "\\|") + "`"; !slices.Contains(once, quoted) {
			once = append(once, quoted)
		}
	}
	if len(once) > maxPlaces {
		once = append(once[:maxPlaces], "…")
	}
	return strings.Join(once, ", ")
}

package costs_test

import (
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
	table := "| upstream | preset | stops calls when it answers | until | what is left | what a call cost |\n" +
		"|---|---|---|---|---|---|\n"
	for _, d := range feedback.Dialects() {
		if d.Name == "generic" {
			continue
		}
		var stops, until, left, cost []string
		for i := range d.Rules {
			r := &d.Rules[i]
			if isStop := r.Stop != nil && slices.Contains([]string{"", feedback.Spent, feedback.Busy},
				r.Stop.Kind); isStop {
				stops = append(stops, condition(&r.When))
				until = append(until, ends(r.Stop)...)
			}
			cost = append(cost, places(r.Cost)...)
			for _, m := range slices.Sorted(maps.Keys(r.Measures)) {
				cost = append(cost, places(r.Measures[m])...)
			}
			for _, l := range r.Limits {
				for _, v := range []*feedback.RuleValue{l.Left, l.Used, l.Pair} {
					if v != nil {
						left = append(left, places(feedback.RuleValues{*v})...)
					}
				}
			}
		}
		table += fmt.Sprintf("| [%s](../quota/feedback/dialects/%[1]s.json) | %s | %s | %s | %s | %s |\n",
			d.Name, cell(quoted(presets[d.Name])), cell(stops), cell(until), cell(left), cell(cost))
	}
	return table
}

// condition says which answers a rule is for: 200 with `error.code` 606.
func condition(c *feedback.RuleCondition) string {
	var with []string
	for _, in := range []map[string]feedback.RuleWords{c.Header, c.Body} {
		for _, name := range slices.Sorted(maps.Keys(in)) {
			words := in[name]
			text := "`" + name + "`"
			if words[0] != "*" {
				text += " " + words[0]
			}
			if len(words) > 1 {
				text += " …"
			}
			with = append(with, text)
		}
	}
	if len(c.Text) > 0 {
		with = append(with, fmt.Sprintf("%q", c.Text[0]))
	}
	answer := strings.Join(c.Status, " or ")
	if len(with) > 0 {
		answer = strings.TrimSpace(answer + " with " + strings.Join(with, " and "))
	}
	return answer
}

// ends says when a stop ends.
func ends(s *feedback.Stop) (all []string) {
	for _, u := range s.Until {
		all = append(all, places(feedback.RuleValues{u.RuleValue})...)
		for _, end := range [][2]string{{"", u.Pause}, {"the end of the day, ", u.Day},
			{"the end of the month, ", u.Month},
			{"the next multiple of ", u.Every}, {"the end of ", u.Window}} {
			if end[1] != "" {
				all = append(all, end[0]+end[1])
			}
		}
	}
	return all
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

// places returns the headers and the fields that values are read from.
func places(values feedback.RuleValues) (all []string) {
	for i := range values {
		all = append(all, quoted(slices.Concat(values[i].Header, values[i].Body))...)
	}
	return all
}

func quoted(names []string) (all []string) {
	for _, name := range names {
		all = append(all, "`"+name+"`")
	}
	return all
}

// maxPlaces is the most names in a cell; the dialect's file has all.
const maxPlaces = 4

func cell(names []string) string {
	var once []string
	for _, name := range names {
		if name = strings.ReplaceAll(name, "|", "\\|"); !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	if len(once) == 0 {
		return "–"
	}
	if len(once) > maxPlaces {
		once = append(once[:maxPlaces], "…")
	}
	return strings.Join(once, ", ")
}

package costs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota/feedback"
)

func TestPresetsDocumentIsCurrent(t *testing.T) {
	data, err := os.ReadFile("../docs/presets.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shipped, _ := strings.Cut(string(data), "## Those that ship")
	sections := strings.Split(shipped, "\n### ")[1:]
	presets := costs.Presets()
	if len(sections) != len(presets) {
		t.Fatalf("it has %d of %d presets", len(sections), len(presets))
	}
	for i, p := range presets {
		if !strings.HasPrefix(sections[i], p.Name+"\n") {
			t.Errorf("section %d is not of %s", i, p.Name)
		}
		says := append([]string{p.About, "Read " + p.Date.String()}, p.Unknown...)
		if p.SupersededBy != nil {
			says = append(says, *p.SupersededBy)
		}
		for _, s := range p.Sources {
			says = append(says, "| `"+s.Lines+"` | "+s.Document+" | "+s.Read.String()+" |")
		}
		for _, v := range p.Variants {
			says = append(says, "`"+v.Name+"` ("+v.About+")")
		}
		for _, a := range p.Required {
			says = append(says, "- `"+a.Line+"`: "+a.Write)
		}
		section := strings.Join(strings.Fields(sections[i]), " ") // its lines are wrapped
		for _, text := range says {
			if !strings.Contains(section, text) {
				t.Errorf("%s: it does not say %q", p.Name, text)
			}
		}
	}
}

// TestPresetsDocumentLacksADialect: docs/presets.md lists those that feedback:
// can name.
func TestPresetsDocumentLacksADialect(t *testing.T) {
	data, err := os.ReadFile("../docs/presets.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := ": " + strings.Join(feedback.Names(), ", ") + " |"; !strings.Contains(string(data), want) {
		t.Errorf("no line of it ends with %q", want)
	}
}

// TestPresetsDocumentExamplesParse: each example of docs/presets.md is a valid
// costs.yaml.
func TestPresetsDocumentExamplesParse(t *testing.T) {
	data, err := os.ReadFile("../docs/presets.md")
	if err != nil {
		t.Fatal(err)
	}
	ours, _, _ := strings.Cut(string(data), "## Writing one")
	examples := strings.Split(ours, "```yaml\n")[1:]
	if len(examples) != 8 {
		t.Errorf("%d examples; want 8", len(examples))
	}
	for _, example := range examples {
		text, _, _ := strings.Cut(example, "```")
		if _, err := costs.Parse("costs.yaml", []byte(text)); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
}

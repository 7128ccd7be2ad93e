package costs_test

import (
	"os"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
)

// TestPresetsDocumentExamplesParse: each example of docs/presets.md is a valid
// costs.yaml.
func TestPresetsDocumentExamplesParse(t *testing.T) {
	data, err := os.ReadFile("../docs/presets.md")
	if err != nil {
		t.Fatal(err)
	}
	ours, _, _ := strings.Cut(string(data), "## Writing one")
	examples := strings.Split(ours, "```yaml\n")[1:]
	if len(examples) != 7 {
		t.Errorf("%d examples; want 7", len(examples))
	}
	for _, example := range examples {
		text, _, _ := strings.Cut(example, "```")
		if _, err := costs.Parse("costs.yaml", []byte(text)); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
}

package cli

import "testing"

// TestASpreadsheetRunsNoCell holds that a spreadsheet runs nothing that came
// from outside.
func TestASpreadsheetRunsNoCell(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "-": "-", "search.list": "search.list", "a=b": "a=b", "é": "é", " ": " ", `"`: `"`,
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@sum": "'@sum", " =1": "' =1", `"=1"`: `'"=1"`, "'=1": "''=1",
		"--":   "'--",
		"\t=1": `"\t=1"`, "\x1b[2J": `"\x1b[2J"`, "a\nb": `"a\nb"`, "\xff": `"\xff"`,
	} {
		if got := Cell(name); got != want {
			t.Errorf("Cell(%q) = %q; want %q", name, got, want)
		}
	}
}

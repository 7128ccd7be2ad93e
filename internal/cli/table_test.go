package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
)

// TestNarrowTablesKeepTheirNumbers prints tables at every width from 1 on.
func TestNarrowTablesKeepTheirNumbers(t *testing.T) {
	for width := 1; width < 150; width++ {
		var out strings.Builder
		table := NewTable(&out, width, "budget", "used", "", "window", "next to return", "where", "")
		table.Row("youtube-search", 1234567890, "units", "{day: America/Los_Angeles}",
			"+844 11-22 08:00:30Z (in 23h5m), +5 2027-01-01 08:00:30Z",
			"https://developers.google.com/youtube/v3/determine_quota_cost", "")
		table.Row("日本語の予算", 5, "calls", "24h", "-", "", "no call")
		table.Row("", 0, "", "", "12.6 %", "search.list 800, videos.list 29, videoCategories.list 8", "")
		table.Print()
		fields := strings.Fields(out.String())
		for _, number := range []string{"1234567890", "+844", "11-22", "08:00:30Z", "2027-01-01", "12.6", "800,", "29,",
			"日本語の予算"} {
			if !slices.Contains(fields, number) {
				t.Errorf("%d columns: %s is broken:\n%s", width, number, out.String())
			}
		}
		for line := range strings.Lines(out.String()) {
			if strings.TrimSpace(line) == "" {
				t.Errorf("%d columns: an empty line:\n%s", width, out.String())
			}
			if got := text.StringWidthWithoutEscSequences(strings.TrimRight(line, "\n")); got > max(width, 22) {
				t.Errorf("%d columns: a line of %d: %q", width, got, line)
			}
		}
	}
}

// TestALongTableIsPrintedAsItGrows: a table held all its rows until the last.
// Columns become wider where that is needed, and never narrower.
func TestALongTableIsPrintedAsItGrows(t *testing.T) {
	var out strings.Builder
	table := NewTable(&out, 0, "name", "n")
	for i := range 3 * maxRows {
		name := "short"
		if i == maxRows+1 {
			name = "not so short"
		}
		table.Row(name, i)
		if waiting := i + 2 - strings.Count(out.String(), "\n"); waiting > maxRows {
			t.Fatalf("%d rows are not printed; want at most %d", waiting, maxRows)
		}
	}
	table.Print()
	lines := strings.Split(out.String(), "\n")
	first, last := lines[1], lines[3*maxRows]
	if want := fmt.Sprintf("%-12s %d", "short", 3*maxRows-1); first != "short    0" || last != want {
		t.Errorf("got %q and %q; want %q and %q", first, last, "short    0", want)
	}
}

// TestPercentagesAreAligned: like other numbers, on the right.
func TestPercentagesAreAligned(t *testing.T) {
	var out strings.Builder
	table := NewTable(&out, 0, "job", "share", "at")
	table.Row("music", "94.8 %", "12:00")
	table.Row("charts", "3.4 %", "1.5")
	table.Print()
	if got, want := out.String(), "JOB     SHARE AT\nmusic  94.8 % 12:00\ncharts  3.4 % 1.5\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

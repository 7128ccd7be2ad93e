package cli_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/jobs"
)

// TestAStoppedRegionHasNotFailed: the last state of each region is shown, in
// the words of the table, and names from outside are escaped.
func TestAStoppedRegionHasNotFailed(t *testing.T) {
	var out bytes.Buffer
	regions := []jobs.Region{{Name: "US", Steps: []jobs.Step{{Pages: 4}}},
		{Name: "I\x1bN", Steps: []jobs.Step{{Pages: 2}}}}
	b := cli.StartBars(&out, regions, false)
	b.Update(jobs.Progress{Region: "US", Pages: 2, Done: true, Outcome: jobs.Stopped})
	b.Update(jobs.Progress{Region: "I\x1bN", Pages: 1, Done: true, Outcome: jobs.Failed})
	b.Update(jobs.Progress{Region: "FR", Pages: 1}) // not a region of this run
	b.Stop()
	shown := out.String()
	if !strings.Contains(shown, "US stopped") || strings.Count(shown, string(jobs.Failed)) == 0 ||
		strings.Contains(shown, "I\x1bN") {
		t.Errorf("shown %q", shown)
	}
	if none := (&cli.Bars{}); none.Shown() || !b.Shown() {
		t.Error("the zero Bars are shown, or the others are not")
	}
	var none cli.Bars
	none.Update(jobs.Progress{Region: "US"})
	none.Stop()
}

// TestLinesAreShownAboveTheBars: all of them, escaped, even the last.
func TestLinesAreShownAboveTheBars(t *testing.T) {
	var out bytes.Buffer
	b := cli.StartBars(&out, []jobs.Region{{Name: "emea", Steps: []jobs.Step{{Pages: 1}}}}, false)
	b.Log("emea market: 100% \x1b[31m")
	b.Log("emea market: the last")
	b.Update(jobs.Progress{Region: "emea", Pages: 1, Done: true, Outcome: jobs.Complete})
	b.Stop()
	if shown := out.String(); !strings.Contains(shown, `emea market: 100% \u001b[31m`+"\n") ||
		!strings.Contains(shown, "emea market: the last\n") {
		t.Errorf("shown %q", shown)
	}
}

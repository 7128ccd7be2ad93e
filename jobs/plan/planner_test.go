package plan_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/jobs/plan"
)

// TestDaysOfAPlanHave24Hours: a plan whose start was given at the offset of
// this host's zone was an hour longer or shorter where that changes its clocks.
func TestDaysOfAPlanHave24Hours(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte("version: 1\nupstream: u\naccount: p\ncosts: {m: 1}\nbudgets: [{name: all, limit: 10, window: 1h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	pacific := zone(t, "America/Los_Angeles") // set back on 2026-11-01, forward on 2026-03-08
	for _, from := range []time.Time{time.Date(2026, 10, 31, 0, 0, 0, 0, pacific), time.Date(2026, 3, 7, 0, 0, 0, 0, pacific)} {
		p := plan.NewPlanner(table, nil, from, from)
		if err := p.Play(t.Context(), 2, false); err != nil {
			t.Fatal(err)
		}
		if got := p.Report.To.Sub(p.Report.From); got != 48*time.Hour {
			t.Errorf("two days from %s are %s", from, got)
		}
	}
}

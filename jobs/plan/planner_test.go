package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/jobs/plan"
	"github.com/ration-dev/ration/quota"
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

// TestPlanOfAnAccountThatIsCopied: the plan said that the account is in
// cooldown until 2200.
func TestPlanOfAnAccountThatIsCopied(t *testing.T) {
	move := quota.Move{Account: "p", Ledger: "sqlite:there.db", Arriving: true, ID: "0123456789ab"}
	p := &plan.Planner{Report: &plan.Report{Fits: true}}
	p.State.Cooldowns = []quota.Cooldown{move.Cooldown()}
	if got := p.Remarks()[0]; !strings.HasPrefix(got, "account p is being copied to this ledger from sqlite:there.db: ") {
		t.Errorf("%q; want that it is copied", got)
	}
}

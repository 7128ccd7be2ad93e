package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestDaysOfAPlanHave24Hours: a plan whose start was given at the offset of
// this host's zone was an hour longer or shorter where that changes its clocks.
func TestDaysOfAPlanHave24Hours(t *testing.T) {
	table, err := costs.Parse("costs.yaml",
		[]byte("version: 1\nupstream: u\naccount: p\ncosts: {m: 1}\nbudgets: [{name: all, limit: 10, window: 1h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	pacific := zone(t, "America/Los_Angeles") // set back on 2026-11-01, forward on 2026-03-08
	for _, from := range []time.Time{time.Date(2026, 10, 31, 0, 0, 0, 0, pacific),
		time.Date(2026, 3, 7, 0, 0, 0, 0, pacific)} {
		p := plan.NewPlanner(table, nil, from, from)
		if err := p.Play(t.Context(), 2, false); err != nil {
			t.Fatal(err)
		}
		if got := p.Report.To.Sub(p.Report.From); got != 48*time.Hour {
			t.Errorf("two days from %s are %s", from, got)
		}
	}
}

// TestAPlanSaysThatItsAccountIsCopied: the plan says that the account is
// copied, and all of its calls are refused.
func TestAPlanSaysThatItsAccountIsCopied(t *testing.T) {
	move := quota.MovedError{Account: "p", Ledger: "sqlite:there.db", Arriving: true}
	ledger := memledger.Open(nil)
	if err := testledger.CloseAccount(t.Context(), ledger, move); err != nil {
		t.Fatal(err)
	}
	budgets := []quota.Budget{{Account: "p", Name: "b", Limit: 10, Window: quota.Sliding(time.Hour)}}
	guard, err := quota.NewGuard(ledger, budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	at, state, err := plan.ReadState(t.Context(), guard, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	report := play(t, &plan.Input{From: at, To: at.Add(24 * time.Hour), State: state, Budgets: budgets,
		Regions: parse(t, "schedule: '@hourly'\nfetch: [{trending: {pages: 1}}]\nregions: {US: {}}\n"),
		Price: func(method string) (quota.Call, error) {
			return quota.Call{Account: "p", Method: method, Units: 1}, nil
		}})
	if report.Fits || report.Regions[0].Refused != report.Calls {
		t.Errorf("%d of %d calls are refused; want all", report.Regions[0].Refused, report.Calls)
	}
	p := &plan.Planner{Report: &plan.Report{Fits: true}}
	p.State = state
	if got := p.Remarks()[0]; !strings.HasPrefix(got,
		"account p is being copied to this ledger from sqlite:there.db: ") {
		t.Errorf("%q; want that it is copied", got)
	}
}

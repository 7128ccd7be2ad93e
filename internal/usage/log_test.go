package usage_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// totals returns all totals, largest first.
func totals(ctx context.Context, source *usage.LogReader, by string) ([]usage.Total, error) {
	all, err := source.Totals(ctx, by)
	if err != nil {
		return nil, err
	}
	return all.Largest(0), nil
}

// TestARunsTotalsAreByJobAndHour: of a region, by its job, and by the hour.
func TestARunsTotalsAreByJobAndHour(t *testing.T) {
	s := newStand(t, quota.Budget{Name: "day", Window: quota.Sliding(24 * time.Hour)})
	for i := range 6 {
		s.spend(t, quota.Call{Method: "list", Units: 1, Caller: quota.Caller{Region: []string{"US", "IN"}[i%2]}})
	}
	source := &usage.LogReader{Guard: testledger.Guard(t, s.ledger), Accounts: []string{"p"}}
	all, err := totals(t.Context(), source, "run")
	if err != nil || len(all) != 1 || all[0].Units != 6 {
		t.Fatalf("%v, %v; want a run of 6 units", all, err)
	}
	source.Filter = usage.Filter{Run: all[0].Name, Region: "IN"}
	of, err := totals(t.Context(), source, "job")
	if err != nil || len(of) != 1 || of[0].Units != 3 {
		t.Errorf("%v, %v; want 3 units of the run", of, err)
	}
	hours, err := source.Periods(t.Context(), "hour")
	if err != nil || len(hours) != 1 || hours[0].Units != 3 {
		t.Errorf("%v, %v; want 3 units of the run", hours, err)
	}
}

// TestANameBeyondTheFiftiethIsKnown: a job of the filter that occurs is among
// the names, however many come before it.
func TestANameBeyondTheFiftiethIsKnown(t *testing.T) {
	s := newStand(t, quota.Budget{Name: "day", Window: quota.Sliding(24 * time.Hour)})
	for i := range 60 {
		s.spend(t, quota.Call{Method: "m", Units: 1, Caller: quota.Caller{Job: fmt.Sprint("job", i)}})
	}
	source := &usage.LogReader{Guard: testledger.Guard(t, s.ledger), Accounts: []string{"p"},
		Filter: usage.Filter{Job: "job59", Method: "m"}}
	names, err := source.Names(t.Context())
	if err != nil || len(names["job"]) != 51 {
		t.Fatalf("%v, %v; want 50 jobs and the filter's", names, err)
	}
	if by, name, found := source.Filter.Unknown(names); found {
		t.Errorf("%s %s is unknown", by, name)
	}
	source.Filter.Job = "job60"
	if names, err = source.Names(t.Context()); err != nil || len(names["job"]) != 50 {
		t.Fatalf("%v, %v; want 50 jobs", names, err)
	}
	if _, name, found := source.Filter.Unknown(names); !found || name != "job60" {
		t.Errorf("%q is unknown; want job60", name)
	}
}

// TestAYoungLogMissesNoEntries: a log that is younger than the time asked for
// has dropped nothing until it drops its first entry. One that keeps none, as
// that of q, may have at any time.
func TestAYoungLogMissesNoEntries(t *testing.T) {
	s := newStand(t, quota.Budget{Name: "day", Window: quota.Sliding(24 * time.Hour)})
	source := &usage.LogReader{Guard: testledger.Guard(t, s.ledger), Accounts: []string{"p", "q"},
		Since: noon.Add(-48 * time.Hour)}
	for _, c := range []struct {
		at   time.Duration
		want map[string]time.Duration
	}{
		{0, map[string]time.Duration{"q": engine.Retention(0)}},
		{48 * time.Hour, map[string]time.Duration{"p": s.guard.Retention("p"), "q": engine.Retention(0)}},
	} {
		s.now = noon.Add(c.at)
		for range 20 { // a log drops batches by the dozen
			s.spend(t, quota.Call{Method: "m", Units: 1})
		}
		missing, err := source.Missing(t.Context(), s.guard.Retention, s.now)
		got := map[string]time.Duration{}
		for account, oldest := range missing {
			got[account] = s.now.Sub(oldest)
		}
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("after %s: %v, %v are missing; want %v", c.at, got, err, c.want)
		}
	}
}

// TestTheJobOfCorrectionsIsKnown: where another filter matched nothing, the job
// of corrections was said to be the one that does not occur.
func TestTheJobOfCorrectionsIsKnown(t *testing.T) {
	s := newStand(t, quota.Budget{Name: "day", Window: quota.Sliding(24 * time.Hour)})
	call := quota.Call{Account: "p", Method: "list", Units: 40,
		Caller: quota.Caller{Lane: quota.LaneManual, Job: "reconcile"}}
	if err := s.guard.Note(t.Context(), quota.Note{Call: call, Kind: quota.EntryCorrection}); err != nil {
		t.Fatal(err)
	}
	source := &usage.LogReader{Guard: testledger.Guard(t, s.ledger), Accounts: []string{"p"},
		Filter: usage.Filter{Job: "reconcile", Region: "ZZ"}}
	names, err := source.Names(t.Context())
	if by, name, found := source.Filter.Unknown(names); err != nil || !found || name != "ZZ" {
		t.Errorf("%v: %s %q is unknown; want the region", err, by, name)
	}
}

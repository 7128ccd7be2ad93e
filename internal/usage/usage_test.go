package usage_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// stand is a guard on a ledger whose clock the test sets.
type stand struct {
	now    time.Time
	ledger quota.Ledger
	guard  *quota.Guard
}

func newStand(t *testing.T, budgets ...quota.Budget) *stand {
	t.Helper()
	s := &stand{now: noon}
	for i := range budgets {
		budgets[i].Account = "p"
		if budgets[i].Limit == 0 {
			budgets[i].Limit = 9500
		}
	}
	s.ledger = memledger.Open(&memledger.Options{Now: func() time.Time { return s.now }})
	guard, err := quota.NewGuard(s.ledger, budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.guard = guard
	return s
}

func (s *stand) spend(t *testing.T, call quota.Call) *quota.Grant {
	t.Helper()
	call.Account = "p"
	grant, err := s.guard.Spend(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	return grant
}

func (s *stand) status(t *testing.T) []usage.BudgetStatus {
	t.Helper()
	standings, err := usage.Status(t.Context(), s.guard)
	if err != nil {
		t.Fatal(err)
	}
	return standings
}

// TestAJobCalledReconcileIsNotACorrection: drift used to be recognized by the
// job's name and the entry's amounts, so a free answer to a job of that name
// looked like a correction.
func TestAJobCalledReconcileIsNotACorrection(t *testing.T) {
	s := newStand(t, quota.Budget{Name: "units", Window: quota.Sliding(24 * time.Hour)},
		quota.Budget{Name: "calls", Window: quota.Sliding(24 * time.Hour), Measure: quota.Calls})
	call := quota.Call{Method: "reconcile", Units: 5, Caller: quota.Caller{Lane: "upstream", Job: "reconcile"}}
	if err := s.spend(t, call).Settle(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	late := s.spend(t, call)
	s.spend(t, call)
	if err := late.Settle(t.Context(), 50); err != nil {
		t.Fatal(err)
	}
	for _, b := range s.status(t) {
		if b.Corrected != 0 || b.Reported != 0 || b.ByJob["reconcile"] != b.Used {
			t.Errorf("%s: %+v, by job %v; want no drift", b.Budget.Name, b.Drift, b.ByJob)
		}
	}
	for _, kind := range []quota.EntryKind{quota.EntryCorrection, quota.EntryNote} {
		call.Account = "p"
		if err := s.guard.Note(t.Context(), quota.Note{Call: call, Calls: 2, Kind: kind}); err != nil {
			t.Fatal(err)
		}
	}
	standings := s.status(t)
	if standings[0].Drift != (usage.Drift{Corrected: 5, Reported: 5}) ||
		standings[1].Drift != (usage.Drift{Corrected: 2, Reported: 2}) {
		t.Errorf("%+v, %+v; want what was entered", standings[0].Drift, standings[1].Drift)
	}
	log, err := usage.Log(t.Context(), s.guard, "p")
	if err != nil || log.Units != standings[0].Used || log.Calls != standings[1].Used || log.ReconciledUnits != 5 ||
		log.ReportedUnits != 5 || log.ReconciledCalls != 2 || log.ReportedCalls != 2 {
		t.Errorf("%+v, %v; want what status says", log, err)
	}
}

// TestStatusAddsUpToWhatIsUsed draws calls, and budgets whose windows begin at
// different times: each is attributed completely, and no return is reported
// too early.
func TestStatusAddsUpToWhatIsUsed(t *testing.T) {
	rapid.Check(t, func(d *rapid.T) {
		day := quota.Daily(time.UTC).At(11 * time.Hour).WithMargin(20 * time.Minute)
		s := newStand(t, quota.Budget{Name: "all", Window: quota.Sliding(3 * time.Hour)},
			quota.Budget{Name: "search", Window: quota.Sliding(10 * time.Minute), Methods: []string{"search"}},
			quota.Budget{Name: "day", Window: day}, quota.Budget{Name: "calls", Window: quota.Sliding(time.Hour),
				Measure: quota.Calls})
		s.now = noon.Add(-3 * time.Hour)
		for range rapid.IntRange(0, 30).Draw(d, "calls") {
			s.now = s.now.Add(time.Duration(rapid.IntRange(0, 600).Draw(d, "seconds")) * time.Second)
			s.spend(t, quota.Call{Method: rapid.SampledFrom([]string{"search", "list"}).Draw(d, "method"),
				Units: quota.Units(rapid.IntRange(1, 9).Draw(d, "units"))})
		}
		standings := s.status(t)
		for i, b := range standings {
			sum := quota.Units(0)
			for _, units := range b.ByMethod {
				sum += units
			}
			if sum != b.Used {
				d.Fatalf("%s: %d by method; want %d", b.Budget.Name, sum, b.Used)
			}
			var promised quota.Units
			for _, r := range b.Returns {
				promised += r.Units
				s.now = r.At
				if back := b.Used - s.status(t)[i].Used; back != promised {
					d.Fatalf("%s: %d are back at %s; %d were promised", b.Budget.Name, back, r.At, promised)
				}
			}
			if len(b.Returns) > 0 && b.Returns[0].At.Before(b.NextFree) || len(b.Returns) == 0 && b.Used > 0 {
				d.Fatalf("%s: returns %v; the first is at %s", b.Budget.Name, b.Returns, b.NextFree)
			}
			s.now = b.At
		}
	})
}

// TestLinesOfSeveralAccountsAreOrdered: entries at the same time come in the
// order of their accounts, and newest first is exactly the reverse order.
func TestLinesOfSeveralAccountsAreOrdered(t *testing.T) {
	rapid.Check(t, func(d *rapid.T) {
		s := newStand(t)
		var all []string
		for range rapid.IntRange(0, 40).Draw(d, "calls") {
			s.now = s.now.Add(time.Duration(rapid.IntRange(0, 1).Draw(d, "seconds")) * time.Second)
			call := quota.Call{Account: rapid.SampledFrom([]string{"p", "q"}).Draw(d, "account"),
				Method: rapid.SampledFrom([]string{"a", "b"}).Draw(d, "method"), Units: 1}
			if _, err := s.guard.Spend(t.Context(), call); err != nil {
				d.Fatal(err)
			}
		}
		source := &usage.LogReader{Guard: testledger.Guard(t, s.ledger), Accounts: []string{"p", "q"},
			Filter: usage.Filter{Method: "a"}}
		var last usage.Line
		for line, err := range source.Lines(t.Context(), false) {
			isEarlier := line.At.Before(last.At) || line.At.Equal(last.At) && line.Account < last.Account
			if err != nil || isEarlier || line.Method != "a" {
				d.Fatalf("%+v after %+v, %v", line, last, err)
			}
			last = line
			all = append(all, line.Account+line.ID.String())
		}
		n := rapid.IntRange(1, 50).Draw(d, "last")
		lines, more, err := source.Last(t.Context(), n)
		var got []string
		for _, line := range lines {
			got = append(got, line.Account+line.ID.String())
		}
		if err != nil || more != (len(all) > n) || !slices.Equal(got, all[max(0, len(all)-n):]) {
			d.Fatalf("the last %d are %v, more: %t, %v; want of %v", n, got, more, err, all)
		}
	})
}

// TestTotalsComeLargestFirst adds up by one label, largest first, separately
// for each account.
func TestTotalsComeLargestFirst(t *testing.T) {
	line := func(minute int, account, region string, units, calls quota.Units) usage.Line {
		return usage.Line{Account: account, Entry: quota.Entry{At: noon.Add(time.Duration(minute) * time.Minute),
			Caller: quota.Caller{Region: region}, Units: units, Calls: calls}}
	}
	dear := line(0, "p", "GB", 1, 1)
	dear.Measures = map[quota.Measure]quota.Units{quota.USD: 30}
	got := usage.TotalsOf([]usage.Line{dear, dear, line(1, "p", "IN", 100, 1), line(2, "q", "GB", 7, 1),
		line(3, "p", "GB", 48, 0), line(4, "p", "GB", 50, 0), line(5, "p", "", 0, 1)}, "region").Largest(0)
	want := []usage.Total{
		{"region", "GB", "", "p", 100, 2, 0.5, noon, noon.Add(4 * time.Minute), usage.Amounts{quota.USD: 60}},
		{"region", "IN", "", "p", 100, 1, 0.5, noon.Add(time.Minute), noon.Add(time.Minute), nil},
		{"region", "GB", "", "q", 7, 1, 1, noon.Add(2 * time.Minute), noon.Add(2 * time.Minute), nil},
		{"region", "-", "", "p", 0, 1, 0, noon.Add(5 * time.Minute), noon.Add(5 * time.Minute), nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

// TestLineReportSaysWhatIsNotACall: a call has no remark, and names that are
// empty are shown as unattributed.
func TestLineReportSaysWhatIsNotACall(t *testing.T) {
	for want, e := range map[string]quota.Entry{
		"":                    {Kind: quota.EntryCall, Units: 1, Calls: 1},
		"refunded":            {Kind: quota.EntryRefunded},
		"not a call, by hand": {Kind: quota.EntryNote},
		"found missing by ration ledger reconcile":                 {Kind: quota.EntryCorrection, Units: 1},
		"found missing by the upstream's answers or a restoration": {Kind: quota.EntryNote, Calls: 1},
	} {
		r := usage.NewLineReport(&usage.Line{Entry: e, Account: "p"})
		if r.Remark != want || r.Kind != e.Kind.String() || r.Region != usage.Unattributed ||
			r.Method != usage.Unattributed {
			t.Errorf("%s: %+v; want the remark %q", e.Kind, r, want)
		}
	}
}

// TestAShortWindowHasSeveralReturns: of a budget of a minute, all units were
// one return, at the time of the last, though most came back long before.
func TestAShortWindowHasSeveralReturns(t *testing.T) {
	now := noon
	ledger := memledger.Open(&memledger.Options{Now: func() time.Time { return now }})
	guard, err := quota.NewGuard(ledger,
		[]quota.Budget{{Account: "p", Name: "minute", Limit: 50, Window: quota.Sliding(time.Minute)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, spent := range []struct {
		after time.Duration
		units quota.Units
	}{{0, 10}, {time.Second, 20}, {time.Second / 2, 10}, {22 * time.Second, 5}} {
		now = now.Add(spent.after)
		if _, err := guard.Spend(t.Context(), quota.Call{Account: "p", Method: "m", Units: spent.units}); err != nil {
			t.Fatal(err)
		}
	}
	statuses, err := usage.Status(t.Context(), guard)
	if err != nil {
		t.Fatal(err)
	}
	back := noon.Add(time.Minute)
	want := []usage.Return{{At: back, Units: 10}, {At: back.Add(1500 * time.Millisecond), Units: 30},
		{At: back.Add(23500 * time.Millisecond), Units: 5}}
	if diff := cmp.Diff(want, statuses[0].Returns); diff != "" {
		t.Error(diff)
	}
}

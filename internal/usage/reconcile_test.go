package usage_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// stand is an account with budgets that share calls, on a ledger.
type reconcileStand struct {
	t     *testing.T
	guard *quota.Guard
}

func newReconcileStand(t *testing.T, l quota.Ledger, budgets []quota.Budget) *reconcileStand {
	t.Helper()
	for i := range budgets {
		budgets[i].Account = "p"
		if budgets[i].Limit == 0 {
			budgets[i].Limit = 9500
		}
		if budgets[i].Window == (quota.Window{}) {
			budgets[i].Window = quota.Sliding(24 * time.Hour)
		}
	}
	guard, err := quota.NewGuard(l, budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &reconcileStand{t, guard}
}

// reconcile gives the readings of several budgets at once, and returns
// the error.
func (s *reconcileStand) reconcile(force bool, readings map[string]quota.Units) error {
	s.t.Helper()
	var all []usage.Reading
	for _, b := range s.balances() {
		if n, named := readings[b.Budget.Name]; named {
			all = append(all, usage.Reading{Budget: b.Budget.Name, Used: n})
		}
	}
	_, err := usage.Reconcile(s.t.Context(), s.guard, "p", all, force)
	return err
}

func (s *reconcileStand) balances() []quota.Balance {
	s.t.Helper()
	balances, err := s.guard.Balances(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return balances
}

// holds checks what budgets hold.
func (s *reconcileStand) holds(want map[string]quota.Units) {
	s.t.Helper()
	for _, b := range s.balances() {
		if units, ok := want[b.Budget.Name]; ok && b.Used != units {
			s.t.Errorf("%s holds %d; want %d", b.Budget.Name, b.Used, units)
		}
	}
}

// TestReconcileCorrectsNoLedgerThatWasLeft: a correction where an account has
// moved from counts nowhere, and one where it arrives counts twice.
func TestReconcileCorrectsNoLedgerThatWasLeft(t *testing.T) {
	for _, arriving := range []bool{false, true} {
		ledger := memledger.Open(nil)
		s := newReconcileStand(t, ledger, []quota.Budget{{Name: "all"}})
		move := &engine.Record{Kind: engine.KindMoved, ID: engine.ID{Client: 1, Seq: 1}, Text: "redis://there:6379/0"}
		if arriving {
			move.Name = engine.Arriving
		}
		batch := engine.Pack(move.ID, []*engine.Record{move})
		_, err := ledger.Append(t.Context(), "p", &engine.Append{NewEpoch: 1, Any: true, Data: batch, Bump: true})
		if err != nil {
			t.Fatal(err)
		}
		err = s.reconcile(true, map[string]quota.Units{"all": 40})
		if arriving != errors.Is(err, quota.ErrLedgerBusy) || arriving == errors.Is(err, quota.ErrLedgerConfig) {
			t.Errorf("arriving %t: %v", arriving, err)
		}
		s.holds(map[string]quota.Units{"all": 0})
	}
}

// TestOverlappingBudgetsAllHoldTheirReadings draws budgets, calls and the
// readings of a console, which include calls without the ledger. Given
// together, all budgets must then hold their readings.
func TestOverlappingBudgetsAllHoldTheirReadings(t *testing.T) {
	budgets := []quota.Budget{{Name: "all"}, {Name: "search", Methods: []string{"search.list"}},
		{Name: "backfill", Lanes: []string{"backfill"}},
		{Name: "rest", Except: []string{"search.list"}},
		{Name: "india", Regions: []string{"IN"}, Methods: []string{"search.list", "videos.list"}},
		{Name: "unnamed", Lanes: []string{"cron"}}}
	rapid.Check(t, func(d *rapid.T) {
		r := newReconcileStand(t, memledger.Open(nil), slices.Clone(budgets))
		truth := map[string]quota.Units{}
		for range rapid.IntRange(1, 12).Draw(d, "calls") {
			call := quota.Call{Account: "p",
				Method: rapid.SampledFrom([]string{"search.list", "videos.list", "x"}).Draw(d, "method"),
				Units:  quota.Units(rapid.IntRange(1, 50).Draw(d, "units")), Caller: quota.Caller{
					Lane:   rapid.SampledFrom([]string{"cron", "backfill"}).Draw(d, "lane"),
					Region: rapid.SampledFrom([]string{"", "IN", "US"}).Draw(d, "region")}}
			for _, b := range r.guard.Covering(call) {
				truth[b.Name] += call.Units
			}
			if rapid.Bool().Draw(d, "charged") {
				if _, err := r.guard.Spend(t.Context(), call); err != nil {
					d.Fatal(err)
				}
			}
		}
		taken := map[string]quota.Units{}
		for range rapid.IntRange(0, 3).Draw(d, "rounds") {
			some := drawSome(d, truth, budgets)
			if len(some) == 0 {
				continue
			}
			err := r.reconcile(false, some)
			if err != nil && !rejected(err) {
				d.Fatalf("%v: %v", some, err)
			}
			if err == nil {
				maps.Copy(taken, some)
			}
			r.mustHold(d, taken)
		}
		for name := range taken { // then all readings that were accepted, and more
			taken[name] = truth[name]
		}
		maps.Copy(taken, drawSome(d, truth, budgets))
		if len(taken) == 0 {
			return
		}
		if err := r.reconcile(false, taken); err != nil {
			// a reading that was given twice is too high
			if refused, ok := errors.AsType[*usage.RejectedError](err); !ok || !refused.NeedsForce {
				d.Fatalf("%v: %v", taken, err)
			}
			if err := r.reconcile(true, taken); err != nil {
				d.Fatalf("%v, by force: %v", taken, err)
			}
		}
		r.mustHold(d, taken)
	})
}

// drawSome draws some of the budgets, but the last, with their numbers.
func drawSome(d *rapid.T, truth map[string]quota.Units, budgets []quota.Budget) map[string]quota.Units {
	some := map[string]quota.Units{}
	for _, b := range budgets[:len(budgets)-1] {
		if rapid.Bool().Draw(d, b.Name) {
			some[b.Name] = truth[b.Name]
		}
	}
	return some
}

func (s *reconcileStand) mustHold(d *rapid.T, want map[string]quota.Units) {
	for _, b := range s.balances() {
		if units, ok := want[b.Budget.Name]; ok && b.Used != units {
			d.Fatalf("%s holds %d; want %d of %v", b.Budget.Name, b.Used, units, want)
		}
	}
}

// TestReconcileCorrectsANamedMeasure: a console that shows dollars changed
// nothing, and the budget "agreed".
func TestReconcileCorrectsANamedMeasure(t *testing.T) {
	s := newReconcileStand(t, memledger.Open(nil),
		[]quota.Budget{{Name: "money", Measure: quota.USD, Limit: 10_000_000}, {Name: "units"}})
	spent := quota.Call{Account: "p", Method: "chat", Units: 1,
		Measures: map[quota.Measure]quota.Units{quota.USD: 1_000_000}}
	if _, err := s.guard.Spend(t.Context(), spent); err != nil {
		t.Fatal(err)
	}
	if err := s.reconcile(false, map[string]quota.Units{"money": 1_500_000, "units": 4}); err != nil {
		t.Fatal(err)
	}
	s.holds(map[string]quota.Units{"money": 1_500_000, "units": 4})
	if err := s.reconcile(false, map[string]quota.Units{"money": 250_000}); err == nil ||
		!strings.Contains(err.Error(), "money has 1.50 of 10.00 usd used, more than the 0.25 of the console") {
		t.Errorf("%v; want dollars, and that it takes force", err)
	}
	if err := s.reconcile(true, map[string]quota.Units{"money": 250_000}); err != nil {
		t.Fatal(err)
	}
	s.holds(map[string]quota.Units{"money": 250_000, "units": 4})
}

// TestReconcileRejectsContradictions: numbers that contradict each other
// change nothing.
func TestReconcileRejectsContradictions(t *testing.T) {
	r := newReconcileStand(t, memledger.Open(nil),
		[]quota.Budget{{Name: "long"}, {Name: "short", Window: quota.Sliding(time.Hour)}})
	err := r.reconcile(false, map[string]quota.Units{"long": 844, "short": 600})
	if !rejected(err) || !strings.Contains(err.Error(), "cannot hold these numbers together") {
		t.Errorf("%v; want a refusal", err)
	}
	r.holds(map[string]quota.Units{"long": 0, "short": 0})
}

// TestNamesWithSpacesAreOneArgument: a name with spaces was several arguments
// of the command that the error asks for.
func TestNamesWithSpacesAreOneArgument(t *testing.T) {
	r := newReconcileStand(t, memledger.Open(nil),
		[]quota.Budget{{Name: "the day"}, {Name: "search", Methods: []string{"search.list"}}})
	if err := r.reconcile(false, map[string]quota.Units{"the day": 100}); err != nil {
		t.Fatal(err)
	}
	err := r.reconcile(false, map[string]quota.Units{"search": 50})
	if want := " search=50 " + human.ShellQuote("the day") + "=N"; !rejected(err) ||
		!strings.HasSuffix(err.Error(), want) {
		t.Errorf("%v; want the arguments%s", err, want)
	}
}

// TestRejectedReadingsChangeNothing: readings of calls and of units are checked
// before any is applied.
func TestRejectedReadingsChangeNothing(t *testing.T) {
	r := newReconcileStand(t, memledger.Open(nil),
		[]quota.Budget{{Name: "calls", Measure: quota.Calls}, {Name: "search", Methods: []string{"search.list"}}})
	if err := r.reconcile(false, map[string]quota.Units{"search": 20}); err != nil {
		t.Fatal(err)
	}
	if err := r.reconcile(false, map[string]quota.Units{"calls": 7, "search": 10}); !rejected(err) {
		t.Errorf("%v; want a refusal", err)
	}
	r.holds(map[string]quota.Units{"calls": 0, "search": 20})
	if err := r.reconcile(true, map[string]quota.Units{"calls": 7, "search": 10}); err != nil {
		t.Error(err)
	}
	r.holds(map[string]quota.Units{"calls": 7, "search": 10})
}

func rejected(err error) bool {
	_, ok := errors.AsType[*usage.RejectedError](err)
	return ok
}

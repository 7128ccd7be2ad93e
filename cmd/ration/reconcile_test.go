package main

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/allowance"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// TestNothingIsEnteredBetweenDays: within the margins of a boundary a correction
// would count into both days.
func TestNothingIsEnteredBetweenDays(t *testing.T) {
	for _, c := range []struct {
		window quota.Window
		at     string
		says   string // empty: it may be entered
	}{
		{quota.Daily(time.UTC), "2026-11-20T23:59:29Z", ""},
		{quota.Daily(time.UTC), "2026-11-20T23:59:30Z", "day begins anew, and what is entered now would count into both its windows; go on at 2026-11-21T00:00:30Z (in 1m)"},
		{quota.Daily(time.UTC), "2026-11-21T00:00:29Z", "go on at 2026-11-21T00:00:30Z (in 1s)"},
		{quota.Daily(time.UTC), "2026-11-21T00:00:30Z", ""},
		{quota.Monthly(time.UTC), "2026-11-20T23:59:59Z", ""},
		{quota.Monthly(time.UTC).WithMargin(time.Hour), "2026-11-30T23:00:00Z", "go on at 2026-12-01T01:00:00Z (in 2h)"},
		{quota.Daily(time.UTC).WithMargin(0), "2026-11-21T00:00:00Z", ""},
		{quota.Sliding(time.Hour), "2026-11-21T00:00:00Z", ""},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		got := betweenDays(&quota.Budget{Name: "day", Window: c.window}, at)
		if (got == nil) != (c.says == "") || got != nil && (!strings.HasSuffix(got.Error(), c.says) || !as[*stoppedError](got)) {
			t.Errorf("%s at %s: %v; want %q", c.window, c.at, got, c.says)
		}
	}
}

// TestDrift tells what was found missing from calls, and from what is neither.
func TestDrift(t *testing.T) {
	for _, c := range []struct {
		job, lane    string
		units, calls quota.Units
		want         string
	}{
		{"-", "upstream", 70, 0, byUpstream},
		{"-", "upstream", 0, 1, byUpstream}, // of a budget that counts calls
		{"trending", "upstream", 1, 1, ""},  // somebody's own lane
		{"reconcile", "manual", 70, 0, byHand},
		{"reconcile", "manual", 0, 1, byHand},
		{"reconcile", "manual", 1, 1, ""},
		{"cooldown:youtube", "manual", 0, 0, ""},
		{"trending", "cron", 1, 1, ""},
		{"trending", "cron", 9, 0, ""}, // added to an earlier call
		{"trending", "cron", 0, 1, ""}, // a 304 that is free
	} {
		if got := drift(c.job, c.lane, c.units, c.calls); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// reconcileStand is an account with budgets that share calls, on a ledger.
type reconcileStand struct {
	t *testing.T
	a *app
	s *spending
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
	s := &spending{guard: guard, ledger: &ledger{Ledger: l, name: "test"}, allowance: allowance.New(l, t.TempDir(), nil)}
	return &reconcileStand{t, &app{}, s}
}

// reconcile gives the numbers of several budgets at once, and returns the error.
func (r *reconcileStand) reconcile(force bool, numbers map[string]quota.Units) error {
	r.t.Helper()
	var all []*correction
	for _, b := range r.balances() {
		if n, named := numbers[b.Budget.Name]; named {
			all = append(all, &correction{budget: b.Budget, target: n, Account: "p", Budget: b.Budget.Name})
		}
	}
	return r.s.guard.Correct(r.t.Context(), "p", func() error {
		for _, measure := range []quota.Measure{quota.Calls, quota.ByUnits} {
			if err := r.s.correct(r.t.Context(), all, measure, force); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *reconcileStand) balances() []quota.Balance {
	r.t.Helper()
	balances, err := r.s.guard.Balances(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return balances
}

// holds checks what budgets hold.
func (r *reconcileStand) holds(want map[string]quota.Units) {
	r.t.Helper()
	for _, b := range r.balances() {
		if units, ok := want[b.Budget.Name]; ok && b.Used != units {
			r.t.Errorf("%s holds %d; want %d", b.Budget.Name, b.Used, units)
		}
	}
}

// TestReconcileInTheOrderOfStatusCountsTwice: a console shows 844 units, 800 of
// them searches. Entered one after the other in the order of status, they were
// 1,644. In whatever order they come, together or apart, every budget that was
// taken holds its number afterwards, or the command is refused and changes nothing.
func TestReconcileInTheOrderOfStatusCountsTwice(t *testing.T) {
	budgets := func() []quota.Budget {
		return []quota.Budget{{Name: "youtube"}, {Name: "youtube-day", Window: quota.Sliding(25 * time.Hour)}, {Name: "youtube-search", Methods: []string{"search.list"}}}
	}
	console := map[string]quota.Units{"youtube": 844, "youtube-day": 844, "youtube-search": 800}
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, order := range [][]string{
		{"youtube", "youtube-day", "youtube-search"}, {"youtube-search", "youtube-day", "youtube"}, {"youtube-day", "youtube-search", "youtube"},
		{"youtube-search", "youtube", "youtube-day"}, {"youtube", "youtube-search", "youtube-day"}, {"youtube-day", "youtube", "youtube-search"},
	} {
		t.Run(strings.Join(order, ","), func(t *testing.T) {
			eachLedger(t, at, func(t *testing.T, l quota.Ledger, clock *time.Time) {
				r := newReconcileStand(t, l, budgets())
				taken := map[string]quota.Units{}
				for _, name := range order {
					*clock = clock.Add(time.Minute)
					err := r.reconcile(false, map[string]quota.Units{name: console[name]})
					if err == nil {
						taken[name] = console[name]
					} else if text := err.Error(); !as[*usageError](err) || !strings.Contains(text, "ration ledger reconcile youtube") || !strings.Contains(text, name+"=") {
						t.Fatalf("%s: %v; want the command that gives all of them", name, err)
					}
					r.holds(taken)
				}
				if err := r.reconcile(false, console); err != nil {
					t.Fatal(err)
				}
				r.holds(console)
			})
		})
	}
}

// TestReconcileOfBudgetsThatOverlap draws budgets, calls and what a console
// counted of them, with calls that went around the ledger. Given together, all
// budgets must hold what the console says.
func TestReconcileOfBudgetsThatOverlap(t *testing.T) {
	budgets := []quota.Budget{{Name: "all"}, {Name: "search", Methods: []string{"search.list"}}, {Name: "backfill", Lanes: []string{"backfill"}},
		{Name: "rest", Except: []string{"search.list"}}, {Name: "india", Regions: []string{"IN"}, Methods: []string{"search.list", "videos.list"}}, {Name: "unnamed", Lanes: []string{"cron"}}}
	rapid.Check(t, func(d *rapid.T) {
		r := newReconcileStand(t, memledger.Open(nil), slices.Clone(budgets))
		truth := map[string]quota.Units{}
		for range rapid.IntRange(1, 12).Draw(d, "calls") {
			call := quota.Call{Account: "p", Method: rapid.SampledFrom([]string{"search.list", "videos.list", "x"}).Draw(d, "method"),
				Units: quota.Units(rapid.IntRange(1, 50).Draw(d, "units")), Caller: quota.Caller{
					Lane: rapid.SampledFrom([]string{"cron", "backfill"}).Draw(d, "lane"), Region: rapid.SampledFrom([]string{"", "IN", "US"}).Draw(d, "region")}}
			for _, b := range r.s.guard.Covering(call) {
				truth[b.Name] += call.Units
			}
			if rapid.Bool().Draw(d, "charged") {
				if _, err := r.s.guard.Spend(t.Context(), call); err != nil {
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
			if err != nil && !as[*usageError](err) {
				d.Fatalf("%v: %v", some, err)
			}
			if err == nil {
				maps.Copy(taken, some)
			}
			r.mustHold(d, taken)
		}
		for name := range taken { // then once all that was taken, and more
			taken[name] = truth[name]
		}
		maps.Copy(taken, drawSome(d, truth, budgets))
		if len(taken) == 0 {
			return
		}
		if err := r.reconcile(false, taken); err != nil {
			if !strings.Contains(err.Error(), "--force") { // what was entered twice is too much
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

func (r *reconcileStand) mustHold(d *rapid.T, want map[string]quota.Units) {
	for _, b := range r.balances() {
		if units, ok := want[b.Budget.Name]; ok && b.Used != units {
			d.Fatalf("%s holds %d; want %d of %v", b.Budget.Name, b.Used, units, want)
		}
	}
}

// TestReconcileThatCannotBe: numbers that contradict each other change nothing.
func TestReconcileThatCannotBe(t *testing.T) {
	r := newReconcileStand(t, memledger.Open(nil), []quota.Budget{{Name: "long"}, {Name: "short", Window: quota.Sliding(time.Hour)}})
	err := r.reconcile(false, map[string]quota.Units{"long": 844, "short": 600})
	if !as[*usageError](err) || !strings.Contains(err.Error(), "cannot hold these numbers together") {
		t.Errorf("%v; want a refusal", err)
	}
	r.holds(map[string]quota.Units{"long": 0, "short": 0})
}

// TestLoweringReachesSoManyEntriesBack: what is older stays, and the answer says so.
func TestLoweringReachesSoManyEntriesBack(t *testing.T) {
	s := newStand(t, nil, "{name: all, limit: 1000, window: 24h}", "[trending]", "US")
	ledger, err := sqliteledger.Open(filepath.Join(s.dir, "ration.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	requests := make([]quota.Request, quota.MaxSettle+2)
	for i := range requests {
		requests[i] = quota.Request{Method: "videos.list", Force: true}
	}
	requests[0].Units = 527
	if _, err := ledger.Spend(t.Context(), &quota.Batch{Account: "p", History: 24 * time.Hour, Requests: requests}); err != nil {
		t.Fatal(err)
	}
	const want = "all had 527 units: none could be taken off, they are older than 256 entries; it has 527 of 1000 used, 473 left\n"
	out, err := s.command("ledger", "reconcile", "all", "--used", "100", "--force").CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("%v, it says %q; want %q", err, out, want)
	}
}

// TestReconcileWithoutALedger: what it would enter is not a call, so it uses no
// allowance and announces none.
func TestReconcileWithoutALedger(t *testing.T) {
	s := newStand(t, nil, "{name: all, limit: 1000, window: 24h}", "[trending]", "US")
	costs, err := os.ReadFile(filepath.Join(s.dir, "costs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "costs.yaml", string(costs)+"when_ledger_down: {default: {allow: 5}}\n")
	out, err := s.command("--ledger", "redis://127.0.0.1:1", "ledger", "reconcile", "all", "--used", "100").CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 69 || strings.Count(string(out), "\n") != 1 || strings.Contains(string(out), "allowance") {
		t.Errorf("%v, it says %q; want one line and exit 69", err, out)
	}
}

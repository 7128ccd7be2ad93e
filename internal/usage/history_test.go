package usage_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

var historyNoon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// eachLedger runs a test on every ledger. open opens an empty one.
func eachHistoryLedger(t *testing.T, test func(t *testing.T, open func(now func() time.Time) quota.Ledger)) {
	n := 0
	must := func(l quota.Ledger, err error) quota.Ledger {
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	t.Run("memory", func(t *testing.T) {
		test(t, func(now func() time.Time) quota.Ledger { return memledger.Open(&memledger.Options{Now: now}) })
	})
	t.Run("SQLite", func(t *testing.T) {
		dir := t.TempDir()
		test(t, func(now func() time.Time) quota.Ledger {
			n++
			return must(sqliteledger.Open(filepath.Join(dir, fmt.Sprint(n)),
				&sqliteledger.Options{Now: now, Sync: sqliteledger.Normal}))
		})
	})
	t.Run("Redis", func(t *testing.T) {
		url := servers.StartRedis(t).URL()
		test(t, func(now func() time.Time) quota.Ledger {
			n++
			return must(redisledger.Open(url, &redisledger.Options{Now: now, Prefix: fmt.Sprint("t", n)}))
		})
	})
}

// world is a guard on a ledger, and a history of it with two processes that
// fill it.
type world struct {
	t       testing.TB
	clock   *ledgertest.Clock
	ledger  quota.Ledger
	guard   *quota.Guard
	budgets []quota.Budget
	stores  []*catalog.Catalog
	path    string
}

func newWorld(t testing.TB, dir string, open func(now func() time.Time) quota.Ledger, budgets ...quota.Budget) *world {
	w := &world{t: t, clock: &ledgertest.Clock{}, budgets: budgets, path: filepath.Join(dir, "catalog.db")}
	w.clock.Set(historyNoon)
	w.ledger = open(w.clock.Now)
	var err error
	if w.guard, err = quota.NewGuard(w.ledger, budgets, nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c, err := catalog.Open(w.path, &catalog.Options{Now: w.clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		w.stores = append(w.stores, c)
	}
	return w
}

func (w *world) close() {
	for _, c := range w.stores {
		c.Close()
	}
	w.ledger.Close()
}

func (w *world) spend(method, region string, units quota.Units) *quota.Grant {
	w.t.Helper()
	g, err := w.guard.Spend(w.t.Context(),
		quota.Call{Account: "p", Method: method, Units: units,
			Caller: quota.Caller{Lane: "cron", Job: "j", Region: region}})
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

func (w *world) fill(process int) {
	w.t.Helper()
	if err := usage.FillHistory(w.t.Context(), w.stores[process], w.guard, []string{"p"}); err != nil {
		w.t.Fatal(err)
	}
}

// sums returns the history as budget date name: units/calls.
func (w *world) sums(by string) map[string]string {
	w.t.Helper()
	rows, err := w.stores[0].History(w.t.Context(), &catalog.DayQuery{By: by})
	if err != nil {
		w.t.Fatal(err)
	}
	found := map[string]string{}
	for _, r := range rows {
		found[fmt.Sprint(r.Budget, " ", r.Date, " ", r.Name)] = fmt.Sprint(r.Units, "/", r.Calls)
	}
	return found
}

func (w *world) want(by string, want map[string]string) {
	w.t.Helper()
	if got := w.sums(by); !maps.Equal(got, want) {
		w.t.Errorf("by %q: %v; want %v", by, got, want)
	}
}

func budget(name string, window quota.Window) quota.Budget {
	return quota.Budget{Account: "p", Name: name, Limit: 1_000_000, Window: window}
}

func pacific(t testing.TB) *time.Location {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// TestDayOutlivesTheLog: an operator asked on Monday who spent Friday's quota,
// and the log had dropped it.
func TestDayOutlivesTheLog(t *testing.T) {
	eachHistoryLedger(t, func(t *testing.T, open func(func() time.Time) quota.Ledger) {
		w := newWorld(t, t.TempDir(), open, budget("sliding", quota.Sliding(24*time.Hour)),
			budget("la", quota.Daily(pacific(t))))
		defer w.close()
		w.clock.Set(time.Date(2026, 11, 20, 7, 30, 0, 0, time.UTC)) // the 19th in California
		w.spend("m", "IN", 5)
		w.clock.Set(historyNoon)
		w.spend("m", "IN", 70)
		w.spend("n", "", 100)
		w.fill(0)
		w.clock.Set(historyNoon.Add(72 * time.Hour))
		w.spend("n", "BR", 1) // which makes the ledger drop the rest
		w.clock.Add(20 * time.Hour)
		w.spend("n", "BR", 1)
		w.fill(1)
		w.fill(0)
		w.want("region", map[string]string{
			" 2026-11-20 IN": "75/2", " 2026-11-20 -": "100/1", " 2026-11-23 BR": "1/1", " 2026-11-24 BR": "1/1",
			"sliding 2026-11-20 IN": "75/2", "sliding 2026-11-20 -": "100/1", "sliding 2026-11-23 BR": "1/1",
			"sliding 2026-11-24 BR": "1/1",
			"la 2026-11-19 IN":      "5/1", "la 2026-11-20 IN": "70/1", "la 2026-11-20 -": "100/1",
			"la 2026-11-23 BR": "1/1", "la 2026-11-24 BR": "1/1",
		})
		rows, err := w.stores[0].History(t.Context(),
			&catalog.DayQuery{Budget: new("la"), From: historyNoon.Add(-30 * time.Hour), To: historyNoon})
		if err != nil || len(rows) != 2 || rows[0].Peak != 5 || rows[1].Peak != 170 ||
			!rows[1].Day.Equal(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)) {
			t.Errorf("%+v, %v; want two days with peaks of 5 and 170", rows, err)
		}
	})
}

// TestADayTakesRefundsAfterItsFill: a day kept counting a call that was
// refunded, and the first cost of one that was settled, because they were read
// once.
func TestADayTakesRefundsAfterItsFill(t *testing.T) {
	eachHistoryLedger(t, func(t *testing.T, open func(func() time.Time) quota.Ledger) {
		w := newWorld(t, t.TempDir(), open, budget("b", quota.Sliding(10*time.Minute)))
		defer w.close()
		for range 3 { // the first entry of a log, and later ones whose forerunners are gone
			refunded, settled := w.spend("m", "IN", 7), w.spend("m", "IN", 100)
			w.fill(0)
			w.clock.Add(9 * time.Minute)
			if err := refunded.Refund(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := settled.Settle(t.Context(), 40); err != nil {
				t.Fatal(err)
			}
			w.fill(1)
			w.clock.Add(time.Hour)
		}
		w.want("", map[string]string{" 2026-11-20 ": "120/3", "b 2026-11-20 ": "120/3"})
	})
}

// TestDaysKeepCorrectionsApartFromJobs: days by job added corrections
// to the calls of a job with their name.
func TestDaysKeepCorrectionsApartFromJobs(t *testing.T) {
	eachHistoryLedger(t, func(t *testing.T, open func(func() time.Time) quota.Ledger) {
		w := newWorld(t, t.TempDir(), open)
		defer w.close()
		call := quota.Call{Account: "p", Method: "m", Units: 5, Caller: quota.Caller{Job: "reconcile"}}
		for units, kind := range map[quota.Units]quota.EntryKind{40: quota.EntryCorrection, 2: quota.EntryNote} {
			call.Units = units
			if err := w.guard.Note(t.Context(), quota.Note{Call: call, Kind: kind}); err != nil {
				t.Fatal(err)
			}
		}
		w.fill(0)
		w.want("job", map[string]string{" 2026-11-20 (corrections)": "40/0", " 2026-11-20 reconcile": "2/0"})
		// as the log selects
		for job, want := range map[string]quota.Units{"": 42, "reconcile": 42, "(corrections)": 40} {
			days, err := usage.ReadDays(t.Context(), w.stores[0],
				&usage.LogReader{Accounts: []string{"p"}, Filter: usage.Filter{Job: job}})
			if err != nil || len(days) != 1 || days[0].Units != want {
				t.Errorf("days of job %q: %+v, %v; want %d units", job, days, err, want)
			}
		}
	})
}

// TestForgottenLogKeepsItsHistory: a Redis that lost its data took the day
// with it.
func TestForgottenLogKeepsItsHistory(t *testing.T) {
	open := func(now func() time.Time) quota.Ledger { return memledger.Open(&memledger.Options{Now: now}) }
	w := newWorld(t, t.TempDir(), open, budget("b", quota.Sliding(24*time.Hour)))
	defer w.close()
	for range 40 {
		w.spend("m", "IN", 10)
		w.clock.Add(20 * time.Minute)
		w.fill(0)
	}
	w.ledger = open(w.clock.Now)
	var err error
	if w.guard, err = quota.NewGuard(w.ledger, w.budgets, nil); err != nil {
		t.Fatal(err)
	}
	w.fill(0) // of an empty log
	w.spend("m", "IN", 1)
	w.fill(1)
	w.clock.Add(time.Minute)
	w.spend("m", "IN", 1)
	w.fill(0)
	w.want("", map[string]string{" 2026-11-20 ": "360/36", " 2026-11-21 ": "42/6", "b 2026-11-20 ": "360/36",
		"b 2026-11-21 ": "42/6"})
}

// TestADrawnDayHasWhatWasReallySpent draws spends, settles, refunds, notes and
// fills by two processes, and compares each day with what was really spent.
// Only the time from a call, or its correction, to the next fill is bounded, by
// the time that the log keeps the call.
func TestADrawnDayHasWhatWasReallySpent(t *testing.T) {
	if testing.Short() {
		t.Skip("draws long histories, 6 seconds")
	}
	eachHistoryLedger(t, func(t *testing.T, open func(func() time.Time) quota.Ledger) {
		dir, n := t.TempDir(), 0
		rapid.Check(t, func(rt *rapid.T) {
			n++
			sub := filepath.Join(dir, fmt.Sprint("c", n))
			horizon := rapid.SampledFrom([]time.Duration{10 * time.Minute, 24 * time.Hour, 72 * time.Hour}).Draw(rt,
				"window")
			w := newWorld(t, sub, open, budget("sliding", quota.Sliding(horizon)),
				budget("la", quota.Daily(pacific(t)).At(time.Hour)),
				quota.Budget{Account: "p", Name: "m", Limit: 1_000_000, Window: quota.Sliding(time.Minute),
					Methods: []string{"m"}})
			defer w.close()
			if horizon < 24*time.Hour {
				w.budgets = append(w.budgets[:1:1], w.budgets[2])
				w.guard, _ = quota.NewGuard(w.ledger, w.budgets, nil)
			}
			(&drawn{world: w, horizon: horizon}).play(rt)
		})
	})
}

// drawn is the truth that a drawn history is compared with.
type drawn struct {
	*world
	horizon time.Duration
	calls   []*drawnCall
	unread  time.Time // the oldest call that was spent or corrected since the last fill, or that fill
}

type drawnCall struct {
	grant          *quota.Grant
	at             time.Time
	method, region string
	units, calls   quota.Units
}

func (d *drawn) play(rt *rapid.T) {
	d.unread = d.clock.Now()
	for range rapid.IntRange(5, 40).Draw(rt, "steps") {
		switch rapid.SampledFrom([]string{"spend", "spend", "spend", "settle", "refund", "note", "fill", "wait",
			"wait"}).Draw(rt, "step") {
		case "spend":
			c := &drawnCall{at: d.clock.Now(), method: rapid.SampledFrom([]string{"m", "n"}).Draw(rt, "method"),
				region: rapid.SampledFrom([]string{"IN", "BR", ""}).Draw(rt, "region"),
				units:  quota.Units(rapid.IntRange(1, 100).Draw(rt, "units")), calls: 1}
			c.grant = d.spend(c.method, c.region, c.units)
			d.calls = append(d.calls, c)
		case "note":
			n := &drawnCall{at: d.clock.Now(), method: "m", units: 5, calls: 2}
			if err := d.guard.Note(d.t.Context(), quota.Note{Call: quota.Call{Account: "p", Method: "m", Units: 5},
				Calls: 2}); err != nil {
				rt.Fatal(err)
			}
			d.calls = append(d.calls, n)
		case "settle", "refund":
			d.correct(rt, rapid.Bool().Draw(rt, "refund"))
		case "fill":
			d.fill(rapid.IntRange(0, 1).Draw(rt, "process"))
			d.unread = d.clock.Now()
		case "wait":
			step := time.Duration(rapid.Int64Range(1, int64(d.horizon)).Draw(rt, "wait")).Truncate(time.Microsecond)
			// then the log no longer keeps what changed since the last fill
			if d.clock.Now().Add(step).Sub(d.unread) >= d.horizon {
				d.fill(0)
				d.unread = d.clock.Now()
			}
			d.clock.Add(step)
		}
	}
	if d.fill(1); d.horizon > 48*time.Hour { // what is older is corrected within an hour
		d.clock.Add(time.Hour)
		d.fill(1)
	}
	d.compare(rt)
}

// correct settles or refunds one of the calls that windows still count.
func (d *drawn) correct(rt *rapid.T, refund bool) {
	for i := len(d.calls) - 1; i >= 0; i-- {
		c := d.calls[i]
		if c.grant == nil || d.clock.Now().Sub(c.at) >= d.horizon || !rapid.Bool().Draw(rt, "this") {
			continue
		}
		if c.at.Before(d.unread) {
			d.unread = c.at
		}
		if refund {
			c.units, c.calls = 0, 0
			if err := c.grant.Refund(d.t.Context()); err != nil {
				rt.Fatal(err)
			}
			return
		}
		c.units, c.calls = quota.Units(rapid.IntRange(0, 300).Draw(rt, "settled")), 1
		if err := c.grant.Settle(d.t.Context(), c.units); err != nil {
			rt.Fatal(err)
		}
		return
	}
}

func (d *drawn) compare(rt *rapid.T) {
	type amount struct{ units, calls quota.Units }
	truth := map[string]amount{}
	add := func(budget string, window quota.Window, c *drawnCall) {
		days := window.Days()
		region := c.region
		if region == "" {
			region = "-"
		}
		key := fmt.Sprint(budget, " ", days.Day(c.at).Start.In(window.Zone()).Format(time.DateOnly), " ", region)
		sum := truth[key]
		truth[key] = amount{sum.units + c.units, sum.calls + c.calls}
	}
	for _, c := range d.calls {
		add("", quota.Window{}, c)
		for _, b := range d.budgets {
			if b.Coverage().Covers(c.method, "", c.region) {
				add(b.Name, b.Window, c)
			}
		}
	}
	want := map[string]string{}
	for key, sum := range truth {
		if sum != (amount{}) {
			want[key] = fmt.Sprint(sum.units, "/", sum.calls)
		}
	}
	if got := d.sums("region"); !maps.Equal(got, want) {
		rt.Fatalf("history %v\nwant %v", got, want)
	}
}

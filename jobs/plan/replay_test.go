package plan_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/jobs/plan"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/usage"
)

// TestReplayRefusesWhatTheGuardRefuses holds a replay and a guard together: a
// drawn trace goes to a guard of the candidate budgets as it happens, and into a
// log without limits, which is then replayed.
func TestReplayRefusesWhatTheGuardRefuses(t *testing.T) {
	rapid.Check(t, func(d *rapid.T) {
		clock := &ledgertest.Clock{}
		clock.Set(time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC))
		candidate := []quota.Budget{
			{Account: "p", Name: "sliding", Limit: quota.Units(rapid.IntRange(1, 400).Draw(d, "limit")), Window: quota.Sliding(6 * time.Hour)},
			{Account: "p", Name: "day", Limit: quota.Units(rapid.IntRange(50, 800).Draw(d, "day")), Window: quota.Daily(zone(t, "America/Los_Angeles")), Floor: map[string]quota.Units{"IN": 30}},
			{Account: "p", Name: "calls", Limit: quota.Units(rapid.IntRange(1, 9).Draw(d, "calls")), Measure: quota.Calls, Methods: []string{"m"}, Window: quota.Counter(time.Hour)},
			{Account: "q", Name: "cron", Limit: 20, Lanes: []string{"cron"}, Window: quota.Sliding(time.Hour)},
		}
		trace := &trace{clock: clock, want: map[string]int{}}
		log, live := open(clock.Now), open(clock.Now)
		defer log.Close()
		defer live.Close()
		history := map[string]time.Duration{"p": quota.MaxHistory, "q": quota.MaxHistory}
		var err error
		if trace.log, err = quota.NewGuard(log, nil, &quota.Options{History: history}); err != nil {
			t.Fatal(err)
		}
		if trace.live, err = quota.NewGuard(live, candidate, nil); err != nil {
			t.Fatal(err)
		}
		trace.since = clock.Now().Add(time.Duration(rapid.IntRange(0, 300).Draw(d, "since")) * time.Minute)
		for range rapid.IntRange(1, 80).Draw(d, "entries") {
			trace.step(d)
		}
		in := &plan.ReplayInput{Budgets: candidate, Open: open, Since: trace.since}
		replayed, err := plan.Replay(t.Context(), in, (&usage.Source{Ledger: log, Accounts: []string{"p", "q"}}).Lines(t.Context(), false))
		if err != nil {
			t.Fatal(err)
		}
		got, refused := map[string]int{}, 0
		for _, h := range replayed.Hours {
			got[fmt.Sprint(h.Hour.Format("02T15"), " ", h.Account, " ", h.Budget, " ", h.Region)] += h.Refused
		}
		for _, b := range replayed.Budgets {
			refused += b.Refused
		}
		if fmt.Sprint(got) != fmt.Sprint(trace.want) || refused != replayed.Refused || replayed.Calls != trace.calls {
			d.Fatalf("replayed %v, %d of %d calls; the guard refused %v of %d", got, refused, replayed.Calls, trace.want, trace.calls)
		}
	})
}

// trace spends the same calls on a log without limits and on a guard.
type trace struct {
	clock     *ledgertest.Clock
	log, live *quota.Guard
	since     time.Time
	want      map[string]int
	calls     int
}

func (tr *trace) step(d *rapid.T) {
	tr.clock.Add(time.Duration(rapid.Int64Range(1, int64(90*time.Minute)).Draw(d, "wait")).Truncate(time.Microsecond) + time.Microsecond)
	units := quota.Units(rapid.IntRange(1, 120).Draw(d, "units"))
	call := quota.Call{Account: rapid.SampledFrom([]string{"p", "p", "q"}).Draw(d, "account"), Method: rapid.SampledFrom([]string{"m", "n"}).Draw(d, "method"), Units: units,
		Caller: quota.Caller{Lane: rapid.SampledFrom([]string{"cron", "manual"}).Draw(d, "lane"), Region: rapid.SampledFrom([]string{"IN", "BR", ""}).Draw(d, "region")}}
	kind := rapid.SampledFrom([]string{"call", "call", "call", "settled", "free", "refunded", "note", "correction"}).Draw(d, "kind")
	note := func(g *quota.Guard, kind quota.EntryKind, calls quota.Units) {
		if err := g.Note(d.Context(), quota.Note{Call: call, Calls: calls, Kind: kind}); err != nil {
			d.Fatal(err)
		}
	}
	if kind == "note" || kind == "correction" {
		which := map[string]quota.EntryKind{"note": quota.EntryNote, "correction": quota.EntryCorrection}[kind]
		note(tr.log, which, 3)
		note(tr.live, which, 3)
		return
	}
	grant, err := tr.log.Spend(d.Context(), call)
	if err != nil {
		d.Fatal(err)
	}
	switch kind {
	case "refunded": // never sent
		if err := grant.Refund(d.Context()); err != nil {
			d.Fatal(err)
		}
		return
	case "settled", "free":
		call.Units = map[string]quota.Units{"settled": units/2 + 1, "free": 0}[kind]
		if err := grant.Settle(d.Context(), call.Units); err != nil {
			d.Fatal(err)
		}
	}
	if tr.clock.Now().Before(tr.since) {
		note(tr.live, quota.EntryNote, 1)
		return
	}
	tr.calls++
	asked := call
	asked.Units = max(1, call.Units)
	grant, err = tr.live.Spend(d.Context(), asked)
	if err == nil {
		err = grant.Settle(d.Context(), call.Units)
	}
	budget := ""
	if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
		budget = refused.Budget
	} else if never, ok := errors.AsType[*quota.NeverFitsError](err); ok {
		budget = never.Budget
	} else if err != nil {
		d.Fatal(err)
	}
	if budget != "" {
		region := map[string]string{"": "-"}[call.Caller.Region] + call.Caller.Region
		tr.want[fmt.Sprint(tr.clock.Now().Format("02T15"), " ", call.Account, " ", budget, " ", region)]++
	}
}

// TestReplayStreams: a replay of a long log held all of it.
func TestReplayStreams(t *testing.T) {
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	heap := func(n int) (most uint64) {
		lines := func(yield func(usage.Line, error) bool) {
			for i := range n {
				if i%50_000 == 0 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapAlloc)
				}
				e := quota.Entry{At: start.Add(time.Duration(i) * time.Second), Kind: quota.EntryCall, Method: "m", Units: 2, Calls: 1}
				if !yield(usage.Line{Entry: e, Account: "p"}, nil) {
					return
				}
			}
		}
		in := &plan.ReplayInput{Budgets: []quota.Budget{{Account: "p", Name: "b", Limit: 1000, Window: quota.Sliding(time.Hour)}}, Open: open, Since: start}
		r, err := plan.Replay(t.Context(), in, lines)
		if err != nil || r.Calls != n || r.Refused == 0 {
			t.Fatal(r, err)
		}
		return most
	}
	short, long := heap(100_000), heap(600_000)
	if long > short+4<<20 {
		t.Errorf("%d bytes for 600,000 entries; %d for 100,000", long, short)
	}
}

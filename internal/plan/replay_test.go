package plan_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
)

// TestReplayRefusesWhatTheGuardRefuses holds a replay and a guard
// together, call by call: a drawn trace goes to a guard of the candidate
// budgets as it happens, and into a log of other prices without limits,
// which is then replayed.
func TestReplayRefusesWhatTheGuardRefuses(t *testing.T) {
	rapid.Check(t, func(d *rapid.T) {
		clock := &ledgertest.Clock{}
		clock.Set(time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC))
		candidate := drawnBudgets(t, d)
		trace := &trace{clock: clock}
		log, live := open(clock.Now), open(clock.Now)
		defer log.Close()
		defer live.Close()
		history := map[string]time.Duration{"p": quota.MaxHistory, "q": quota.MaxHistory}
		var err error
		unlimited := slices.Clone(candidate)
		for i := range unlimited {
			unlimited[i].Limit, unlimited[i].Floor, unlimited[i].FloorUntil = quota.MaxLimit, nil, 0
		}
		if trace.log, err = quota.NewGuard(log, unlimited, &quota.Options{History: history}); err != nil {
			t.Fatal(err)
		}
		if trace.live, err = quota.NewGuard(live, candidate, nil); err != nil {
			t.Fatal(err)
		}
		trace.since = clock.Now().Add(time.Duration(rapid.IntRange(0, 300).Draw(d, "since")) * time.Minute)
		for range rapid.IntRange(1, 80).Draw(d, "entries") {
			trace.step(d)
		}
		var got []string
		in := &plan.ReplayInput{Budgets: candidate, Since: trace.since, Price: reprice,
			Refused: func(l *usage.Line, budget string) { got = append(got, refusal(l.At, l.Account, budget)) }}
		replayed, err := plan.Replay(t.Context(), in,
			(&usage.LogReader{Guard: testledger.Guard(t, log), Accounts: []string{"p", "q"}}).Lines(t.Context(), false))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, trace.want) || len(got) != replayed.Refused || replayed.Calls != trace.calls {
			d.Fatalf("replayed %d of %d calls, the guard had %d; refused\n%q\nthe guard refused\n%q", replayed.Refused,
				replayed.Calls, trace.calls, got, trace.want)
		}
	})
}

// drawnBudgets have windows of all kinds, lanes and floors.
func drawnBudgets(t *testing.T, d *rapid.T) []quota.Budget {
	limit := func(name string, least, most int) quota.Units {
		return quota.Units(rapid.IntRange(least, most).Draw(d, name))
	}
	pacific := zone(t, "America/Los_Angeles")
	return []quota.Budget{
		{Account: "p", Name: "sliding", Limit: limit("sliding", 40, 900), Window: quota.Sliding(6 * time.Hour),
			Floor: map[string]quota.Units{"BR": 20}},
		{Account: "p", Name: "day", Limit: limit("day", 150, 2000), Window: quota.Daily(pacific),
			Floor: map[string]quota.Units{"IN": 60, "BR": 40}, FloorUntil: 4 * time.Hour},
		{Account: "p", Name: "month", Limit: limit("month", 400, 3000), Window: quota.Monthly(pacific)},
		{Account: "p", Name: "calls", Limit: limit("calls", 1, 12), Measure: quota.Calls, Methods: []string{"m"},
			Window: quota.Sliding(time.Hour)},
		{Account: "p", Name: "backfill", Limit: limit("backfill", 20, 500), Lanes: []string{"backfill"},
			Window: quota.Sliding(24 * time.Hour)},
		{Account: "q", Name: "cron", Limit: limit("cron", 10, 60), Lanes: []string{"cron"},
			Window: quota.Sliding(time.Hour)},
		{Account: "q", Name: "shadow", Limit: 1, Window: quota.Sliding(time.Hour), Shadow: true},
	}
}

// prices of the log's calls, and those of the candidate. A call of another
// method is spent with units of its own.
var before, after = map[string]quota.Units{"m": 40, "n": 6}, map[string]quota.Units{"m": 70, "n": 3}

// reprice is a plan.ReplayInput.Price.
func reprice(_, method string, units quota.Units) (asked, cost quota.Units) {
	if before[method] == 0 {
		return units, units
	}
	return after[method], (units*after[method] + before[method] - 1) / before[method]
}

// trace spends the same calls on a log without limits and on a guard.
type trace struct {
	clock     *ledgertest.Clock
	log, live *quota.Guard
	since     time.Time
	want      []string // what the guard refused
	calls     int
}

// refusal describes the refusal of one call.
func refusal(at time.Time, account, budget string) string {
	return fmt.Sprint(at.UTC().Format("02T15:04:05.000000 "), account, " ", budget)
}
func (tr *trace) step(d *rapid.T) {
	tr.clock.Add(time.Duration(rapid.Int64Range(1, int64(90*time.Minute)).Draw(d, "wait")).Truncate(time.Microsecond) +
		time.Microsecond)
	call := quota.Call{Account: rapid.SampledFrom([]string{"p", "p", "q"}).Draw(d, "account"),
		Method: rapid.SampledFrom([]string{"m", "n", "x"}).Draw(d, "method"),
		Caller: quota.Caller{Lane: rapid.SampledFrom([]string{"cron", "backfill"}).Draw(d, "lane"),
			Region: rapid.SampledFrom([]string{"IN", "BR", ""}).Draw(d, "region")}}
	if call.Units = before[call.Method]; call.Units == 0 {
		call.Units = quota.Units(rapid.IntRange(1, 120).Draw(d, "units"))
	}
	switch kind := rapid.SampledFrom([]string{"call", "call", "settled", "settled", "refunded", "note", "correction",
		"cooldown"}).Draw(d, "kind"); kind {
	case "note":
		tr.note(d, call, quota.EntryNote)
	case "correction":
		tr.note(d, call, quota.EntryCorrection)
	case "cooldown":
		budget := rapid.SampledFrom([]string{"", "sliding", "cron"}).Draw(d, "budget")
		for _, g := range []*quota.Guard{tr.log, tr.live} {
			if err := g.Cool(d.Context(),
				quota.Cooldown{Account: call.Account, Budget: budget, For: 3 * time.Hour}); err != nil {
				d.Fatal(err)
			}
		}
	default:
		tr.call(d, call, kind)
	}
}

// note enters a note or a correction, also in the guard's log.
func (tr *trace) note(d *rapid.T, call quota.Call, kind quota.EntryKind) {
	for _, g := range []*quota.Guard{tr.log, tr.live} {
		if err := g.Note(d.Context(), quota.Note{Call: call, Calls: 3, Kind: kind}); err != nil {
			d.Fatal(err)
		}
	}
}

// call makes a call on the log and, if no cooldown refuses it there, on
// the guard.
func (tr *trace) call(d *rapid.T, call quota.Call, kind string) {
	grant, err := tr.log.Spend(d.Context(), call)
	if errors.Is(err, quota.ErrRefused) {
		if _, err := tr.live.Spend(d.Context(), call); !errors.Is(err, quota.ErrRefused) &&
			!errors.Is(err, quota.ErrNeverFits) {
			d.Fatalf("%v in a cooldown", err)
		}
		return
	}
	asked, cost := reprice(call.Account, call.Method, call.Units)
	if err == nil && kind == "settled" {
		units := quota.Units(rapid.IntRange(0, 2*int(call.Units)).Draw(d, "cost"))
		if before[call.Method] == 0 {
			units = call.Units // its price is not known, so a settle cannot be told
		}
		_, cost = reprice(call.Account, call.Method, units)
		err = grant.Settle(d.Context(), units)
	} else if err == nil && kind == "refunded" {
		if before[call.Method] == 0 {
			asked = 1 // as little is known
		}
		err = grant.Refund(d.Context())
	}
	if err != nil {
		d.Fatal(err)
	}
	if tr.clock.Now().Before(tr.since) {
		if kind != "refunded" {
			noted := grant.Call()
			if err := tr.live.Note(d.Context(),
				quota.Note{Call: quota.Call{Account: noted.Account, Method: noted.Method, Units: noted.Units,
					Caller: noted.Caller}, Calls: 1}); err != nil {
				d.Fatal(err)
			}
		}
		return
	}
	tr.calls++
	call.Units = asked
	grant, err = tr.live.Spend(d.Context(), call)
	refused, isRefused := errors.AsType[*quota.RefusedError](err)
	never, neverFits := errors.AsType[*quota.NeverFitsError](err)
	switch {
	case isRefused && refused.Reason == quota.ReasonCooldown:
		d.Fatalf("%v, and not by the log's guard", err)
	case isRefused:
		tr.want = append(tr.want, refusal(tr.clock.Now(), call.Account, refused.Budget))
	case neverFits:
		tr.want = append(tr.want, refusal(tr.clock.Now(), call.Account, never.Budget))
	case err == nil && kind == "refunded":
		err = grant.Refund(d.Context())
	case err == nil:
		err = grant.Settle(d.Context(), cost)
	}
	if err != nil && !isRefused && !neverFits {
		d.Fatal(err)
	}
}

// TestReplayStreams: a replay of a long log held all of it.
func TestReplayStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("replays long logs, a second")
	}
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	heap := func(n int) (most uint64) {
		lines := func(yield func(usage.Line, error) bool) {
			for i := range n {
				if i%5_000 == 0 {
					var m runtime.MemStats
					runtime.GC()
					runtime.ReadMemStats(&m)
					most = max(most, m.HeapAlloc)
				}
				e := quota.Entry{At: start.Add(time.Duration(i) * time.Second), Kind: quota.EntryCall, Method: "m",
					Units: 2, Calls: 1}
				if !yield(usage.Line{Entry: e, Account: "p"}, nil) {
					return
				}
			}
		}
		in := &plan.ReplayInput{Budgets: []quota.Budget{{Account: "p", Name: "b", Limit: 1000,
			Window: quota.Sliding(time.Hour)}}, Since: start}
		r, err := plan.Replay(t.Context(), in, lines)
		if err != nil || r.Calls != n || r.Refused == 0 {
			t.Fatal(r, err)
		}
		return most
	}
	short, long := heap(20_000), heap(200_000)
	if long > short+4<<20 {
		t.Errorf("%d bytes for 200,000 entries; %d for 20,000", long, short)
	}
}

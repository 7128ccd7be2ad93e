package quota_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// saying returns a client whose upstream reports the number in the path as what
// is left of a budget.
func saying(up *upstream, guard *quota.Guard, budget string) func(t *testing.T, left quota.Units) {
	client := &http.Client{Transport: &quota.Transport{Guard: guard, Base: &http.Transport{},
		Price: func(*http.Request) (quota.Call, error) {
			return quota.Call{Account: account, Method: "m", Units: 10}, nil
		}, Report: func(_ quota.Call, err error) { panic(err) }, Feedback: func(_ quota.Call,
			r *http.Response) quota.Verdict {
			var left quota.Units
			fmt.Sscan(r.Request.URL.Path[1:], &left)
			return quota.Verdict{LeftOf: budget, Left: left}
		}}}
	return func(t *testing.T, left quota.Units) {
		resp, err := client.Get(fmt.Sprint(up.URL, "/", left))
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
		client.CloseIdleConnections()
	}
}

// TestExternalUsageNeverRaisesABudget plays an upstream that another program
// spends on too.
func TestExternalUsageNeverRaisesABudget(t *testing.T) {
	up := newUpstream(t, nil)
	calls := budget("other", 1000, time.Hour)
	calls.Measure = quota.Calls
	guard := newGuard(t, nil, budget("day", 1000, time.Hour), calls)
	get := saying(up, guard, "day")
	for i, step := range []struct{ left, used quota.Units }{
		{990, 10},  // equal to the ledger's
		{5000, 20}, // more than is left by the ledger is ignored
		{900, 100}, // others spent 70
		{895, 110}, // changed by less than a hundredth of the limit: the ledger is not asked
		{880, 120}, // equal to the ledger's
		{900, 130}, // not compared either
		{600, 400}, // others spent 260
	} {
		if get(t, step.left); used(t, guard) != step.used {
			t.Fatalf("step %d: %d left, used is %d; want %d", i, step.left, used(t, guard), step.used)
		}
	}
	balances, err := guard.Balances(t.Context())
	if err != nil || balances[1].Used != 7 {
		t.Errorf("%d calls, %v; want those made, and no note", balances[1].Used, err)
	}
}

// TestExternalCallsAreOneEntryOfNoUnits has a budget that counts calls:
// external calls are recorded in one entry of 0 units.
func TestExternalCallsAreOneEntryOfNoUnits(t *testing.T) {
	up := newUpstream(t, nil)
	calls, units := budget("day", 1000, time.Hour), budget("units", 100_000, time.Hour)
	calls.Measure = quota.Calls
	guard := newGuard(t, nil, calls, units)
	get := saying(up, guard, "day")
	for i, step := range []struct{ left, used quota.Units }{{999, 1}, {980, 20}, {700, 300}, {700, 301}} {
		if get(t, step.left); used(t, guard) != step.used {
			t.Fatalf("step %d: %d left, used is %d; want %d", i, step.left, used(t, guard), step.used)
		}
	}
	balances, err := guard.Balances(t.Context())
	if err != nil || balances[1].Used != 40 {
		t.Errorf("%d units, %v; want those of the calls made", balances[1].Used, err)
	}
}

// sharedLedgers open a ledger; the function that each returns opens it again,
// as another process would.
var sharedLedgers = map[string]func(t *testing.T) func() quota.Ledger{
	"memory": func(*testing.T) func() quota.Ledger {
		l := memledger.Open(nil)
		return func() quota.Ledger { return l }
	},
	"SQLite": func(t *testing.T) func() quota.Ledger {
		path := filepath.Join(t.TempDir(), "ration.db")
		return func() quota.Ledger {
			l, err := sqliteledger.Open(path, &sqliteledger.Options{Sync: sqliteledger.Normal})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			return l
		}
	},
	"Redis": func(t *testing.T) func() quota.Ledger {
		url := servers.StartRedis(t).URL()
		return func() quota.Ledger {
			l, err := redisledger.Open(url, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			return l
		}
	},
}

// TestExternalUsageIsRecordedOnce lets many guards, like those of many
// processes, see the same difference at the same time.
func TestExternalUsageIsRecordedOnce(t *testing.T) {
	for name, open := range sharedLedgers {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, nil)
			another := open(t)
			day, calls := budget("day", 100_000, time.Hour), budget("calls", 5000, time.Hour)
			calls.Measure = quota.Calls
			var guards []*quota.Guard
			for range 8 {
				guard, err := quota.NewGuard(another(), []quota.Budget{day, calls}, nil)
				if err != nil {
					t.Fatal(err)
				}
				guards = append(guards, guard)
			}
			for _, c := range []struct {
				budget             string
				place              int
				limit, first, step quota.Units // others spend much more than is in flight here
				flight             quota.Units
			}{{"day", 0, 100_000, 90_000, 4000, 160}, {"calls", 1, 5000, 4700, 60, 16}} {
				for round := range 10 {
					left := c.first - c.step*quota.Units(round)
					var wg sync.WaitGroup
					for _, guard := range guards {
						get := saying(up, guard, c.budget)
						wg.Go(func() {
							for range 2 {
								get(t, left)
							}
						})
					}
					wg.Wait()
					balances, err := guards[0].Balances(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					// When the last guard compared, the calls of the others
					// were in flight. At most these count twice as spent;
					// none counts as left.
					if got := c.limit - balances[c.place].Used; got > left || got < left-c.flight {
						t.Errorf("%s, round %d: %d left; want %d, less %d at most", c.budget, round, got, left,
							c.flight)
					}
				}
			}
		})
	}
}

// TestExternalUsageIsNotNotedAtADayBoundary: around the boundary of a day the
// upstream may still report the day that ends, and a note then would count in
// the next day too.
func TestExternalUsageIsNotNotedAtADayBoundary(t *testing.T) {
	up, clock := newUpstream(t, nil), &ledgertest.Clock{}
	hour, day := budget("hour", 1000, time.Hour), budget("day", 2000, time.Hour)
	day.Window = quota.Daily(time.UTC)
	guard := newGuard(t, &memledger.Options{Now: clock.Now}, hour, day)
	for _, c := range []struct {
		at   string
		left quota.Units
		used quota.Units // of the day, for the call costs 10
	}{
		{"2026-11-20T23:59:29Z", 900, 100}, // others spent 90
		{"2026-11-20T23:59:31Z", 500, 110},
		{"2026-11-21T00:00:29Z", 400, 120},
		{"2026-11-21T00:00:31Z", 400, 500}, // 20 between the days, 10 of this call, and 470 by others
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		clock.Set(at)
		saying(up, guard, "hour")(t, c.left) // another process
		balances, err := guard.Balances(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := balances[1].Used; got != c.used {
			t.Errorf("at %s: the day has %d used; want %d", c.at, got, c.used)
		}
	}
}

// looking returns a guard on a ledger that, once it has a call, is read only
// when the channel is closed.
func looking(t *testing.T) (guard *quota.Guard, let chan struct{}) {
	let = make(chan struct{})
	hasCall := false
	ledger := testledger.Before(memledger.Open(nil), func(op string) error {
		if hasCall = hasCall || op == "append"; hasCall && op == "read" {
			<-let
		}
		return nil
	})
	guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 10_000, 24*time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return guard, let
}

// TestExternalUsageDelaysNoAnswer: an answer is returned before the ledger is
// compared with it, though its request is canceled then, and the last one
// counts.
func TestExternalUsageDelaysNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, let := looking(t)
		left := quota.Units(9000)
		client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1),
			Base: tripper(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Body: http.NoBody, Request: r}, nil
			}), Feedback: func(quota.Call, *http.Response) quota.Verdict {
				left -= 1000
				return quota.Verdict{LeftOf: "day", Left: left}
			}}}
		ctx, cancel := context.WithCancel(t.Context())
		get := func() {
			t.Helper()
			req, _ := http.NewRequestWithContext(ctx, "GET", "http://upstream/m", nil)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		get()
		short, stop := context.WithTimeoutCause(t.Context(), time.Second, io.ErrNoProgress)
		defer stop()
		if err := guard.Drain(short); err != io.ErrNoProgress {
			t.Errorf("drained: %v; want why its context ended", err)
		}
		close(let)
		for range 4 {
			get()
		}
		cancel()
		client.CloseIdleConnections()
		if err := guard.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if got := used(t, guard); got != 6000 {
			t.Errorf("%d used; want what the last answer says", got)
		}
	})
}

// TestAHangingLedgerHoldsTheDrainForSeconds: a ledger that hangs holds
// CloseIdleConnections up for a few seconds, and the note for its own time.
func TestAHangingLedgerHoldsTheDrainForSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard, let := looking(t)
		defer close(let)
		client, reports := answering(guard, 1, quota.Verdict{LeftOf: "day", Left: 1})
		resp, err := client.Get("http://upstream/m")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		began := time.Now()
		client.CloseIdleConnections()
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("closing took %s; want 5 s", took)
		}
		guard.Drain(t.Context())
		if took := time.Since(began); took != 10*time.Second || len(*reports) != 1 ||
			!errors.Is((*reports)[0], context.DeadlineExceeded) {
			t.Errorf("the note took %s, reported %v; want 10 s, and why", took, *reports)
		}
	})
}

// TestExternalUsageIsOneNote: thousands of external calls are one entry, and
// take a few round trips to the ledger.
func TestExternalUsageIsOneNote(t *testing.T) {
	calls := budget("calls", 5000, time.Hour)
	calls.Measure = quota.Calls
	ledger := memledger.Open(nil)
	guard, err := quota.NewGuard(ledger, []quota.Budget{calls}, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, _ := answering(guard, 1, quota.Verdict{LeftOf: "calls", Left: 100})
	resp, err := client.Get("http://upstream/m")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	client.CloseIdleConnections()
	var log []quota.Entry
	for e := range guard.Entries(t.Context(), quota.Query{Account: account}) {
		log = append(log, e)
	}
	if len(log) != 2 || log[1].Kind != quota.EntryNote || log[1].Calls != 4899 || log[1].Units != 0 ||
		log[1].Caller.Lane != "upstream" || log[1].Method != "others: calls" {
		t.Errorf("log %+v; want the call, and one note of 4899 calls", log)
	}
}

// TestAgreementReadsTheLedgerOnce: if the ledger agrees, nothing is written. If
// nothing is left, a note uses up the rest.
func TestAgreementReadsTheLedgerOnce(t *testing.T) {
	for left, want := range map[quota.Units]struct {
		appends int
		used    quota.Units
	}{999: {1, 1}, 0: {4, 1000}} { // the call; and the note, between both ends of a claim
		appends := 0
		ledger := testledger.Before(memledger.Open(nil), func(op string) error {
			if op == "append" {
				appends++
			}
			return nil
		})
		guard, err := quota.NewGuard(ledger, []quota.Budget{budget("hour", 1000, time.Hour)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		client, reports := answering(guard, 1, quota.Verdict{LeftOf: "hour", Left: left})
		resp, err := client.Get("http://upstream/m")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		client.CloseIdleConnections()
		if used(t, guard) != want.used || appends != want.appends || len(*reports) > 0 {
			t.Errorf("%d left: %d used after %d appends; want %d after %d (%v)", left, used(t, guard), appends,
				want.used, want.appends, *reports)
		}
	}
}

package quota_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// telling returns a client whose upstream says that 900 of budget day are left.
func telling(guard *quota.Guard) *http.Client {
	return &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(10),
		Base: statusTripper(func(*http.Request) int { return http.StatusOK }),
		Feedback: func(quota.Call, *http.Response) quota.Verdict {
			return quota.Verdict{LeftOf: "day", Left: 900}
		}}}
}

// TestExternalUsageIsNobodys: the caller whose answer told of it has not spent
// it, and its region's floor must not pay for it.
func TestExternalUsageIsNobodys(t *testing.T) {
	guard := newGuard(t, nil, budget("day", 1000, time.Hour))
	caller := quota.Caller{Lane: "cron", Job: "fetch", Region: "de"}
	req, err := http.NewRequestWithContext(quota.WithCaller(t.Context(), caller), http.MethodGet, "http://upstream/m",
		http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := telling(guard)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if err := guard.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	var notes []quota.Caller
	for e, err := range guard.Entries(t.Context(), quota.Query{Account: account}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == quota.EntryNote {
			notes = append(notes, e.Caller)
		}
	}
	if want := []quota.Caller{{Lane: "upstream"}}; !slices.Equal(notes, want) {
		t.Errorf("notes of %+v; want %+v", notes, want)
	}
}

// TestExternalUsageGivesUp: a note that takes longer than the lock of
// corrections holds does not count, since another process may have noted it.
func TestExternalUsageGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		appends, end := 0, make(chan struct{})
		ledger := testledger.Before(memledger.Open(nil), func(op string) error {
			if op == "append" {
				appends++
			}
			if op == "append" && appends == 3 {
				<-end
			}
			return nil
		})
		guard := openGuard(t, func() (quota.Ledger, error) { return ledger, nil }, budget("day", 1000, time.Hour))
		if _, err := getStatus(telling(guard)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		close(end)
		synctest.Wait()
		if n := used(t, guard); appends < 3 || n != 10 {
			t.Errorf("%d units after %d appends; want 10, the call's, after a late note", n, appends)
		}
	})
}

// claimTrial claims the trial of the account's cooldown, like another process.
func claimTrial(t *testing.T, g *quota.Guard) {
	if _, err := g.Account(account).Claim(t.Context(), engine.ClaimRequest{Name: "ration: trial ",
		Hold: 20 * time.Second, Anew: true}); err != nil {
		t.Fatal(err)
	}
}

// TestAWaitEndsAtItsDeadline: also if that is when a cooldown ends, and another
// process asks whether the upstream accepts calls again.
func TestAWaitEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := openMemory(t)
		other := openGuard(t, open)
		client := newProcess(t, open, 300*time.Millisecond, statusTripper(func(*http.Request) int { return 200 }))
		claimTrial(t, other)
		began := time.Now()
		if err := other.Cool(t.Context(),
			quota.Cooldown{Account: account, Until: began.Add(3 * time.Second)}); err != nil {
			t.Fatal(err)
		}
		_, err := getStatus(client)
		if waited := time.Since(began); waited > 3100*time.Millisecond || !errors.Is(err, quota.ErrRefused) {
			t.Errorf("waited %s, %v; want a refusal after 3s", waited, err)
		}
	})
}

// TestCallsThatNeverFitSaySo: also while another process asks whether a
// cooldown is over.
func TestCallsThatNeverFitSaySo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := openMemory(t)
		transport := &quota.Transport{Guard: openGuard(t, open), Price: priced(1), Feedback: stopFor(3 * time.Second),
			Base: statusTripper(func(*http.Request) int { return http.StatusTooManyRequests })}
		if _, err := getStatus(&http.Client{Transport: transport}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		claimTrial(t, openGuard(t, open))
		_, err := transport.SpendTogether(t.Context(), quota.Call{Account: account, Method: "m", Units: 600}, 2, 0)
		if _, ok := errors.AsType[*quota.NeverFitsError](err); !ok {
			t.Errorf("%v; want that it never fits", err)
		}
	})
}

// TestADecisionHasTheCallersID: also if the call is charged under another one,
// since it was refunded.
func TestADecisionHasTheCallersID(t *testing.T) {
	guard := newGuard(t, nil, budget("day", 1000, time.Hour))
	grant, err := guard.Spend(t.Context(), named("a name", 10))
	if err == nil {
		err = grant.Refund(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	var ids []quota.ID
	guard.Observe(func(d quota.Decision) { ids = append(ids, d.Call.ID) })
	if _, err := guard.Spend(t.Context(), named("a name", 10)); err != nil {
		t.Fatal(err)
	}
	if want := []quota.ID{named("a name", 10).ID}; !slices.Equal(ids, want) {
		t.Errorf("decided on %v; want %v", ids, want)
	}
}

// TestLimitsAreNamedAsInEarlierReleases, whose processes may share the ledger.
func TestLimitsAreNamedAsInEarlierReleases(t *testing.T) {
	ledger := memledger.Open(nil)
	day := budget("day", 1000, time.Hour)
	day.Methods, day.Lanes, day.Config = []string{"z", "a"}, []string{"cron"}, quota.Config{Name: "here"}
	guard := openGuard(t, func() (quota.Ledger, error) { return ledger, nil }, day)
	if _, err := guard.Spend(quota.WithCaller(t.Context(), quota.Caller{Lane: "cron"}), call("a", 1)); err != nil {
		t.Fatal(err)
	}
	tail, err := ledger.Read(t.Context(), account, &engine.Read{})
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for i := range tail.Batches {
		records, err := engine.Unpack(&tail.Batches[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if r.Kind == engine.KindLimit && r.Owner == "here" {
				name = r.Name
			}
		}
	}
	if want := `"day" 1h m"a""z"l"cron"`; name != want {
		t.Errorf("%s; want %s", name, want)
	}
}

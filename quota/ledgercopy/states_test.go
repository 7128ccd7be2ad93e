package ledgercopy_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgercopy"
	"github.com/ration-dev/ration/quota/memledger"
)

func memoryHouse(t *testing.T, budgets ...quota.Budget) *house {
	c := newClock()
	return newHouse(t, c, ledgertest.Memory(&memledger.Options{Now: c.now}), ledgertest.Memory(&memledger.Options{Now: c.now}), budgets...)
}

// TestLateSettlementsAreLost: calls that were in flight when the account moved
// are settled in the old ledger afterwards, to more or less, or refunded.
func TestLateSettlementsAreLost(t *testing.T) {
	eachPair(t, func(t *testing.T, open opener) {
		from, to, c := open()
		h := newHouse(t, c, from, to)
		h.furnish(300)
		var grants []*quota.Grant
		for range 5 {
			grants = append(grants, h.spend(h.old, "", "list", 40))
		}
		early := h.spend(h.old, "10.0.0.1", "list", 9)
		moving := h.move()
		ctx := t.Context()
		settle := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		settle(grants[0].Refund(ctx))
		settle(grants[1].Settle(ctx, 3))
		settle(grants[2].Settle(ctx, 90))
		settle(early.Settle(ctx, 1))
		settle(moving.Follow(ctx))
		settle(h.old.Note(ctx, quota.Note{Call: quota.Call{Account: account, Method: "others: day", Units: 7}}))
		settle(grants[0].Settle(ctx, 5)) // it was sent after all
		settle(moving.Follow(ctx))
		settle(moving.Follow(ctx))
		if d := diff.Diff(h.contents(h.From), h.contents(h.To)); d != "" {
			t.Fatalf("(-old +new)\n%s", d)
		}
		if late := moving.Report().Late; late != 6 {
			t.Errorf("%d late entries; want 6", late)
		}

		// Later, the same command: what changed in the new ledger stays.
		settle(grants[3].Refund(ctx))
		token := grants[4].Token()
		redeemed, err := h.new.Redeem(token)
		settle(err)
		settle(redeemed.Settle(ctx, 77))
		h.move()
		want, got := h.contents(h.From).Standings[""][0].Used+77-40, h.contents(h.To).Standings[""][0].Used
		if got != want {
			t.Errorf("%d units; want %d", got, want)
		}
	})
}

// TestEstimatesStartAtZero: counters keep no entries, and what they hold
// is noted.
func TestEstimatesStartAtZero(t *testing.T) {
	eachPair(t, func(t *testing.T, open opener) {
		from, to, c := open()
		h := newHouse(t, c, from, to,
			quota.Budget{Account: account, Name: "minute", Limit: 100, Window: quota.Counter(time.Minute)},
			quota.Budget{Account: account, Name: "searches", Limit: 50, Measure: quota.Calls, Methods: []string{"search"}, Window: quota.Counter(time.Hour)})
		for _, key := range []string{"", "10.0.0.1"} {
			for range 10 {
				h.spend(h.old, key, "search", 4)
				h.spend(h.old, key, "list", 1)
			}
		}
		plan, err := h.Plan(t.Context(), account)
		if err != nil || plan.Entries != 0 || plan.Keys != 1 {
			t.Fatalf("%+v, %v", plan, err)
		}
		before := h.contents(h.From)
		for range 2 {
			if r := h.move().Report(); r.State == ledgercopy.Ready && len(r.Estimates) != 2 {
				t.Fatalf("%+v", r)
			}
			after := h.contents(h.To)
			for key, standings := range before.Standings {
				for i, s := range standings {
					if got := after.Standings[key][i].Used; got != s.Used {
						t.Errorf("key %q, %s: %d; want %d", key, h.Budgets[i].Name, got, s.Used)
					}
				}
			}
		}
		if _, err := h.new.Spend(t.Context(), quota.Call{Account: account, Key: "10.0.0.1", Method: "list", Units: 51}); !errors.Is(err, quota.ErrRefused) {
			t.Errorf("%v; want a refusal", err)
		}
	})
}

// TestStricterLimitStaysBehind: a lower limit that another configuration has
// asked of the old ledger holds in the new one.
func TestStricterLimitStaysBehind(t *testing.T) {
	eachPair(t, func(t *testing.T, open opener) {
		from, to, c := open()
		day := func(limit quota.Units, file string) quota.Budget {
			return quota.Budget{Account: account, Name: "day", Limit: limit, Window: quota.Sliding(24 * time.Hour), Config: quota.Config{Name: file, Changed: c.at.Add(-time.Hour)}}
		}
		strict := newHouse(t, c, from, to, day(50, "a:/costs.yaml"))
		strict.spend(strict.old, "", "list", 10)
		h := newHouse(t, c, from, to, day(200, "b:/costs.yaml"))
		h.move()
		other := newHouse(t, c, from, to, day(300, "c:/costs.yaml"))
		_, err := other.new.Spend(t.Context(), quota.Call{Account: account, Method: "list", Units: 45})
		if refused, ok := errors.AsType[*quota.RefusedError](err); !ok || refused.Limit != 50 {
			t.Errorf("%v; want the limit of 50", err)
		}
	})
}

// TestStopOfTheAccountStaysBehind: a cooldown of the whole account that is set
// while the account moves is in force in the new ledger.
func TestStopOfTheAccountStaysBehind(t *testing.T) {
	h := memoryHouse(t)
	h.spend(h.old, "", "list", 1)
	held := quota.Cooldown{Account: account, Until: h.at.Add(2 * time.Hour), Reason: stop}
	h.set(h.To, held)
	left := 17 // the account has left by then
	killed := *h.Copy
	killed.From, killed.To = faulty{h.From, &left}, faulty{h.To, &left}
	if _, err := killed.Move(t.Context(), account); !errors.As(err, new(*ledgercopy.UnfinishedError)) {
		t.Fatal(err)
	}
	if held.Until = h.at.Add(3 * time.Hour); h.old.Cool(t.Context(), held) != nil {
		t.Fatal("not set")
	}
	h.move()
	if got := h.contents(h.To).Cooldowns; len(got) != 1 || got[0] != held {
		t.Fatalf("%+v", got)
	}
}

// TestLiftedCooldownComesBack: a copy that is repeated leaves the cooldowns of
// the new ledger alone, which may have been lifted there since.
func TestLiftedCooldownComesBack(t *testing.T) {
	h := memoryHouse(t)
	h.spend(h.old, "", "list", 1)
	for _, budget := range []string{"", "day"} {
		h.set(h.From, quota.Cooldown{Account: account, Budget: budget, Until: h.at.Add(10 * time.Hour), Reason: stop})
	}
	h.move()
	if got := h.contents(h.To).Cooldowns; len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	for _, budget := range []string{"", "day"} {
		if err := h.new.Uncool(t.Context(), account, budget); err != nil {
			t.Fatal(err)
		}
	}
	h.move()
	h.spend(h.new, "", "list", 1)
}

// TestTwoCopiesAtOnce run by two operators move the account once.
func TestTwoCopiesAtOnce(t *testing.T) {
	h := memoryHouse(t)
	h.furnish(30)
	want := h.contents(h.From)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			one := *h.Copy
			if _, err := one.Move(t.Context(), account); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if d := diff.Diff(want, h.contents(h.To)); d != "" || h.isOpen(h.old) || !h.isOpen(h.new) {
		t.Fatalf("(-old +new)\n%s", d)
	}
}

// overtaken is a ledger that another copy closes just before this one.
type overtaken struct {
	quota.Log
	by quota.Move
}

func (o overtaken) SetCooldown(ctx context.Context, c quota.Cooldown) error {
	return errors.Join(o.Log.SetCooldown(ctx, o.by.Cooldown()), o.Log.SetCooldown(ctx, c))
}

// TestOvertakenCopyLeavesItsLedgerClosed: of two copies to different ledgers
// one moves the account, and the ledger of the other is as it was.
func TestOvertakenCopyLeavesItsLedgerClosed(t *testing.T) {
	h := memoryHouse(t)
	h.furnish(3)
	h.From = overtaken{h.From, quota.Move{Account: account, Ledger: "sqlite:/third.db", ID: "ffffffffffff"}}
	_, err := h.Move(t.Context(), account)
	if err == nil || !strings.Contains(err.Error(), "another copy") || errors.As(err, new(*ledgercopy.UnfinishedError)) {
		t.Errorf("%v", err)
	}
	if h.isOpen(h.old) || !h.isOpen(h.new) {
		t.Error("the old ledger is open, or the new one is closed")
	}
}

// TestClaimsAreMadeTwice: what one process has done for all is not done again.
func TestClaimsAreMadeTwice(t *testing.T) {
	h := memoryHouse(t)
	for _, name := range []string{"alert a", "alert b"} {
		claim, err := h.old.Claim(t.Context(), quota.ClaimRequest{Account: account, Name: name, Hold: time.Minute, Again: 24 * time.Hour})
		if err != nil || claim == nil || claim.Done(t.Context()) != nil {
			t.Fatal(claim, err)
		}
	}
	h.At(3 * time.Hour)
	var reserved []string
	for name, err := range h.From.Accounts(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if quota.IsReserved(name) {
			reserved = append(reserved, name)
		}
	}
	for range 2 {
		if _, err := h.CopyReserved(t.Context(), reserved[0]); err != nil || len(reserved) != 1 {
			t.Fatal(reserved, err)
		}
	}
	for name, done := range map[string]bool{"alert a": true, "alert b": true, "alert c": false} {
		for _, g := range []*quota.Guard{h.old, h.new} {
			_, err := g.Claim(t.Context(), quota.ClaimRequest{Account: account, Name: name, Hold: time.Minute, Again: 24 * time.Hour})
			if isDone := errors.Is(err, quota.ErrClaimed); isDone != done || err != nil && !isDone {
				t.Errorf("%s: %v; want that it is done: %v", name, err, done)
			}
		}
	}
}

// TestPassThatRunsMeanwhileStaysClaimed: how far passes have come, that they
// are done, or that their host has stopped, is known in the new ledger as long
// as the copy goes on.
func TestPassThatRunsMeanwhileStaysClaimed(t *testing.T) {
	h := memoryHouse(t)
	request := func(name, owner string) quota.ClaimRequest {
		return quota.ClaimRequest{Account: account, Name: name, Hold: 2 * time.Minute, Again: 24 * time.Hour, Owner: owner}
	}
	claim := func(name string) *quota.Claim {
		c, err := h.old.Claim(t.Context(), request(name, "old host"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	done, stopped := claim("done"), claim("stopped")
	h.At(time.Minute)
	const reserved = "ration: claims of 34h8m"
	moving, err := h.CopyReserved(t.Context(), reserved)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"done", "stopped"} {
		if _, err := h.new.Claim(t.Context(), request(name, "new host")); !errors.Is(err, quota.ErrClaimed) {
			t.Errorf("%s: both hosts have it: %v", name, err)
		}
	}
	late := claim("late")
	if err := errors.Join(stopped.Renew(t.Context()), stopped.Note(t.Context(), []byte("page 3")), stopped.Release(t.Context()),
		done.Done(t.Context()), late.Done(t.Context()), moving.Follow(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"done", "late"} {
		_, err := h.new.Claim(t.Context(), request(name, "new host"))
		if claimed, ok := errors.AsType[*quota.ClaimedError](err); !ok || !claimed.Done {
			t.Errorf("%s: %v; want that it is done", name, err)
		}
	}
	c, err := h.new.Claim(t.Context(), request("stopped", "new host"))
	if err != nil || len(c.Before.Notes) != 1 || string(c.Before.Notes[0]) != "page 3" {
		t.Errorf("the stopped pass goes on from %+v: %v", c, err)
	}
}

// TestWrongCopyClosesALedger: a copy that cannot be made says why, and
// changes nothing.
func TestWrongCopyClosesALedger(t *testing.T) {
	for want, wrong := range map[string]func(*house){
		"from sqlite:/old.db to itself": func(h *house) { h.ToName = h.FromName },
		"are the same ledger":           func(h *house) { h.To = h.From },
		"redis://new:6379/0 holds 5 units and 1 call of it already; name an empty ledger": func(h *house) { h.spend(h.new, "", "list", 5) },
		"redis://new:6379/0 holds 3 units and 1 call":                                     func(h *house) { h.spend(h.new, "key", "list", 3) },
		"the clock of sqlite:/old.db shows 2026-11-20T12:00:00Z, and that of redis://new:6379/0 2026-11-20T12:02:00Z": func(h *house) {
			at := h.at.Add(2 * time.Minute)
			h.To = ledgertest.Memory(&memledger.Options{Now: func() time.Time { return at }})
		},
		"which is ahead of its clock; correct the clock, then restamp the log (ration ledger restamp)": func(h *house) {
			h.At(time.Hour)
			h.spend(h.old, "", "list", 5)
			h.At(-time.Hour)
		},
	} {
		h := memoryHouse(t)
		if wrong(h); !strings.Contains(want, "same ledger") {
			h.guards()
		}
		if _, err := h.Plan(t.Context(), account); !strings.Contains(want, "same ledger") && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("plan: %v; want %s", err, want)
		}
		_, err := h.Move(t.Context(), account)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, quota.ErrLedgerConfig) || errors.As(err, new(*ledgercopy.UnfinishedError)) {
			t.Errorf("%v; want %s", err, want)
		}
		h.guards()
		if !h.isOpen(h.old) || !h.isOpen(h.new) {
			t.Errorf("%s: a ledger is closed", want)
		}
	}
}

// TestCopyOfAnotherCopy: a copy does not mix with one of another ledger.
func TestCopyOfAnotherCopy(t *testing.T) {
	h := memoryHouse(t)
	h.spend(h.old, "", "list", 5)
	third := ledgertest.Memory(&memledger.Options{Now: h.now})
	unfinished := quota.Move{Account: account, Ledger: "sqlite:/third.db", Arriving: true, ID: "ffffffffffff"}
	left := quota.Move{Account: account, Ledger: "sqlite:/third.db", ID: "ffffffffffff"}
	for _, c := range []struct {
		of   quota.Log
		move quota.Move
		want string
	}{
		{h.To, unfinished, "redis://new:6379/0 has an unfinished copy from sqlite:/third.db; complete that one (ration ledger copy sqlite:/third.db redis://new:6379/0)"},
		{h.From, unfinished, "sqlite:/old.db has an unfinished copy from sqlite:/third.db; complete that one first (ration ledger copy sqlite:/third.db sqlite:/old.db)"},
		{h.From, left, "it has moved from sqlite:/old.db to sqlite:/third.db already; copy it from there"},
		{h.To, left, "it has moved from redis://new:6379/0 to sqlite:/third.db, and cannot return; name a new file or database"},
	} {
		h.set(c.of, c.move.Cooldown())
		for range 2 {
			if _, err := h.Move(t.Context(), account); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %s", err, c.want)
			}
		}
		if err := c.of.ClearCooldown(t.Context(), account, ""); err != nil {
			t.Fatal(err)
		}
	}
	h.move()
	next := &ledgercopy.Copy{From: h.To, To: third, FromName: h.ToName, ToName: "sqlite:/third.db", Budgets: h.Budgets}
	if _, err := next.Move(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	if d := diff.Diff(h.contents(h.From), h.contents(third)); d != "" {
		t.Errorf("(-first +third)\n%s", d)
	}
}

// TestNewLedgerIsLost: if the new ledger loses its data after the move, the
// same copy brings back what the old one has, and nothing is granted meanwhile.
func TestNewLedgerIsLost(t *testing.T) {
	h := memoryHouse(t)
	h.furnish(20)
	want := h.contents(h.From)
	h.move()
	h.To = ledgertest.Memory(&memledger.Options{Now: h.now})
	h.move()
	if d := diff.Diff(want, h.contents(h.To)); d != "" {
		t.Errorf("(-old +new)\n%s", d)
	}
}

func (h *house) set(l quota.Log, c quota.Cooldown) {
	h.Helper()
	if err := l.SetCooldown(h.Context(), c); err != nil {
		h.Fatal(err)
	}
}

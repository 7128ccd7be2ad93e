package engine_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/memledger"
)

func claiming(owner string) engine.ClaimRequest {
	return engine.ClaimRequest{Name: "pass", Owner: owner, Hold: time.Minute.Microseconds()}
}

// claim claims for an owner and reports whether that got it.
func claim(t *testing.T, a *engine.Account, r engine.ClaimRequest) (engine.ID, engine.ClaimState, bool) {
	t.Helper()
	id, before, _, err := a.Claim(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return id, before, id != engine.ID{}
}

// TestAClaimHasOneOwner: of processes that claim at once, one gets it, and the
// next one only when it was released or has lapsed.
func TestAClaimHasOneOwner(t *testing.T) {
	clock := newTestClock()
	ledger := memledger.Open(&memledger.Options{Now: clock.Now})
	open := func() *engine.Account {
		return engine.New(ledger, &engine.Options{TestClock: true}).Account(account)
	}
	var got atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, _, ok := claim(t, open(), claiming("some process")); ok {
				got.Add(1)
			}
		})
	}
	if wg.Wait(); got.Load() != 1 {
		t.Fatalf("%d processes got the claim; want 1", got.Load())
	}
	a := open()
	clock.Add(time.Minute - time.Microsecond)
	if _, before, ok := claim(t, a, claiming("b")); ok || before.Owner != "some process" {
		t.Fatalf("claimed before it has lapsed: %v, %+v", ok, before)
	}
	clock.Add(time.Microsecond)
	id, _, ok := claim(t, a, claiming("b"))
	if !ok {
		t.Fatal("not claimed after it has lapsed")
	}
	if err := a.EndClaim(t.Context(), "pass", id, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := claim(t, open(), claiming("c")); !ok {
		t.Fatal("not claimed after it was released")
	}
	if held, err := a.RenewClaim(t.Context(), "pass", id, time.Minute.Microseconds()); held || err != nil {
		t.Fatalf("renewed what another process holds: %v, %v", held, err)
	}
}

// TestANewOwnerReadsTheNotes: what an owner noted outlives it, and what it has
// done cannot be claimed until its time has come, unless anew.
func TestANewOwnerReadsTheNotes(t *testing.T) {
	clock := newTestClock()
	ledger := memledger.Open(&memledger.Options{Now: clock.Now})
	a := engine.New(ledger, &engine.Options{TestClock: true}).Account(account)
	id, _, _ := claim(t, a, claiming("a"))
	for _, note := range []string{"page 1", "page 2"} {
		if err := a.NoteClaim(t.Context(), "pass", id, note, time.Hour.Microseconds()); err != nil {
			t.Fatal(err)
		}
	}
	next := claiming("b")
	next.Resumes = []string{"a"} // which has ended
	id, before, ok := claim(t, a, next)
	if want := []string{"page 1", "page 2"}; !ok || !slices.Equal(before.Notes, want) || before.Owner != "a" {
		t.Fatalf("%v, %+v; want the claim of the dead, with the notes %q", ok, before, want)
	}
	if err := a.EndClaim(t.Context(), "pass", id, time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, before, ok := claim(t, a, claiming("c")); ok || before.Done == 0 {
		t.Fatalf("claimed what is done: %+v", before)
	}
	anew := claiming("c")
	anew.Anew = true
	if _, _, ok := claim(t, a, anew); !ok {
		t.Fatal("not claimed anew")
	}
	err := a.View(t.Context(), func(v *engine.View) {
		if s := v.Claim("pass"); s.Owner != "c" || len(s.Notes) != 0 || s.Done != 0 {
			t.Errorf("%+v; want nothing of before", s)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

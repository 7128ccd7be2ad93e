package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/testledger"
)

// onEachLedger runs a test on an account of each ledger, with a clock of its
// own.
func onEachLedger(t *testing.T, test func(*testing.T, *engine.Account, *time.Time)) {
	testledger.Each(t, newTestClock().Now(), func(t *testing.T, ledger engine.Ledger, clock *time.Time) {
		test(t, engine.New(ledger, &engine.Options{TestClock: true}).Account(account), clock)
	})
}

func succeed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// claiming is a request of an owner.
func claiming(owner string) engine.ClaimRequest {
	return engine.ClaimRequest{Name: "pass", Hold: time.Minute, Again: 24 * time.Hour, Owner: owner}
}

// claimEight asks for the same claim eight times at once. It fails the test
// unless want of them get it, and returns one of those.
func claimEight(t *testing.T, a *engine.Account, owner string, want int) *engine.Claim {
	t.Helper()
	held := make(chan *engine.Claim, 8)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c, err := a.Claim(t.Context(), claiming(owner))
			if err != nil && !errors.Is(err, engine.ErrClaimed) {
				t.Error(err)
			}
			if c != nil {
				held <- c
			}
		})
	}
	wg.Wait()
	if len(held) != want {
		t.Fatalf("%d hold the claim; want %d", len(held), want)
	}
	if want == 0 {
		return nil
	}
	return <-held
}

// TestAClaimIsHeldOnce: of many processes one gets a claim. It is free again
// after a release, when its holder has died, and a time after it was done.
func TestAClaimIsHeldOnce(t *testing.T) {
	onEachLedger(t, func(t *testing.T, a *engine.Account, clock *time.Time) {
		for _, owner := range []string{"", "host"} {
			claim := func(want int) *engine.Claim { return claimEight(t, a, owner, want) }
			succeed(t, a.Cool(t.Context(), "", "", (100*time.Hour).Microseconds(), 0, 0, ""))
			succeed(t, claim(1).Release(t.Context()))
			claim(1) // its holder dies
			*clock = clock.Add(59 * time.Second)
			claim(0)
			*clock = clock.Add(2 * time.Second)
			succeed(t, claim(1).Done(t.Context()))
			*clock = clock.Add(23 * time.Hour)
			claim(0)
			*clock = clock.Add(time.Hour + time.Minute)
			claim(1)
			*clock = clock.Add(time.Hour)
		}
	})
}

// TestAClaimLastsWhileItIsRenewedInTime: a claim that is renewed in time is
// held, one that is renewed late is lost, whether or not another process has it
// by then.
func TestAClaimLastsWhileItIsRenewedInTime(t *testing.T) {
	onEachLedger(t, func(t *testing.T, a *engine.Account, clock *time.Time) {
		first := claimEight(t, a, "first", 1)
		for range 20 {
			*clock = clock.Add(50 * time.Second)
			succeed(t, first.Renew(t.Context()))
			*clock = clock.Add(5 * time.Second)
			claimEight(t, a, "second", 0)
		}
		*clock = clock.Add(55 * time.Second) // a minute after the last renewal
		second := claimEight(t, a, "second", 1)
		if err := first.Renew(t.Context()); !errors.Is(err, engine.ErrClaimLost) {
			t.Errorf("renewed after another process has claimed it: %v", err)
		}
		succeed(t, second.Renew(t.Context()))
		*clock = clock.Add(time.Minute + time.Millisecond) // stamps are a microsecond apart at least
		if err := second.Renew(t.Context()); !errors.Is(err, engine.ErrClaimLost) {
			t.Errorf("renewed a minute after the last time: %v", err)
		}
		claimEight(t, a, "third", 1) // at once: the late renewals hold nothing
	})
}

// TestAClaimOfTheDeadIsTakenOver: the process that follows one that has ended
// takes its claim over at once, unless another has it.
func TestAClaimOfTheDeadIsTakenOver(t *testing.T) {
	onEachLedger(t, func(t *testing.T, a *engine.Account, clock *time.Time) {
		claimEight(t, a, "dead", 1)
		follower := claiming("follower")
		follower.Resumes = []string{"another"}
		if _, err := a.Claim(t.Context(), follower); !errors.Is(err, engine.ErrClaimed) ||
			!strings.Contains(err.Error(), "claimed by dead") {
			t.Errorf("a claim of %q is taken over: %v", "dead", err)
		}
		follower.Resumes = []string{"another", "dead"}
		*clock = clock.Add(59 * time.Second)
		claim, err := a.Claim(t.Context(), follower)
		succeed(t, err)
		*clock = clock.Add(59 * time.Second)
		claimEight(t, a, "third", 0)
		state, err := a.ClaimState(t.Context(), follower.Name)
		succeed(t, err)
		if state.Owner != "follower" || !state.Until.Equal(clock.Add(time.Second)) &&
			state.Until.Sub(*clock) > time.Second+time.Millisecond {
			t.Errorf("at %v the state is %+v", *clock, state)
		}
		if _, err := a.Claim(t.Context(), follower); !errors.Is(err, engine.ErrClaimed) {
			t.Errorf("claimed twice: %v", err)
		}
		succeed(t, claim.Release(t.Context()))
	})
}

// TestAClaimOfAnotherIsNotTheDeads: a process that claims what the
// dead one held, and has not noted its name yet, is not taken for the dead one.
func TestAClaimOfAnotherIsNotTheDeads(t *testing.T) {
	onEachLedger(t, func(t *testing.T, a *engine.Account, clock *time.Time) {
		claimEight(t, a, "dead", 1)
		*clock = clock.Add(2 * time.Minute)
		unnamed := claiming("")
		claim, err := a.Claim(t.Context(), unnamed)
		succeed(t, err)
		follower := claiming("follower")
		follower.Resumes = []string{"dead"}
		_, err = a.Claim(t.Context(), follower)
		if claimed, ok := errors.AsType[*engine.ClaimedError](err); !ok || claimed.Owner != "" {
			t.Errorf("the claim of another is taken over, or named as that of the dead: %v", err)
		}
		state, err := a.ClaimState(t.Context(), follower.Name)
		succeed(t, err)
		if state.Owner != "" || state.Until.IsZero() {
			t.Errorf("the state is %+v", state)
		}
		succeed(t, claim.Renew(t.Context()))
	})
}

// TestLaterOwnersReadTheNotesInOrder: later owners read what earlier ones have
// noted, whole and in order, until it is claimed anew. A claim with many notes
// can still be released.
func TestLaterOwnersReadTheNotesInOrder(t *testing.T) {
	onEachLedger(t, func(t *testing.T, a *engine.Account, clock *time.Time) {
		var want []string
		for i := range 3 {
			owner := fmt.Sprint("owner ", i)
			claim, err := a.Claim(t.Context(), claiming(owner))
			succeed(t, err)
			if got := claim.Before.Notes; !slices.Equal(got, want) {
				t.Fatalf("%s reads %q; want %q", owner, got, want)
			}
			for n := range 120 {
				note := strings.Repeat(string([]byte{byte(n), 0xff, 0}), n%7)
				want = append(want, note)
				succeed(t, claim.Note(t.Context(), note))
			}
			longest := strings.Repeat(string([]byte{byte(i)}), engine.MaxClaimNote)
			succeed(t, claim.Note(t.Context(), longest))
			if err := claim.Note(t.Context(), longest+"x"); err == nil {
				t.Errorf("a note that is too long: %v", err)
			}
			want = append(want, longest)
			succeed(t, claim.Release(t.Context()))
		}
		claim, err := a.Claim(t.Context(), claiming("last"))
		succeed(t, err)
		succeed(t, claim.Done(t.Context()))
		state, err := a.ClaimState(t.Context(), "pass")
		succeed(t, err)
		if state.Done.IsZero() || !state.Until.IsZero() || len(state.Notes) != len(want) {
			t.Errorf("done at %v, held until %v, with %d notes", state.Done, state.Until, len(state.Notes))
		}
		anew := claiming("anew")
		anew.Anew = true
		claim, err = a.Claim(t.Context(), anew)
		succeed(t, err)
		if claim.Before.Done.IsZero() || claim.Before.Notes != nil {
			t.Errorf("claimed anew after %+v", claim.Before)
		}
		succeed(t, claim.Release(t.Context()))
		claim, err = a.Claim(t.Context(), claiming("next")) // what is begun anew is not done
		succeed(t, err)
		if len(claim.Before.Notes) != 0 {
			t.Errorf("%d notes are left", len(claim.Before.Notes))
		}
	})
}

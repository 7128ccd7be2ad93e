package cooldown_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs/cooldown"
	"github.com/ration-dev/ration/quota"
)

// TestClearOpensAnAccountThatMoved: both ledgers would grant its calls. Reopen
// opens it, and puts back the cooldown that the account had.
func TestClearOpensAnAccountThatMoved(t *testing.T) {
	for _, arriving := range []bool{false, true} {
		s := newStand(t)
		held := quota.Cooldown{Account: "p", Until: noon.Add(time.Hour), Reason: "quotaExceeded"}
		move := quota.Move{Account: "p", Ledger: "redis://there:6379/0", Arriving: arriving, ID: "0123456789ab"}
		if err := s.guard.Log().SetCooldown(t.Context(), move.Cooldown()); err != nil {
			t.Fatal(err)
		}
		if err := s.guard.Cool(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		_, _, err := cooldown.Clear(t.Context(), s.guard, "p", "")
		if got, ok := errors.AsType[*cooldown.MoveError](err); !ok || got.Move != move || !strings.Contains(err.Error(), move.Ledger) || !strings.Contains(err.Error(), "--reopen") {
			t.Fatalf("%v; want a MoveError", err)
		}
		if _, _, err := cooldown.Clear(t.Context(), s.guard, "p", "all"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, out, err := cooldown.Reopen(t.Context(), s.guard, "p"); err != nil || len(out.Still) != 1 || out.Still[0].Reason != held.Reason {
				t.Fatalf("%+v, %v; want the cooldown of before, still in force", out, err)
			}
		}
		all, err := s.guard.Log().Cooldowns(t.Context(), "p")
		if err != nil || len(all) != 1 || all[0] != held {
			t.Errorf("%+v, %v; want %+v", all, err, held)
		}
		if got, want := s.notes(t, "p"), []string{"ledger.reopen cooldown"}; !slices.Equal(got, want) {
			t.Errorf("the log says %q; want %q", got, want)
		}
	}
}

// TestClosedAccountIsInCooldown: the cooldown that closes an account which has
// moved was shown as one that clear lifts, and as what set had set.
func TestClosedAccountIsInCooldown(t *testing.T) {
	s := newStand(t)
	move := quota.Move{Account: "p", Ledger: "redis://there:6379/0", ID: "0123456789ab"}
	if err := s.guard.Log().SetCooldown(t.Context(), move.Cooldown()); err != nil {
		t.Fatal(err)
	}
	for _, budget := range []string{"", "few"} {
		set, err := s.set(t, quota.Cooldown{Account: "p", Budget: budget, For: time.Minute})
		if got, ok := errors.AsType[*cooldown.MoveError](err); !ok || got.Move != move || set != nil {
			t.Errorf("set %q: %+v, %v; want a MoveError", budget, set, err)
		}
	}
	at, out, err := cooldown.Clear(t.Context(), s.guard, "p", "few")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	cooldown.WriteStill(&text, out.Still, at)
	if want := "closed: account p has moved from here to redis://there:6379/0: "; !strings.HasPrefix(text.String(), want) || !strings.Contains(text.String(), "--reopen") {
		t.Errorf("%q; want %q", text.String(), want)
	}
}

// TestCooldownReadsAsAMove: a long cooldown with the reason of a move closed an
// account, so that no cooldown could be set or lifted.
func TestCooldownReadsAsAMove(t *testing.T) {
	move := quota.Move{Account: "p", Ledger: "redis://there:6379/0", ID: "0123456789ab"}
	forged := move.Cooldown()
	for _, c := range []quota.Cooldown{forged, {Account: "p", For: 200 * 365 * 24 * time.Hour, Reason: forged.Reason}} {
		s := newStand(t)
		if set, err := s.set(t, c); !errors.Is(err, quota.ErrBadCall) || set != nil {
			t.Errorf("%+v, %v; want ErrBadCall", set, err)
		}
		if _, moves, err := s.guard.Moves(t.Context(), "p"); moves || err != nil {
			t.Errorf("moves: %t, %v", moves, err)
		}
	}
}

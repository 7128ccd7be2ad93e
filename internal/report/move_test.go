package report_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
)

const there = "redis://there:6379/0"

// closedStand returns a stand whose account p moves.
func closedStand(t *testing.T, move quota.MovedError) *stand {
	t.Helper()
	s := newStand(t)
	if err := testledger.CloseAccount(t.Context(), s.guard.Ledger(), move); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestClearLeavesAMovedAccountClosed: both ledgers would grant its calls. Only
// Reopen opens it, and its cooldown still holds.
func TestClearLeavesAMovedAccountClosed(t *testing.T) {
	for _, arriving := range []bool{false, true} {
		move := quota.MovedError{Account: "p", Ledger: there, Arriving: arriving}
		s := closedStand(t, move)
		held := quota.Cooldown{Account: "p", Until: noon.Add(time.Hour), Reason: "quotaExceeded"}
		if err := s.guard.Cool(t.Context(), held); err != nil {
			t.Fatal(err)
		}
		_, _, err := report.ClearCooldown(t.Context(), s.guard, "p", "", "")
		if got, ok := errors.AsType[*report.MoveError](err); !ok || *got.MovedError != move {
			t.Fatalf("%v; want a MoveError", err)
		}
		if !strings.Contains(err.Error(), there) || !strings.Contains(err.Error(), "--reopen") {
			t.Errorf("%v; want the other ledger and the command", err)
		}
		if _, _, err := report.ClearCooldown(t.Context(), s.guard, "p", "all", ""); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, out, err := report.Reopen(t.Context(), s.guard, "p")
			if err != nil || len(out.Still) != 1 || out.Still[0].Reason != held.Reason {
				t.Fatalf("%+v, %v; want the cooldown of before, still in force", out, err)
			}
		}
		if moved, err := s.guard.Moved(t.Context(), "p"); moved != nil || err != nil {
			t.Errorf("closed by %v, %v; want open", moved, err)
		}
		if got, want := s.notes(t, "p"), []string{"ledger.reopen cooldown"}; !slices.Equal(got, want) {
			t.Errorf("the log says %q; want %q", got, want)
		}
	}
}

// TestAMovedAccountIsListedBeforeItsCooldowns: it is closed, and is not a
// cooldown with an end.
func TestAMovedAccountIsListedBeforeItsCooldowns(t *testing.T) {
	s := closedStand(t, quota.MovedError{Account: "p", Ledger: there})
	if err := s.guard.Cool(t.Context(), quota.Cooldown{Account: "p", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	at, list, err := report.ListCooldowns(t.Context(), s.guard, []string{"p", "q"})
	if err != nil || len(list) != 2 || list[0].Move == nil || list[1].Move != nil {
		t.Fatalf("%+v, %v; want the move and a cooldown", list, err)
	}
	if until, in := list[0].Ends(at); until != "-" || in != "-" || list[0].Reason != "moved to "+there {
		t.Errorf("%q until %s, in %s; want the other ledger, and no end", list[0].Reason, until, in)
	}
	if !strings.Contains(list[0].Moves(), there) || list[1].Moves() != "" {
		t.Errorf("%q, %q; want the other ledger, and nothing", list[0].Moves(), list[1].Moves())
	}
	var text strings.Builder
	report.WriteStill(&text, list[:1], at)
	said := "closed: account p has moved from here to " + there + ": "
	if !strings.HasPrefix(text.String(), said) || !strings.Contains(text.String(), "--reopen") {
		t.Errorf("%q; want %q and the command", text.String(), said)
	}
}

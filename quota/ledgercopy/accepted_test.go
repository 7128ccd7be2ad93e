package ledgercopy_test

import (
	"errors"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/quota/ledgercopy"
)

// TestAcceptedLossIsCopied: a log with a note of AcceptLoss is copied with the
// entries before the note, which no restoration would add after it.
func TestAcceptedLossIsCopied(t *testing.T) {
	eachPair(t, func(t *testing.T, open opener) {
		from, to, c := open()
		h := newHouse(t, c, from, to)
		h.furnish(300)
		early := h.spend(h.old, "", "list", 40)
		if err := h.old.AcceptLoss(t.Context(), account); err != nil {
			t.Fatal(err)
		}
		late := h.spend(h.old, "", "list", 50)
		moving := h.move()
		if err := errors.Join(early.Settle(t.Context(), 3), late.Settle(t.Context(), 70), moving.Follow(t.Context())); err != nil {
			t.Fatal(err)
		}
		if d := diff.Diff(h.contents(h.From), h.contents(h.To)); d != "" {
			t.Fatalf("(-old +new)\n%s", d)
		}
	})
}

// TestCopyToAnAcceptedLoss: a ledger whose loss was accepted takes no older
// entries, so an account is not closed to be copied to it, even if a later loss
// of the old ledger was accepted.
func TestCopyToAnAcceptedLoss(t *testing.T) {
	h := memoryHouse(t)
	h.spend(h.old, "", "list", 40)
	h.At(1)
	if err := errors.Join(h.new.AcceptLoss(t.Context(), account), h.old.AcceptLoss(t.Context(), account)); err != nil {
		t.Fatal(err)
	}
	_, err := h.Move(t.Context(), account)
	if unfinished, ok := errors.AsType[*ledgercopy.UnfinishedError](err); ok || err == nil || !strings.Contains(err.Error(), "has an accepted loss") {
		t.Fatalf("%v, unfinished: %v; want that the loss was accepted", err, unfinished)
	}
	h.spend(h.old, "", "list", 1)
	if cooldowns, err := h.To.Cooldowns(t.Context(), account); err != nil || len(cooldowns) > 0 {
		t.Errorf("%v, %v; want the new ledger open", cooldowns, err)
	}
	h.spend(h.new, "", "list", 1)
}

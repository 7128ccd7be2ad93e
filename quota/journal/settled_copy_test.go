package journal_test

import (
	"errors"
	"testing"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
)

// TestSettledAgainAfterACopy: a call was settled to less after an older copy of
// the log was made, and again after that took the log's place. The copy counted
// it at its price, so the note of what others had spent was smaller by the
// difference, which the second time freed.
func TestSettledAgainAfterACopy(t *testing.T) {
	s := share(t)
	s.spend("theirs", 300)
	s.process("ours", func(guard *quota.Guard, _ *journal.Ledger) {
		grant, err := guard.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 100})
		must(t, err)
		older := s.keep()
		s.spend("theirs", 100)
		must(t, grant.Settle(t.Context(), 50))
		s.spend("ours", 1) // hears of 451
		older()
		_, err = s.send("ours", 1) // the copy counts 50 units too many
		if !errors.Is(err, quota.ErrRefused) {
			t.Errorf("%v; want a refusal", err)
		}
		must(t, grant.Settle(t.Context(), 40))
		s.sent += 40
	})
	s.exhaust("ours")
	s.exhaust("theirs")
	s.mustBe(500)
}

package journal_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
)

// unsettled is a ledger whose answers to settled calls are lost.
type unsettled struct{ quota.Ledger }

func (u unsettled) Settle(ctx context.Context, r quota.Receipt, units quota.Units) error {
	return errors.Join(quota.ErrInDoubt, u.Ledger.Settle(ctx, r, units))
}

// TestRestorationOfARaiseHidesARefusal: the answer to a raise was lost, and the
// restoration that brings it again had nothing to add. The log's newest entry
// then, of another host, was taken for older than the call that the host looks
// for, so the refusal after it did not name it.
func TestRestorationOfARaiseHidesARefusal(t *testing.T) {
	s := share(t)
	s.process("ours", func(guard *quota.Guard, l *journal.Ledger) {
		grant, err := guard.Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 1})
		must(t, err)
		older := s.keep()
		s.spend("theirs", 489)
		l.Ledger = unsettled{l.Ledger}
		if err := grant.Settle(t.Context(), 11); !errors.Is(err, quota.ErrInDoubt) {
			t.Errorf("%v; want a lost answer", err)
		}
		s.sent += 11
		s.exhaust("ours")
		older()
	})
	s.exhaust("ours")
	s.mustBe(500)
}

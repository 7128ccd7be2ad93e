package journal_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ration-dev/ration/quota"
)

// TestLookAlikeHasAnAllowance: a second spelling of an account had an allowance
// of its own, which the ledger could not be charged afterwards.
func TestLookAlikeHasAnAllowance(t *testing.T) {
	o := newOutage(t, 100, 50)
	o.spends(o.process(), 100)
	o.fail(errDown)
	_, err := o.process().Spend(t.Context(), quota.Call{Account: " " + strings.ToUpper(account), Method: "m", Units: 1})
	if alike, ok := errors.AsType[*quota.LookAlikeError](err); !ok || alike.Known != account || errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("%v; want it refused as another spelling of %s", err, account)
	}
	if _, err := o.process().Spend(t.Context(), quota.Call{Account: "unlike", Method: "m", Units: 1}); err != nil {
		t.Errorf("another account: %v", err)
	}
}

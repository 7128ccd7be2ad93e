package report

import (
	"fmt"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// MoveText says that an account is closed because it moves from one ledger to
// another, and what to do.
func MoveText(m *quota.Move) string {
	if m.Arriving {
		return fmt.Sprintf("account %s is being copied to this ledger from %s: calls are refused until the copy is "+
			"complete; if it was interrupted, run the same ration ledger copy again",
			human.Name(m.Account), human.Name(m.Ledger))
	}
	return (&quota.MovedError{Account: m.Account, Ledger: m.Ledger}).Error()
}

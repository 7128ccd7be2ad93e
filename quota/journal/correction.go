package journal

import (
	"context"

	"github.com/ration-dev/ration/quota"
)

// restoreMissing restores the account's own log if it lacks the newest grant of
// this host and key is one by which a Guard locks it. What a Guard then records
// is a difference from what the log holds.
func (l *Ledger) restoreMissing(ctx context.Context, a *account, key string) error {
	if !quota.IsReserved(key) {
		return nil
	}
	granted, err := l.Missing(ctx, a.name)
	if err != nil || granted.IsZero() {
		return nil // the spend itself reports an error
	}
	if err := a.owe(); err != nil {
		return err
	}
	return l.restore(ctx, a, nil, l.clock())
}

// This file closes accounts as a copy does, and has ledgers
// of earlier releases, for tests.

package testledger

import (
	"context"
	"errors"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// CloseAccount closes an account in a ledger: it has left it for another one,
// or it is being copied to it.
func CloseAccount(ctx context.Context, l quota.Ledger, m quota.MovedError) error {
	moved := &engine.Record{Kind: engine.KindMoved, Text: m.Ledger}
	if m.Arriving {
		moved.Name = engine.Arriving
	}
	known, err := head(ctx, l, m.Account)
	if err != nil {
		return err
	}
	first := engine.ID{Client: engine.NewClient(), Seq: 1}
	t, err := l.Append(ctx, m.Account, &engine.Append{
		Known: known, Any: true, Bump: true, Count: 1, NewEpoch: engine.NewEpoch(),
		Data: engine.Pack(first, []*engine.Record{moved}),
	})
	if err == nil && !t.Appended {
		err = errors.New("copytest: the ledger did not append a moved record")
	}
	return err
}

// head returns the end of an account's log.
func head(ctx context.Context, l quota.Ledger, account string) (known engine.Known, err error) {
	for {
		t, err := l.Read(ctx, account, &engine.Read{Known: known})
		if err != nil {
			return known, err
		}
		known.Epoch = t.Epoch
		if n := len(t.Batches); n > 0 {
			known.After, known.Tag = t.Batches[n-1].Position, t.Batches[n-1].Tag()
		}
		if !t.More {
			return known, nil
		}
	}
}

package ledgercopy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// ErrEmpty means that the old ledger holds no account.
var ErrEmpty = errors.New("the ledger holds nothing")

// Accounts returns the accounts to move, which are those that are known and
// those of the old ledger, and the ones that a guard keeps for itself. It
// returns ErrEmpty if the old ledger holds nothing: it is probably another one
// that is meant, and what callers of that have spent would be missing in the
// new one.
func (c *Copy) Accounts(ctx context.Context, known []string) (names, reserved []string, err error) {
	names = slices.Clone(known)
	empty := true
	for name, err := range c.From.Accounts(ctx) {
		empty = false
		switch {
		case err != nil:
			return nil, nil, c.from(err)
		case quota.IsReserved(name):
			reserved = append(reserved, name)
		case !slices.Contains(names, name):
			names = append(names, name)
		}
	}
	if empty {
		return nil, nil, ErrEmpty
	}
	return names, reserved, nil
}

// MoveAll moves accounts, and copies reserved ones before a ledger opens in
// which passes could be claimed. It calls moved with the report of each account
// that is open in the new ledger.
func (c *Copy) MoveAll(ctx context.Context, names, reserved []string, moved func(*Report)) (all []*Moving, err error) {
	for _, name := range reserved {
		m, err := c.CopyReserved(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	for _, name := range names {
		m, err := c.Move(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
		moved(m.Report())
	}
	return all, nil
}

// FollowAll calls Follow of all accounts, every second for as long as calls may
// be in flight.
func FollowAll(ctx context.Context, all []*Moving, grace time.Duration) error {
	for left := grace; ; left -= time.Second {
		for _, m := range all {
			if err := m.Follow(ctx); err != nil {
				return err
			}
		}
		if left <= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(left, time.Second)):
		}
	}
}

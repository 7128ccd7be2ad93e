package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ration-dev/ration/internal/replica"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// LedgerCopy is a copy between two ledgers that have addresses, for ration
// ledger copy. Its FromName and ToName must be set; Open sets From and To.
type LedgerCopy struct {
	replica.Copy

	// OpenFrom and OpenTo open the ledgers. Without create, they return
	// sqliteledger.ErrNoLedger for a file that does not exist.
	OpenFrom, OpenTo func(create bool) (*Client, error)

	source *Client // nil if an earlier release has written From
	opened []interface{ Close() error }
}

// Open opens the ledgers, except for one that does not exist yet: To is nil in
// that case. Close must be called even after an error.
func (c *LedgerCopy) Open(ctx context.Context) error {
	if err := c.openSource(ctx); err != nil {
		return err
	}
	if err := c.openTarget(false); !errors.Is(err, sqliteledger.ErrNoLedger) {
		return err
	}
	return nil
}

// Create creates the ledger to copy to, unless it is open.
func (c *LedgerCopy) Create() error {
	if c.To != nil {
		return nil
	}
	return c.openTarget(true)
}

// Close closes what was opened.
func (c *LedgerCopy) Close() error {
	var errs []error
	for _, l := range c.opened {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// openSource opens the ledger to copy from. An earlier release may have written
// the file.
func (c *LedgerCopy) openSource(ctx context.Context) error {
	if path, isFile := strings.CutPrefix(c.FromName, "sqlite:"); isFile {
		old, err := replica.OpenOldSQLite(path)
		if err == nil {
			c.From = old
			c.opened = append(c.opened, old)
		}
		if !errors.Is(err, replica.ErrNotOld) {
			return err
		}
	}
	source, err := c.OpenFrom(false)
	if errors.Is(err, sqliteledger.ErrNoLedger) {
		return configError("there is no ledger at %s, so there is nothing to copy; correct the first address",
			c.FromName)
	}
	if err != nil {
		return err
	}
	c.opened = append(c.opened, source)
	c.From, c.source = source.inner, source
	if redis, ok := source.inner.(*redisledger.Ledger); ok {
		if err := c.preferOld(ctx, redis); err != nil {
			return fmt.Errorf("ledger %s: %w", c.FromName, err)
		}
	}
	return nil
}

// preferOld copies from what an earlier release keeps in a Redis, if there is
// such a ledger, and no other one or only that to copy to.
func (c *LedgerCopy) preferOld(ctx context.Context, redis *redisledger.Ledger) error {
	old := replica.NewOldRedis(redis.Client(), "")
	if isOld, err := hasAccount(ctx, old); !isOld || err != nil {
		return err
	}
	if c.FromName != c.ToName {
		if isNew, err := hasAccount(ctx, redis); isNew || err != nil {
			return err
		}
	}
	c.From, c.source = old, nil
	return nil
}

// hasAccount reports whether a ledger holds anything.
func hasAccount(ctx context.Context, l quota.Ledger) (bool, error) {
	for _, err := range l.Accounts(ctx) {
		return err == nil, err
	}
	return false, nil
}

// openTarget opens the ledger to copy to. In Redis, that of an earlier release
// may be at the same address.
func (c *LedgerCopy) openTarget(create bool) error {
	isOld := c.source == nil
	if isOld && c.FromName == c.ToName && strings.HasPrefix(c.ToName, "sqlite:") {
		return configError("an earlier release has written %s; copy it to a new file, which can then take its name",
			c.FromName)
	}
	target, err := c.OpenTo(create)
	if err != nil {
		return err
	}
	c.opened = append(c.opened, target)
	c.To = target.inner
	if redis, ok := target.inner.(*redisledger.Ledger); ok && isOld {
		c.To = redisledger.New(redis.Client(), &redisledger.Options{Import: true})
	}
	return nil
}

// Accounts does what replica.Copy.Accounts does, and restores what this host
// knows of the accounts and the ledger has lost.
func (c *LedgerCopy) Accounts(ctx context.Context, known []string) (names []string, err error) {
	if err := c.restore(ctx, known); err != nil {
		return nil, err
	}
	names, err = c.Copy.Accounts(ctx, known)
	if errors.Is(err, replica.ErrEmpty) {
		return nil, configError("the ledger %s holds nothing, so there is nothing to copy; correct the first address",
			c.FromName)
	}
	if err != nil {
		return nil, err
	}
	return names, c.restore(ctx, names)
}

// restore restores accounts, by reading them.
func (c *LedgerCopy) restore(ctx context.Context, accounts []string) error {
	if c.source == nil {
		return nil
	}
	for _, account := range accounts {
		if _, err := c.source.guard.Moved(ctx, account); err != nil {
			return err
		}
	}
	return nil
}

package client

import (
	"context"
	"time"

	"github.com/ration-dev/ration/quota"
)

const (
	readInterval = time.Minute      // between two reads of KeepReading
	readTime     = 15 * time.Second // the longest that one waits for the ledger
)

// KeepReading reads what is new in the ledger once a minute until ctx ends, for
// a process that may be idle, such as a server. The host's copy is then fresh,
// and an outage or a loss of the ledger is noticed without a call: it is
// reported, and what the ledger lacks is restored. That an account has moved to
// another ledger is reported once. KeepReading returns at once
// for a Client that was not opened.
func (c *Client) KeepReading(ctx context.Context) {
	if c.guard == nil {
		return
	}
	ticker := time.NewTicker(readInterval)
	defer ticker.Stop()
	told := map[string]bool{}
	for {
		for _, account := range c.table.Accounts() {
			if moved := c.read(ctx, account); moved != nil && !told[account] {
				told[account] = true
				c.report(quota.Call{Account: account}, moved)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// read reads what is new of an account, and returns where that has moved, or
// nil. An error is the ledger's, which watch reports if that is down.
func (c *Client) read(ctx context.Context, account string) *quota.MovedError {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	moved, err := c.guard.Moved(ctx, account)
	if err != nil || moved == nil || moved.Arriving {
		return nil
	}
	return moved
}

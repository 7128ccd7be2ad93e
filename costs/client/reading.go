package client

import (
	"context"
	"time"
)

const (
	readInterval = time.Minute      // between two reads of KeepReading
	readTime     = 15 * time.Second // the longest that one waits for the ledger
)

// KeepReading reads what is new in the ledger once a minute until ctx ends, for
// a process that may be idle, such as a server. The host's copy is then fresh,
// and an outage or a loss of the ledger is noticed without a call: it is
// reported, and what the ledger lacks is restored. KeepReading returns at once
// for a Client that was not opened.
func (c *Client) KeepReading(ctx context.Context) {
	if c.guard == nil {
		return
	}
	ticker := time.NewTicker(readInterval)
	defer ticker.Stop()
	for {
		for _, account := range c.table.Accounts() {
			c.read(ctx, account)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// read reads what is new of an account. An error is the ledger's, which watch
// reports if that is down.
func (c *Client) read(ctx context.Context, account string) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	_, _ = c.log.WindowUsages(ctx, account, "", nil)
}

package client

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/inbound"
	"github.com/ration-dev/ration/quota/inbound/redisstore"
	"github.com/ration-dev/ration/quota/inbound/sqlitestore"
	"github.com/ration-dev/ration/quota/redisledger"
)

// inboundFile is the file in the state folder that holds the counts of inbound
// requests, unless the ledger is in Redis.
const inboundFile = "limits.db"

// inboundStore is where requests of the program's own clients are counted. It
// is opened by the first one.
type inboundStore struct {
	mu    sync.Mutex
	store inbound.Store // nil before that
	close func() error
}

// Limit counts a request of one of the program's own clients, if it fits limit,
// and returns whether it does and what is left. All processes of the host share
// the counts of equal limits; with a ledger in Redis, all hosts. An error is
// quota.ErrBadCall for a limit out of range, or wraps quota.ErrLedgerDown if
// the request cannot be counted.
func (c *Client) Limit(ctx context.Context, who string, limit inbound.Limit) (bool, inbound.Balance, error) {
	store, err := c.inbound.open(c)
	if err != nil {
		return false, inbound.Balance{}, err
	}
	limiter, err := inbound.New(store, []inbound.Limit{limit}, &inbound.Options{Name: "limit", Now: c.options.Now})
	if err != nil {
		return false, inbound.Balance{},
			fmt.Errorf("%w: %s", quota.ErrBadCall, strings.TrimPrefix(err.Error(), "inbound: "))
	}
	admitted, left, err := limiter.Count(ctx, who)
	if err != nil {
		return false, inbound.Balance{},
			fmt.Errorf("%w: requests of clients cannot be counted: %w", quota.ErrLedgerDown, err)
	}
	return admitted, left[0], nil
}

// open returns the store.
func (s *inboundStore) open(c *Client) (inbound.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil {
		return s.store, nil
	}
	if l, ok := c.inner.(*redisledger.Ledger); ok {
		s.store = redisstore.New(l.Client())
		return s.store, nil
	}
	if c.state == "" {
		s.store = inbound.Memory()
		return s.store, nil
	}
	err := files.MkdirAll(c.state)
	if err != nil {
		return nil, &ConfigError{err}
	}
	file, err := sqlitestore.Open(filepath.Join(c.state, inboundFile))
	if err != nil {
		return nil, fmt.Errorf("%w: requests of clients cannot be counted: %w", quota.ErrLedgerDown, err)
	}
	s.store, s.close = file, file.Close
	return file, nil
}

// end closes the store.
func (s *inboundStore) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.close == nil {
		return nil
	}
	return s.close()
}

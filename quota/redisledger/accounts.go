package redisledger

import (
	"context"
	"iter"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Accounts implements quota.Ledger. It scans all keys of all servers, a
// thousand at a time.
func (l *Ledger) Accounts(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var nodes []redis.Cmdable
		var mu sync.Mutex
		add := func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, node)
			return nil
		}
		var err error
		switch c := l.client.(type) {
		case *clusterClient:
			err = c.ForEachMaster(ctx, add)
		case *redis.Ring:
			err = c.ForEachShard(ctx, add)
		default:
			nodes = append(nodes, l.client)
		}
		if err != nil {
			yield("", ended(ctx, l.failed(err, classify(err), false)))
			return
		}
		seen := map[string]bool{}
		for _, node := range nodes {
			for cursor := uint64(0); ; {
				var found []string
				if found, cursor, err = l.scanAccounts(ctx, node, cursor); err != nil {
					yield("", err)
					return
				}
				for _, account := range found {
					if !seen[account] && !yield(account, nil) {
						return
					}
					seen[account] = true
				}
				if cursor == 0 {
					break
				}
			}
		}
	}
}

// scanAccounts runs one SCAN. It returns the accounts that it found and the
// next cursor.
func (l *Ledger) scanAccounts(ctx context.Context, node redis.Cmdable, cursor uint64) (found []string, next uint64, err error) {
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	within, cancel := l.bounded(ctx, patience)
	defer cancel()
	names, next, err := node.Scan(within, cursor, l.prefix+":{*}:????", scanned).Result()
	if err != nil {
		return nil, 0, ended(ctx, l.failed(err, classify(err), false))
	}
	for _, name := range names {
		account, of, _ := strings.Cut(strings.TrimPrefix(name, l.prefix+":{"), "}:")
		if of == "meta" || of == "cool" {
			found = append(found, unescape(account))
		}
	}
	return found, next, nil
}

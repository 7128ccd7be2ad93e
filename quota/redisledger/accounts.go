package redisledger

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/url"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// scanned is about how many keys a server looks at for one SCAN.
const scanned = 1000

// Accounts implements engine.Ledger. It scans all keys of all masters.
func (l *Ledger) Accounts(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := l.check(ctx); err != nil {
			yield("", err)
			return
		}
		nodes, err := l.nodes(ctx)
		seen := map[string]bool{} // SCAN may return a key twice
		for _, node := range nodes {
			scan := node.ScanType(ctx, 0, l.prefix+":{*}:head", scanned, "hash").Iterator()
			for err == nil && scan.Next(ctx) {
				account, ok := l.accountOf(scan.Val())
				if !ok || seen[account] {
					continue
				}
				if seen[account] = true; !yield(account, nil) {
					return
				}
			}
			err = cmp.Or(err, scan.Err())
		}
		if err != nil {
			yield("", l.ended(ctx, err, classify(err), false))
		}
	}
}

// nodes returns a client for each server that may hold an account.
func (l *Ledger) nodes(ctx context.Context) (nodes []redis.Cmdable, err error) {
	var mu sync.Mutex
	add := func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	}
	switch c := l.client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, add)
	case *redis.Ring:
		err = c.ForEachShard(ctx, add)
	default:
		nodes = []redis.Cmdable{l.client}
	}
	return nodes, err
}

// accountOf returns the account of the key of a head.
func (l *Ledger) accountOf(key string) (account string, ok bool) {
	name, of, _ := strings.Cut(strings.TrimPrefix(key, l.prefix+":{"), "}:")
	account, err := url.PathUnescape(name)
	return account, err == nil && of == "head"
}

// plain are the bytes that escape leaves.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// escape percent-encodes all bytes but plain and more, so that a name cannot be
// taken for another part of a key.
func escape(s, more string) string {
	var b strings.Builder
	for i := range len(s) {
		if strings.IndexByte(plain, s[i]) >= 0 || strings.IndexByte(more, s[i]) >= 0 {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

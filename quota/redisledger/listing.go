package redisledger

import (
	"context"
	"encoding/hex"
	"errors"
	"iter"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota"
)

// scanned is how many of the server's keys one SCAN visits.
const scanned = 1000

// Keys implements quota.Ledger. It scans all keys of the server that holds the
// account, other programs' included, a thousand at a time. A key of more than
// 48 bytes that the first release logged is listed once this release has spent
// on it for a sixteenth of its window.
func (l *Ledger) Keys(ctx context.Context, account string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := (&quota.Batch{Account: account}).Check(); err != nil {
			yield("", err)
			return
		}
		n := l.names(account, "")
		node, err := l.nodeOf(ctx, n.log)
		base, cursor, seen := strings.TrimSuffix(n.log, "log"), uint64(0), map[string]bool{}
		for err == nil {
			var found []string
			if found, cursor, err = l.scan(ctx, node, base, cursor); err != nil {
				break
			}
			for _, key := range found {
				if seen[key] { // SCAN may return a key twice
					continue
				}
				if seen[key] = true; !yield(key, nil) {
					return
				}
			}
			if cursor == 0 {
				return
			}
		}
		yield("", err)
	}
}

// nodeOf returns a client of the server that holds a key.
func (l *Ledger) nodeOf(ctx context.Context, key string) (redis.Cmdable, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	var node redis.Cmdable = l.client
	var err error
	switch c := l.client.(type) {
	case *clusterClient:
		node, err = c.MasterForKey(ctx, key)
	case *redis.Ring:
		node, err = c.GetShardClientForKey(key)
	}
	if err != nil {
		return nil, l.failed(err, classify(err), false)
	}
	return node, nil
}

// scan runs one SCAN. It returns the keys of the logs it found and the
// next cursor.
func (l *Ledger) scan(ctx context.Context, node redis.Cmdable, base string, cursor uint64) (found []string, next uint64, err error) {
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	within, cancel := l.bounded(ctx, patience)
	defer cancel()
	names, next, err := node.Scan(within, cursor, base+"[kh]:*", scanned).Result()
	for _, name := range names {
		var key string
		if key, err = keyOf(within, node, base, name); err != nil {
			break
		}
		if key != "" {
			found = append(found, key)
		}
	}
	switch {
	case err == nil:
		return found, next, nil
	case ctx.Err() != nil:
		return nil, 0, context.Cause(ctx)
	}
	return nil, 0, l.failed(err, classify(err), false)
}

// keyOf returns the key of the log with a Redis key, or "" if it is not a
// log's, or is gone.
func keyOf(ctx context.Context, node redis.Cmdable, base, name string) (string, error) {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(name, base), ":")
	hash, named := strings.CutSuffix(rest, nameSuffix)
	switch {
	case kind == "h" && named && !strings.Contains(hash, ":"):
		key, err := node.Get(ctx, name).Result()
		if errors.Is(err, redis.Nil) {
			return "", nil
		}
		return key, err
	case kind == "k" && !strings.Contains(rest, ":"):
		return unescape(rest), nil
	}
	return "", nil
}

// unescape is the reverse of escape.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c, err := hex.DecodeString(s[min(i+1, len(s)):min(i+3, len(s))]); s[i] == '%' && err == nil && len(c) == 1 {
			b.WriteByte(c[0])
			i += 2
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

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
		if err != nil {
			yield("", err)
			return
		}
		base := strings.TrimSuffix(n.log, "log")
		l.scan(ctx, []redis.Cmdable{node}, base+"[kh]:*", func(ctx context.Context, node redis.Cmdable, names []string) ([]string, error) {
			return keysOf(ctx, node, base, names)
		})(yield)
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
	case *redis.ClusterClient:
		node, err = c.MasterForKey(ctx, key)
	case *redis.Ring:
		node, err = c.GetShardClientForKey(key)
	}
	if err != nil {
		return nil, l.failed(err, classify(err), false)
	}
	return node, nil
}

// nameReader returns what Redis keys on a server stand for; "" is nothing.
type nameReader func(ctx context.Context, node redis.Cmdable, names []string) ([]string, error)

// scan yields what the Redis keys that match a pattern stand for, each once.
func (l *Ledger) scan(ctx context.Context, nodes []redis.Cmdable, pattern string, read nameReader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		seen := map[string]bool{"": true} // SCAN may return a key twice
		for _, node := range nodes {
			for cursor := uint64(0); ; {
				var found []string
				var err error
				if found, cursor, err = l.scanOnce(ctx, node, pattern, cursor, read); err != nil {
					yield("", err)
					return
				}
				for _, of := range found {
					if !seen[of] && !yield(of, nil) {
						return
					}
					seen[of] = true
				}
				if cursor == 0 {
					break
				}
			}
		}
	}
}

// scanOnce runs one SCAN. It returns what it found and the next cursor.
func (l *Ledger) scanOnce(ctx context.Context, node redis.Cmdable, pattern string, cursor uint64, read nameReader) (found []string, next uint64, err error) {
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	within, cancel := l.bounded(ctx, patience)
	defer cancel()
	type page struct {
		found []string
		next  uint64
	}
	answer, err := await(within, l, func() (p page, err error) {
		names, next, err := node.Scan(within, cursor, pattern, scanned).Result()
		if p.next = next; err == nil {
			p.found, err = read(within, node, names)
		}
		return p, err
	})
	if err != nil {
		return nil, 0, ended(ctx, l.failed(err, classify(err), false))
	}
	return answer.found, answer.next, nil
}

// keysOf returns the keys of the logs with Redis keys, without those that are
// not a log's, or are gone. It asks for all that are hashed at once.
func keysOf(ctx context.Context, node redis.Cmdable, base string, names []string) (keys []string, err error) {
	pipe := node.Pipeline()
	var hashed []*redis.StringCmd
	for _, name := range names {
		kind, rest, _ := strings.Cut(strings.TrimPrefix(name, base), ":")
		hash, named := strings.CutSuffix(rest, nameSuffix)
		switch {
		case kind == "h" && named && !strings.Contains(hash, ":"):
			hashed = append(hashed, pipe.Get(ctx, name))
		case kind == "k" && !strings.Contains(rest, ":"):
			keys = append(keys, unescape(rest))
		}
	}
	if len(hashed) > 0 {
		_, _ = pipe.Exec(ctx) // each has its error
	}
	for _, get := range hashed {
		key, err := get.Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
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

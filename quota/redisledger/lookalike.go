package redisledger

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// spellingLasts is how long the spelling of an account holds after the last
// process has begun to use it.
const spellingLasts = 30 * 24 * time.Hour

// checkLookAlike checks, once in a process, that an account is spelled as other
// processes spell it. It is best effort: what it cannot read or write it leaves
// to the scripts, which report it.
func (l *Ledger) checkLookAlike(ctx context.Context, account string) error {
	a := l.cache(account)
	a.mu.Lock()
	checked := a.spelled
	a.mu.Unlock()
	if checked {
		return nil
	}
	// The key holds the first spelling of all that are folded alike.
	key := l.prefix + ":spelled:" + escape(decide.Fold(account), "")
	set := []any{"set", key, account}
	if l.now == nil {
		set = append(set, "ex", int64(spellingLasts/time.Second))
	}
	if _, err := l.send(ctx, append(set[:len(set):len(set)], "nx")); err != nil && !errors.Is(err, redis.Nil) {
		if _, answered := errors.AsType[redis.Error](err); !answered && classify(err) == config {
			return l.failed(err, config, false) // what answers is not a Redis
		}
		return nil
	}
	known, err := l.send(ctx, []any{"get", key})
	if spelling, ok := known.(string); err == nil && ok {
		if err := quota.CheckLookAlike(account, spelling); err != nil {
			return err
		}
		_, err = l.send(ctx, set)
	}
	if err == nil {
		a.mu.Lock()
		a.spelled = true
		a.mu.Unlock()
	}
	return nil
}

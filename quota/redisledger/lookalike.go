package redisledger

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

const (
	// spellingLasts is how long the spelling of an account holds after a process
	// that uses it has checked it last.
	spellingLasts = 30 * 24 * time.Hour
	// checkSpellingEvery is how often a process does so.
	checkSpellingEvery = int64(24 * time.Hour / time.Microsecond)
)

// checkLookAlike checks that an account is spelled as other processes spell it.
// A process that records anything does so once a day, and keeps the first
// spelling for the others; one that only reads keeps none, since its own may be
// the wrong one. It is best effort: what it cannot read or write it leaves to
// the scripts, which report it.
func (l *Ledger) checkLookAlike(ctx context.Context, account string, records bool) error {
	a, now := l.cache(account), l.elapsed()
	a.mu.Lock()
	since := now - a.spelled
	isChecked := a.spelled != 0 && max(since, -since) < checkSpellingEvery
	a.mu.Unlock()
	if isChecked {
		return nil
	}
	// The key holds the first spelling of all that are folded alike.
	key := l.prefix + ":spelled:" + escape(decide.Fold(account), "")
	get, set := []any{"get", key}, []any{"set", key, account}
	if l.now == nil {
		set = append(set, "ex", int64(spellingLasts/time.Second))
	}
	first := get
	if records {
		first = append(set[:len(set):len(set)], "nx")
	}
	known, err := l.send(ctx, first)
	if err != nil && !errors.Is(err, redis.Nil) {
		if _, answered := errors.AsType[redis.Error](err); !answered && classify(err) == config {
			return l.failed(err, config, false) // what answers is not a Redis
		}
		return nil
	}
	if records {
		known, err = l.send(ctx, get)
	}
	spelling, ok := known.(string)
	if err != nil || !ok {
		return nil
	}
	if err := quota.CheckLookAlike(account, spelling); err != nil || !records {
		return err
	}
	if _, err = l.send(ctx, set); err == nil {
		a.mu.Lock()
		a.spelled = now
		a.mu.Unlock()
	}
	return nil
}

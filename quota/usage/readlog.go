package usage

import (
	"context"
	"iter"
	"time"

	"github.com/ration-dev/ration/quota"
)

// log reads the log of one account for one report. What several budgets ask is
// read once.
type log struct {
	ledger  quota.Log
	account string

	sums    map[[2]time.Time][]quota.Sum // by since and until, in UTC
	entries map[time.Time][]quota.Entry  // the first ones, at most maxGap, by since, in UTC
}

// read returns the sums from one time to another.
func (l *log) read(ctx context.Context, since, until time.Time) ([]quota.Sum, error) {
	key := [2]time.Time{since.UTC(), until.UTC()}
	if sums, ok := l.sums[key]; ok {
		return sums, nil
	}
	var sums []quota.Sum
	for sum, err := range l.ledger.Sums(ctx, quota.Query{Account: l.account, Since: since, Until: until}) {
		if err != nil {
			return nil, err
		}
		sums = append(sums, sum)
	}
	if l.sums == nil {
		l.sums = map[[2]time.Time][]quota.Sum{}
	}
	l.sums[key] = sums
	return sums, nil
}

// held returns what entries from one time to another count for in a coverage.
func (l *log) held(ctx context.Context, c *quota.Coverage, since, until time.Time) (n quota.Units, err error) {
	sums, err := l.read(ctx, since, until)
	for i := range sums {
		n += amount(c, &sums[i])
	}
	return n, err
}

// from yields the entries from a time on.
func (l *log) from(ctx context.Context, since time.Time) iter.Seq2[quota.Entry, error] {
	if l.entries == nil {
		l.entries = map[time.Time][]quota.Entry{}
	}
	key, next := since.UTC(), since
	return func(yield func(quota.Entry, error) bool) {
		for _, e := range l.entries[key] {
			if !yield(e, nil) {
				return
			}
			next = e.At.Add(time.Microsecond)
		}
		for e, err := range l.ledger.Entries(ctx, quota.Query{Account: l.account, Since: next}) {
			if err == nil && len(l.entries[key]) < maxGap {
				l.entries[key] = append(l.entries[key], e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

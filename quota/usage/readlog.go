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
	ledger  quota.Ledger
	account string

	sums    map[[2]time.Time][]quota.Sum // by since and until, in UTC
	entries map[time.Time]*firstEntries  // by since, in UTC
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

// firstEntries are the first entries from some time on, at most maxGap.
type firstEntries struct {
	kept []quota.Entry
	end  bool // there are no more
}

// from yields the entries from a time on.
func (l *log) from(ctx context.Context, since time.Time) iter.Seq2[quota.Entry, error] {
	if l.entries == nil {
		l.entries = map[time.Time]*firstEntries{}
	}
	first := l.entries[since.UTC()]
	if first == nil {
		first = &firstEntries{}
		l.entries[since.UTC()] = first
	}
	return func(yield func(quota.Entry, error) bool) {
		for i := 0; i < len(first.kept); i++ {
			if !yield(first.kept[i], nil) {
				return
			}
		}
		if first.end {
			return
		}
		next := since
		if n := len(first.kept); n > 0 {
			next = first.kept[n-1].At.Add(time.Microsecond)
		}
		for e, err := range l.ledger.Entries(ctx, quota.Query{Account: l.account, Since: next}) {
			if err == nil && len(first.kept) < maxGap {
				first.kept = append(first.kept, e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
		first.end = len(first.kept) < maxGap
	}
}

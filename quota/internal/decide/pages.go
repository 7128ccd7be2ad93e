package decide

import (
	"iter"
	"math"
	"slices"

	"github.com/ration-dev/ration/quota"
)

// Page selects entries of a log: those stamped at or after From and before
// Until, of these the oldest Most, or with Newest the newest Most.
type Page struct {
	From, Until int64
	Newest      bool
	Most        int
}

// firstPage is the size of the first page: callers often want few entries.
const firstPage = 16

// Pages implements quota.Ledger's Entries. It calls read for consecutive pages,
// each twice as long as the one before and at most longest. read must return
// the entries oldest first. Fewer than Most end the listing.
func Pages(query quota.Query, longest int, read func(Page) ([]quota.Entry, error)) iter.Seq2[quota.Entry, error] {
	return func(yield func(quota.Entry, error) bool) {
		page := Page{Newest: query.Newest, Most: min(firstPage, longest)}
		page.From, page.Until = Between(query)
		for {
			entries, err := read(page)
			if err != nil {
				yield(quota.Entry{}, err)
				return
			}
			if page.Newest {
				slices.Reverse(entries)
			}
			for _, e := range entries {
				if !yield(e, nil) {
					return
				}
			}
			if len(entries) < page.Most {
				return
			}
			if last := entries[len(entries)-1].At.UnixMicro(); page.Newest {
				page.Until = last
			} else {
				page.From = last + 1
			}
			page.Most = min(2*page.Most, longest)
		}
	}
}

// Between returns the stamps that a query selects: those at or after from and
// before until.
func Between(query quota.Query) (from, until int64) {
	from, until = math.MinInt64, math.MaxInt64
	if !query.Since.IsZero() {
		from = Ceil(query.Since)
	}
	if !query.Until.IsZero() {
		until = Ceil(query.Until)
	}
	return from, until
}

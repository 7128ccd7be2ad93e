package redisledger

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// cacheTime is how long records are cached: as long as one report takes,
	// which asks for many sums of a log.
	cacheTime = 10 * time.Second
	// maxCached is how many records are cached, in 12 bytes each; a page
	// more is.
	maxCached = 1_500_000
)

// sumCache caches the records of one account's log for more sums of it. It has
// only records that do not change while the account has the same head, on one
// server: a new connection may lead to another one, which has lost records.
type sumCache struct {
	mu    sync.Mutex
	timer *time.Timer // clears the cache

	account, head string
	dials         int64 // how many connections the ledger had made when the last sum ended
	began         time.Time
	table         *sumTable
	spans         []span // oldest first; they do not overlap
	size          int    // the records in spans, and in the one that is being read
}

// span holds all records stamped at or after since and before until, in pages.
type span struct {
	since, until int64
	pages        []sumPage
}

// begin prepares the cache for an account with a head. It drops the records of
// another account or head, from before a new connection, and those that were
// read too long ago.
func (c *sumCache) begin(account, head string, dials int64) {
	isOfLog := c.account == account && c.head == head && c.dials == dials
	if isOfLog && c.table != nil && time.Since(c.began) < cacheTime {
		return
	}
	c.drop()
	c.account, c.head = account, head
	c.began, c.table = time.Now(), &sumTable{}
	c.timer = time.AfterFunc(cacheTime, c.clear)
}

// clear empties the cache.
func (c *sumCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

// clearUnused empties the cache unless a sum uses it; its timer does it then.
func (c *sumCache) clearUnused() {
	if c.mu.TryLock() {
		defer c.mu.Unlock()
		c.drop()
	}
}

func (c *sumCache) drop() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.table = nil
	c.spans = nil
	c.size = 0
}

// find returns the span that has the records from a stamp on, or nil and the
// stamp at which the next span begins.
func (c *sumCache) find(stamp int64) (has *span, next int64) {
	for i := range c.spans {
		switch s := &c.spans[i]; {
		case stamp < s.since:
			return nil, s.since
		case stamp < s.until:
			return s, 0
		}
	}
	return nil, math.MaxInt64
}

// add adds a span, unless it is empty.
func (c *sumCache) add(s span) {
	if s.since >= s.until {
		return
	}
	c.spans = append(c.spans, s)
	slices.SortFunc(c.spans, func(x, y span) int { return cmp.Compare(x.since, y.since) })
}

// records yields the records of a span from one stamp to another, in parts.
func (s *span) records(from, until int64, use func(sumPage)) {
	for _, page := range s.pages {
		use(page.between(from, until))
	}
}

package sqliteledger

import (
	"context"
	"database/sql/driver"
	"iter"
	"math"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

const (
	// sumsEvery is how many entries a block of sums has on average: an entry
	// whose stamp it divides adds a block, so that entries need not be counted.
	// It is a prime, so that it divides the stamps of regular clocks as often.
	sumsEvery = 4093
	maxBlock  = 2 * sumsEvery // entries; the next blocks take the rest

	sumsPage = 2048 // entries to add up in one transaction
)

// addSums adds a block of sums if one is due. It sums entries that no settle
// can change in place.
func (t *tx) addSums(g *log) {
	if !g.sumsDue {
		return
	}
	g.sumsDue = false
	since := view{t, g.all}.after(math.MinInt64).stamp
	if row := t.queryRow("sums-end", g.id); row != nil {
		since = integer(row[0])
	}
	until := since
	if row := t.queryRow("entry-behind", g.id, int64(quota.MaxSettle)); row != nil {
		until = integer(row[0])
	}
	if row := t.queryRow("entry-beyond", g.id, since, int64(maxBlock)); row != nil {
		until = min(until, integer(row[0]))
	}
	t.exec("sums-insert", g.id, since, until)
}

// Sums implements quota.Ledger. It adds up the blocks of sums in the file, and
// the entries outside them.
func (l *Ledger) Sums(ctx context.Context, query quota.Query) iter.Seq2[quota.Sum, error] {
	return func(yield func(quota.Sum, error) bool) {
		var sums decide.Sums
		labels := map[int64]label{}
		from, until := decide.Between(query)
		for from < until {
			var page sumPage
			err := l.read(ctx, func(t *tx) {
				page = t.sumPage(query, from, until)
				t.fillLabels(&page, labels)
			})
			if err != nil {
				yield(quota.Sum{}, err)
				return
			}
			for i := range page.sums {
				sums.Add(&page.sums[i])
			}
			from = page.next
		}
		sums.Yield(yield)
	}
}

// sumPage holds the sums of consecutive entries.
type sumPage struct {
	sums   []quota.Sum
	labels []int64 // one for each of sums
	next   int64   // where the next page begins
}

// sumPage reads the first block of sums if it begins at from, and otherwise
// sums the entries before it.
func (t *tx) sumPage(query quota.Query, from, until int64) sumPage {
	row := t.queryRow("log", query.Account, query.Key)
	if row == nil {
		return sumPage{next: until}
	}
	log, oldest := integer(row[0]), integer(row[3])-decide.Retain(integer(row[1]))+1
	from = max(from, oldest)
	if block := t.queryRow("sums-next", log, from); block != nil {
		since, end := integer(block[0]), integer(block[1])
		switch {
		case end > until: // the query selects only part of the block
		case since == from:
			page := t.readBlock(log, since)
			page.next = end
			return page
		default:
			until = since
		}
	}
	return t.sumEntries(log, from, until)
}

func (t *tx) readBlock(log, since int64) (page sumPage) {
	t.query("sums-block", func(row []driver.Value) {
		page.labels = append(page.labels, integer(row[0]))
		page.sums = append(page.sums, quota.Sum{
			Kind:    quota.EntryKind(integer(row[1])),
			Entries: integer(row[2]),
			Units:   quota.Units(integer(row[3])),
			Calls:   quota.Units(integer(row[4])),
			First:   decide.Time(integer(row[5])),
			Last:    decide.Time(integer(row[6])),
		})
	}, log, since)
	return page
}

// sumEntries adds up a page of entries. It groups them here, because SQLite
// would sort them first, which takes three times as long. A row has few
// columns, because each takes a seventh of the time.
func (t *tx) sumEntries(log, from, until int64) sumPage {
	page := sumPage{next: until}
	entries := 0
	stamp := int64(0)
	places := map[int64]int{}
	t.query("sums-page", func(row []driver.Value) {
		stamp = integer(row[0])
		entries++
		in := integer(row[3]) // the label, and the kind in the last byte
		place, known := places[in]
		if !known {
			place = len(page.sums)
			places[in] = place
			page.labels = append(page.labels, in>>8)
			page.sums = append(page.sums, quota.Sum{Kind: quota.EntryKind(in & 255), First: decide.Time(stamp)})
		}
		sum := &page.sums[place]
		sum.Entries++
		sum.Units += quota.Units(integer(row[1]))
		sum.Calls += quota.Units(integer(row[2]))
		sum.Last = decide.Time(stamp)
	}, log, from, until, int64(sumsPage))
	if entries == sumsPage {
		page.next = stamp + 1
	}
	return page
}

// fillLabels sets the method and caller of the sums of a page. It caches labels
// in known.
func (t *tx) fillLabels(page *sumPage, known map[int64]label) {
	for i, id := range page.labels {
		words, ok := known[id]
		if !ok {
			if row := t.queryRow("label-words", id); row != nil {
				words = label{text(row[0]), quota.Caller{Lane: text(row[1]), Job: text(row[2]), Region: text(row[3])}}
				known[id] = words
			}
		}
		page.sums[i].Method, page.sums[i].Caller = words.method, words.caller
	}
}

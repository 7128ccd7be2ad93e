package redisledger

import (
	"context"
	"fmt"
	"iter"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// Sums implements quota.Ledger. It reads the records and adds them up in
// this process, so that a long log takes little of the server's time.
// Records are cached for a few seconds, because a report asks for many sums
// of the same log.
func (l *Ledger) Sums(ctx context.Context, query quota.Query) iter.Seq2[quota.Sum, error] {
	return func(yield func(quota.Sum, error) bool) {
		s := &sumReader{ledger: l, ctx: ctx, query: query, names: l.names(query.Account, query.Key), table: &sumTable{}}
		var sums *decide.Sums
		var err error
		if query.Key == "" && l.sums.mu.TryLock() {
			s.cache = &l.sums
			sums, err = s.sums()
			l.sums.dials = l.dials.Load() // reading ahead may need several connections
			l.sums.mu.Unlock()
		} else {
			sums, err = s.sums()
		}
		if err != nil {
			yield(quota.Sum{}, err)
			return
		}
		sums.Yield(yield)
	}
}

// sumReader is one call of Sums.
type sumReader struct {
	ledger *Ledger
	ctx    context.Context
	query  quota.Query
	names  names
	cache  *sumCache // nil without one

	from, until int64     // the range of stamps not yet read
	end         int64     // the end of what is read now: until, or where a cached span begins
	pages       readAhead // a page begins one record before the first not yet read
	labelled    int64     // records from this stamp on have known labels
	settled     int64     // records before this stamp do not change while the head stays
	span        span      // what is read now, for the cache

	table  *sumTable
	totals []sumTotal // by the group's number
}

// sumTotal is the sum of a group.
type sumTotal struct{ entries, units, first, last int64 }

func (s *sumReader) sums() (*decide.Sums, error) {
	if err := (&quota.Batch{Account: s.query.Account, Key: s.query.Key}).Check(); err != nil {
		return nil, err
	}
	s.from, s.until = decide.Between(s.query)
	s.pages.read = s.records
	defer s.pages.stop()
	for more, placed := true, false; more; {
		var err error
		if placed {
			more, placed, err = s.page()
		} else {
			more, placed, err = s.locate()
		}
		if err != nil {
			return nil, err
		}
	}
	return s.named()
}

// locate adds what the cache has of the records not yet read or, if that begins
// with none of them, finds their place.
func (s *sumReader) locate() (more, placed bool, err error) {
	reply, head, err := s.ledger.readLog(s.ctx, s.query, decide.Page{From: s.from, Until: s.until}, readPlace)
	if err != nil || !reply.more() {
		return false, false, err
	}
	place, expected := reply.number(), reply.number()
	s.from = reply.number()
	s.labelled = reply.number()
	s.settled = reply.number()
	if reply.bad {
		return false, false, s.ledger.failed(errMalformed, config, false)
	}
	s.end = s.until
	if s.useCache(head) {
		before := s.from
		s.addCached()
		if s.from > before {
			return s.from < s.until, false, nil
		}
	}
	s.span = span{since: s.from}
	s.pages.restart(max(place-1, 0), expected)
	return true, true, nil
}

// useCache reports whether there is a cache for a head. If the head has changed
// since the first records were added, there is none any more.
func (s *sumReader) useCache(head string) bool {
	switch {
	case s.cache == nil:
		return false
	case len(s.totals) == 0:
		s.cache.begin(s.query.Account, head, s.ledger.dials.Load())
		s.table = s.cache.table
	case s.cache.head != head:
		s.cache = nil
	}
	return s.cache != nil
}

// addCached adds the records from the first on that the cache has without
// a gap.
func (s *sumReader) addCached() {
	for s.from < s.until {
		has, next := s.cache.find(s.from)
		if has == nil {
			s.end = min(s.until, next)
			return
		}
		has.records(s.from, s.until, s.add)
		s.from = min(has.until, s.until)
	}
}

// page adds up the next records. If the first record of the page is in the
// range too, the list was trimmed since, and the place must be found again.
func (s *sumReader) page() (more, placed bool, err error) {
	page := s.pages.next()
	if page.err != nil {
		return false, false, page.err
	}
	if len(page.records) == 0 {
		s.cacheRecords(sumPage{}, false)
		return page.first > 0, false, nil
	}
	more, placed = page.full(), true
	sums := sumPage{records: make([]sumRecord, 0, len(page.records))}
	for i, packed := range page.records {
		r, ok := readRecord(packed)
		if !ok {
			return false, false, s.ledger.failed(errMalformed, config, false)
		}
		if i == 0 && page.first > 0 && r.stamp >= s.from {
			more, placed = true, false
			break
		}
		if r.stamp >= s.end {
			s.from = s.end
			more, placed = s.end < s.until, false
			break
		}
		if r.stamp >= s.from && r.label != 0 {
			if !sums.takes(r.stamp) {
				s.add(sums)
				s.cacheRecords(sums, true)
				sums.records = sums.records[len(sums.records):]
			}
			sums.add(r.stamp, s.group(&r), uint32(r.units))
			s.from = r.stamp + 1
		}
	}
	s.add(sums)
	s.cacheRecords(sums, more && placed)
	return more, placed, nil
}

// group returns the number of a record's group.
func (s *sumReader) group(r *record) uint32 {
	in := sumGroup{label: r.label, kind: int64(r.kind), calls: int64(r.calls)}
	if r.stamp < s.labelled {
		in.label = 0
	}
	return s.table.number(in)
}

// add adds up records.
func (s *sumReader) add(page sumPage) {
	if more := len(s.table.groups) - len(s.totals); more > 0 {
		s.totals = append(s.totals, make([]sumTotal, more)...)
	}
	for i := range page.records {
		r := &page.records[i]
		total, stamp := &s.totals[r.group], page.since+int64(r.after)
		if total.entries == 0 {
			total.first = stamp
		}
		total.entries++
		total.units += int64(r.units)
		total.last = stamp
	}
}

// cacheRecords adds records to the span, and the span to the cache if it has no
// more or the cache is full.
func (s *sumReader) cacheRecords(page sumPage, more bool) {
	if s.cache == nil {
		return
	}
	if settled := page.between(page.since, s.settled); len(settled.records) > 0 {
		s.span.pages = append(s.span.pages, settled)
		s.cache.size += len(settled.records)
	}
	full := s.cache.size > maxCached
	if !more || full {
		s.span.until = min(s.from, s.settled)
		s.cache.add(s.span)
	}
	if full {
		s.cache = nil
	}
}

// named returns the sums with the method and caller of their labels.
func (s *sumReader) named() (*decide.Sums, error) {
	if err := s.readLabels(); err != nil {
		return nil, err
	}
	sums := &decide.Sums{}
	for n, total := range s.totals {
		if total.entries == 0 {
			continue
		}
		group := s.table.groups[n]
		of, known := s.table.labels[group.label]
		if !known {
			of = parseLabel("")
		}
		sums.Add(&quota.Sum{
			Kind: quota.EntryKind(group.kind), Method: of.method, Caller: of.caller,
			Entries: total.entries, Units: quota.Units(total.units), Calls: quota.Units(total.entries * group.calls),
			First: decide.Time(total.first), Last: decide.Time(total.last),
		})
	}
	return sums, nil
}

// readLabels reads the methods and callers of labels that the table does
// not have.
func (s *sumReader) readLabels() error {
	numbers := s.table.unread()
	if len(numbers) == 0 {
		return nil
	}
	line := []any{"hmget", s.names.meta}
	for _, number := range numbers {
		line = append(line, fmt.Sprint("l", number))
	}
	var reply *reply
	err := s.retry(func(ctx context.Context) error {
		value, err := s.ledger.send(ctx, line)
		reply = newReply(value)
		return err
	})
	if err != nil {
		return err
	}
	if s.table.labels == nil {
		s.table.labels = map[int64]label{}
	}
	for _, number := range numbers {
		words, _ := reply.next().(string)
		s.table.labels[number] = parseLabel(words)
	}
	return nil
}

// records reads the records from an index to another.
func (s *sumReader) records(first, last int64) (records []string, err error) {
	err = s.retry(func(ctx context.Context) error {
		cmd := redis.NewStringSliceCmd(ctx, "lrange", s.names.log, first, last)
		err := s.ledger.process(ctx, onceStrings{cmd})
		if err == nil {
			records = cmd.Val()
		}
		return err
	})
	return records, err
}

// retry sends a command that does not write until it is answered, as scripts
// are sent.
func (s *sumReader) retry(send func(context.Context) error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	within, cancel := s.ledger.bounded(s.ctx, patience)
	defer cancel()
	op := &scriptRunner{ledger: s.ledger, ctx: within}
	for {
		once, end := context.WithTimeout(within, patience/2)
		err := send(once)
		end()
		if err == nil {
			return nil
		}
		if _, err = op.after(&script{}, err); err != nil {
			return ended(s.ctx, err)
		}
	}
}

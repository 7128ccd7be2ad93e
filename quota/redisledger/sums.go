package redisledger

import (
	"context"
	"fmt"
	"iter"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// Sums implements quota.Ledger. It reads the records and adds them up in this
// process, so that a long log takes little of the server's time.
func (l *Ledger) Sums(ctx context.Context, query quota.Query) iter.Seq2[quota.Sum, error] {
	return func(yield func(quota.Sum, error) bool) {
		s := &sumReader{ledger: l, ctx: ctx, query: query, names: l.names(query.Account, query.Key), groups: map[sumKey]*quota.Sum{}}
		sums, err := s.sums()
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

	from, until int64     // the range of stamps not yet read
	pages       readAhead // a page begins one record before the first not yet read
	labelled    int64     // records from this stamp on have known labels

	groups map[sumKey]*quota.Sum
	key    sumKey     // of the last record, often that of the next one too
	sum    *quota.Sum // of that key
}

// sumKey is what the records of one sum share.
type sumKey struct {
	label  int64 // 0 if unknown
	kind   int64 // a quota.EntryKind; as wide as the others, which hashes in half the time
	client uint64
}

func (s *sumReader) sums() (*decide.Sums, error) {
	if err := (&quota.Batch{Account: s.query.Account, Key: s.query.Key}).Check(); err != nil {
		return nil, err
	}
	s.from, s.until = decide.Between(s.query)
	s.pages.read = s.records
	defer s.pages.stop()
	for more, placed := true, false; more; {
		var err error
		if !placed {
			placed, err = s.locate()
			more = placed
		} else {
			more, placed, err = s.page()
		}
		if err != nil {
			return nil, err
		}
	}
	return s.named()
}

// locate finds the place of the first record not yet read. It reports false if
// there is none.
func (s *sumReader) locate() (bool, error) {
	reply, err := s.ledger.readLog(s.ctx, s.query, decide.Page{From: s.from, Until: s.until}, readPlace)
	if err != nil || !reply.more() {
		return false, err
	}
	place := reply.number()
	s.from, s.labelled = reply.number(), reply.number()
	if reply.bad {
		return false, s.ledger.failed(errMalformed, config, false)
	}
	s.pages.restart(max(place-1, 0))
	return true, nil
}

// page adds up the next records. If the first record of the page is in the range
// too, the list was trimmed since, and the place must be found again.
func (s *sumReader) page() (more, placed bool, err error) {
	page := s.pages.next()
	if page.err != nil {
		return false, false, page.err
	}
	if len(page.records) == 0 {
		return page.first > 0, false, nil
	}
	for i, packed := range page.records {
		r, ok := readRecord(packed)
		switch {
		case !ok:
			return false, false, s.ledger.failed(errMalformed, config, false)
		case i == 0 && page.first > 0 && r.stamp >= s.from:
			return true, false, nil
		case r.stamp >= s.until:
			return false, true, nil
		case r.stamp >= s.from && r.label != 0:
			s.add(&r)
			s.from = r.stamp + 1
		}
	}
	return page.full(), true, nil
}

func (s *sumReader) add(r *record) {
	in := sumKey{label: r.label, kind: int64(r.kind)}
	if r.stamp < s.labelled {
		in.label = 0
	}
	if s.query.PerClient {
		in.client = r.id.Client
	}
	if s.sum == nil || in != s.key {
		s.key, s.sum = in, s.groups[in]
		if s.sum == nil {
			s.sum = &quota.Sum{Kind: r.kind, Client: in.client, First: decide.Time(r.stamp)}
			s.groups[in] = s.sum
		}
	}
	s.sum.Entries++
	s.sum.Units += r.units
	s.sum.Calls += r.calls
	s.sum.Last = decide.Time(r.stamp)
}

// named returns the sums with the method and caller of their labels.
func (s *sumReader) named() (*decide.Sums, error) {
	labels, sums := map[int64]label{}, &decide.Sums{}
	for in := range s.groups {
		labels[in.label] = parseLabel("")
	}
	delete(labels, 0)
	if err := s.readLabels(labels); err != nil {
		return nil, err
	}
	for in, sum := range s.groups {
		of, known := labels[in.label]
		if !known {
			of = parseLabel("")
		}
		sum.Method, sum.Caller = of.method, of.caller
		sums.Add(sum)
		delete(s.groups, in) // there may be many
	}
	return sums, nil
}

// readLabels reads the methods and callers of labels.
func (s *sumReader) readLabels(labels map[int64]label) error {
	var numbers []int64
	line := []any{"hmget", s.names.meta}
	for number := range labels {
		numbers, line = append(numbers, number), append(line, fmt.Sprint("l", number))
	}
	if len(numbers) == 0 {
		return nil
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
	for _, number := range numbers {
		if words, ok := reply.next().(string); ok {
			labels[number] = parseLabel(words)
		}
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

// retry sends a command that does not write until it is answered, as scripts are
// sent.
func (s *sumReader) retry(send func(context.Context) error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	within, cancel := context.WithTimeout(s.ctx, patience)
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

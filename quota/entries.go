package quota

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/engine"
)

// Entries yields the entries that query selects, in the order of their
// timestamps. It stops after yielding an error.
func (g *Guard) Entries(ctx context.Context, query Query) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		isWanted := true
		err := g.stream(ctx, query, func(e Entry) bool { isWanted = yield(e, nil); return isWanted })
		if err != nil && isWanted {
			yield(Entry{}, err)
		}
	}
}

// each calls add with the entries that a query selects, while the fold stands
// still.
func (g *Guard) each(ctx context.Context, query Query, add func(Entry)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if query.Past {
		return g.stream(ctx, query, func(e Entry) bool { add(e); return true })
	}
	since, until := query.micros()
	return g.Account(query.Account).View(ctx, func(v *engine.View) {
		added := 0
		v.Entries(since, until, query.Newest, func(e engine.Entry) bool {
			if query.Key == "" || e.Labels.Key == query.Key {
				add(entryOf(e))
				added++
			}
			return query.Limit == 0 || added < query.Limit
		})
	})
}

// stream is each, but that the fold need not stand still meanwhile, and that it
// stops once add returns false. For a query with Past, it adds first what the
// host's copy has from before the oldest entry that the log has.
func (g *Guard) stream(ctx context.Context, query Query, add func(Entry) bool) error {
	var present []Entry
	hasPast := query.Past
	query.Past = false
	if err := g.each(ctx, query, func(e Entry) { present = append(present, e) }); err != nil {
		return err
	}
	more, err := true, error(nil)
	if hasPast {
		since, until := query.micros()
		if len(present) > 0 {
			until = present[0].At.UnixMicro()
		}
		err = g.Account(query.Account).Past(since, until, func(e engine.Entry) bool {
			isOther := query.Key != "" && e.Labels.Key != query.Key
			more = ctx.Err() == nil && (isOther || add(entryOf(e)))
			return more
		})
		err = cmp.Or(err, ctx.Err())
	}
	for i := 0; i < len(present) && more && err == nil; i++ {
		err = ctx.Err()
		more = err == nil && add(present[i])
	}
	return err
}

// Trimmed reports whether an account's log has dropped its oldest entries,
// which no window can see.
func (g *Guard) Trimmed(ctx context.Context, account string) (isTrimmed bool, err error) {
	err = g.Account(account).View(ctx, func(v *engine.View) { isTrimmed = v.Trimmed() })
	return isTrimmed, opError("log of "+account, err)
}

// SettleEntry changes what an entry of any process counts for, and ends its
// lease. Zero amounts are a refund. It is a no-op if the log does not have the
// entry.
func (g *Guard) SettleEntry(ctx context.Context, account string, id ID, to Amounts) error {
	if err := to.check(); err != nil {
		return err
	}
	return g.Account(account).Settle(ctx, engine.ID(id), to.engineAmounts())
}

// micros returns the range of timestamps that a query selects.
func (q *Query) micros() (since, until int64) {
	since, until = 0, engine.Never
	if !q.Since.IsZero() {
		since = ceilMicros(q.Since)
	}
	if !q.Until.IsZero() {
		until = ceilMicros(q.Until)
	}
	return since, until
}

// ceilMicros returns the first microsecond at or after a time.
func ceilMicros(t time.Time) int64 {
	return t.Add(time.Microsecond - time.Nanosecond).UnixMicro()
}

// entryOf returns an entry of the engine as callers see it.
func entryOf(e engine.Entry) Entry {
	entry := Entry{At: ledgerTime(e.At), ID: ID(e.ID), Key: e.Labels.Key, Host: e.Labels.Host, Method: e.Labels.Method,
		Units: Units(e.Amounts.Units), Calls: Units(e.Amounts.Calls), Measures: amountsOf(e.Amounts).Named,
		Caller: callerOf(e.Labels), Open: e.LeaseEnd > 0 && !e.Settled}
	budget, isRefused := strings.CutPrefix(e.Name, refusedName)
	switch {
	case isRefused:
		entry.Kind, entry.Budget = EntryRefused, budget
	case e.Note && e.Name == correctionName:
		entry.Kind = EntryCorrection
	case e.Note:
		entry.Kind = EntryNote
	case e.Settled && e.Amounts.IsZero():
		entry.Kind = EntryRefunded
	}
	return entry
}

// Sums adds up the entries that query selects and yields each Sum, in no
// particular order. It yields either all sums or only an error.
func (g *Guard) Sums(ctx context.Context, query Query) iter.Seq2[Sum, error] {
	return func(yield func(Sum, error) bool) {
		type sumID struct {
			kind   EntryKind
			method string
			caller Caller
			ofKeys bool
			host   string
		}
		sums := map[sumID]*Sum{}
		err := g.each(ctx, query, func(e Entry) {
			id := sumID{e.Kind, e.Method, e.Caller, e.Key != "", e.Host}
			sum := sums[id]
			if sum == nil {
				sum = &Sum{Kind: e.Kind, Method: e.Method, Caller: e.Caller, OfKeys: id.ofKeys, Host: e.Host,
					First: e.At, Last: e.At}
				sums[id] = sum
			}
			if e.At.Before(sum.First) {
				sum.First = e.At
			}
			if e.At.After(sum.Last) {
				sum.Last = e.At
			}
			sum.Entries++
			all := sum.Amounts().Plus(e.Amounts())
			sum.Units, sum.Calls = all.Units, all.Calls
			sum.Measures = all.Named
		})
		if err != nil {
			yield(Sum{}, err)
			return
		}
		for _, sum := range sums {
			if !yield(*sum, nil) {
				return
			}
		}
	}
}

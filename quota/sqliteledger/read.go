package sqliteledger

import (
	"context"
	"database/sql/driver"
	"iter"
	"math"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// maxReason bounds what is kept of an upstream's words, in bytes.
const maxReason = 200

// ceilMicro returns the first whole microsecond that is not before an instant.
func ceilMicro(t time.Time) int64 {
	return t.Add(time.Microsecond - time.Nanosecond).UnixMicro()
}

// Standings implements quota.Ledger.
func (l *Ledger) Standings(ctx context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	standings := make([]quota.Standing, len(charges))
	err := l.read(ctx, func(t *tx) {
		g := t.load(logName{account, key})
		for i, charge := range charges {
			standings[i] = t.standing(g, charge)
		}
	})
	if err != nil {
		return nil, err
	}
	return standings, nil
}

func (t *tx) standing(g *log, charge *quota.Charge) quota.Standing {
	q, s := t.question(charge), quota.Standing{At: instant(t.now)}
	list := t.readList(g, charge)
	var used, since, free int64
	if charge.Window.Estimate() {
		used, _ = q.Estimate(list, 0)
		free = q.EstimateFree(list)
	} else {
		used, since = q.Used(list)
		free = q.NextFree(list)
	}
	s.Used = quota.Units(used)
	if since != 0 {
		s.Since = instant(since)
	}
	if free != 0 {
		s.NextFree = instant(free)
	}
	for _, name := range []string{charge.Budget, ""} {
		if c := g.cooldown(name, t.now); c != nil && (s.Cooldown == nil || c.Until.After(s.Cooldown.Until)) {
			s.Cooldown = c
		}
	}
	return s
}

// readList returns the list of a charge's coverage, and makes none.
func (t *tx) readList(g *log, charge *quota.Charge) interface {
	decide.List
	decide.Counts
} {
	horizon := charge.Window.Horizon().Microseconds()
	l := g.lists[charge.Coverage.Key()]
	switch {
	case g.id() == 0:
		return computed(nil)
	case l == g.all, l != nil && l.horizon >= horizon:
		return view{t, l}
	}
	return t.compute(g.id(), charge.Coverage, t.now-decide.Retain(horizon))
}

// pageSize is how many entries are read in one transaction.
const pageSize = 500

// Entries implements quota.Ledger.
func (l *Ledger) Entries(ctx context.Context, query quota.Query) iter.Seq2[quota.Entry, error] {
	return func(yield func(quota.Entry, error) bool) {
		from, until := int64(math.MinInt64), int64(math.MaxInt64)
		if !query.Since.IsZero() {
			from = ceilMicro(query.Since)
		}
		if !query.Until.IsZero() {
			until = ceilMicro(query.Until)
		}
		for {
			page, err := l.page(ctx, logName{query.Account, query.Key}, from, until)
			if err != nil {
				yield(quota.Entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
			from = page[len(page)-1].At.UnixMicro() + 1
		}
	}
}

// page reads the next entries, so that no transaction is open while the
// caller looks at them.
func (l *Ledger) page(ctx context.Context, name logName, from, until int64) ([]quota.Entry, error) {
	var page []quota.Entry
	err := l.read(ctx, func(t *tx) {
		page = page[:0]
		row := t.one("log", name.account, name.key)
		if row == nil {
			return
		}
		id, oldest := integer(row[0]), integer(row[2])-decide.Retain(integer(row[1]))+1
		t.each("page", func(row []driver.Value) {
			page = append(page, quota.Entry{At: instant(integer(row[0])),
				ID:    quota.ID{Client: uint64(integer(row[1])), Seq: uint64(integer(row[2]))},
				Units: quota.Units(integer(row[3])), Calls: quota.Units(integer(row[4])), Method: text(row[5]),
				Caller: quota.Caller{Lane: text(row[6]), Job: text(row[7]), Region: text(row[8])}})
		}, id, max(from, oldest), until, int64(pageSize))
	})
	return page, err
}

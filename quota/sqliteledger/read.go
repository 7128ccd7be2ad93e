package sqliteledger

import (
	"context"
	"database/sql/driver"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// Standings implements quota.Ledger.
func (l *Ledger) Standings(ctx context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	standings := make([]quota.Standing, len(charges))
	err := l.read(ctx, func(t *tx) {
		g := t.load(logName{account, key})
		judge, limits := t.judge(g.name), t.loadLimits(account)
		for i, charge := range charges {
			standings[i] = judge.Standing(&readOnly{txLog{t, g}, limits}, charge)
			if doubt := time.Duration(t.wall-judge.Now) * time.Microsecond; doubt > 0 {
				standings[i].Doubt = doubt
				if standings[i].Ahead -= doubt; standings[i].Ahead <= quota.MaxStepBack {
					standings[i].Ahead = 0
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return standings, nil
}

// readOnly is a txLog that adds no lists, counters and limits to its log.
type readOnly struct {
	txLog
	loaded *decide.Limits
}

// List implements decide.Log.
func (o *readOnly) List(coverage *quota.Coverage, window *quota.Window) decide.List {
	g, horizon := o.of, window.Horizon().Microseconds()
	if window.Estimate() {
		length := window.Length().Microseconds()
		if c := g.findCounter(coverage, length); c != nil {
			return &c.Counter
		}
		c := &decide.Counter{Length: length}
		o.fillCounter(g, c, coverage)
		return c
	}
	l := g.lists[coverage.Key()]
	switch {
	case g.id == 0:
		return computedList(nil)
	case l == g.all, l != nil && l.use.Horizon() >= horizon:
		return view{o.tx, l}
	}
	return o.computeList(g.id, coverage, o.now-decide.Retain(horizon))
}

// pageSize is how many entries are read in one transaction.
const pageSize = 500

// Entries implements quota.Ledger. It reads each page in a transaction of
// its own.
func (l *Ledger) Entries(ctx context.Context, query quota.Query) iter.Seq2[quota.Entry, error] {
	return decide.Pages(query, pageSize, func(p decide.Page) (page []quota.Entry, err error) {
		name := "page"
		if p.Newest {
			name = "page-newest"
		}
		err = l.read(ctx, func(t *tx) {
			page = page[:0]
			row := t.queryRow("log", query.Account, query.Key)
			if row == nil {
				return
			}
			id, oldest := integer(row[0]), integer(row[3])-decide.Retain(integer(row[1]))+1
			t.query(name, func(row []driver.Value) { page = append(page, readEntry(row)) }, id, max(p.From, oldest), p.Until, int64(p.Most))
		})
		if p.Newest {
			slices.Reverse(page)
		}
		return page, err
	})
}

// readEntry converts a row of a page.
func readEntry(row []driver.Value) quota.Entry {
	return quota.Entry{
		At:     decide.Time(integer(row[0])),
		ID:     quota.ID{Client: uint64(integer(row[1])), Seq: uint64(integer(row[2]))},
		Units:  quota.Units(integer(row[3])),
		Calls:  quota.Units(integer(row[4])),
		Kind:   quota.EntryKind(integer(row[5])),
		Method: text(row[6]),
		Caller: quota.Caller{Lane: text(row[7]), Job: text(row[8]), Region: text(row[9])},
	}
}

// Cooldowns implements quota.Ledger.
func (l *Ledger) Cooldowns(ctx context.Context, account string) (active []quota.Cooldown, err error) {
	err = l.read(ctx, func(t *tx) {
		name := logName{account, ""}
		active = t.judge(name).ActiveCooldowns(maps.Values(t.load(name).cooldowns))
	})
	return active, err
}

// Accounts implements quota.Ledger.
func (l *Ledger) Accounts(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		var accounts []string
		err := l.read(ctx, func(t *tx) {
			accounts = accounts[:0]
			t.query("accounts-cooled", func(row []driver.Value) { accounts = append(accounts, text(row[0])) })
		})
		if err != nil {
			yield("", err)
			return
		}
		for _, account := range accounts {
			if !yield(account, nil) {
				return
			}
		}
	}
}

// Keys implements quota.Ledger.
func (l *Ledger) Keys(ctx context.Context, account string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for last := ""; ; { // the empty key is the account's own log
			var page []string
			err := l.read(ctx, func(t *tx) {
				page = page[:0]
				t.query("keys", func(row []driver.Value) { page = append(page, text(row[0])) }, account, last, int64(pageSize))
			})
			if err != nil {
				yield("", err)
				return
			}
			for _, key := range page {
				if !yield(key, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
			last = page[len(page)-1]
		}
	}
}

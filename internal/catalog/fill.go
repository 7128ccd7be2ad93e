package catalog

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
	"unique"
)

// Fill is how far the history of one budget has been read from the log. Times
// are microseconds since the Unix epoch. The zero Fill is that of a budget
// without a history.
type Fill struct {
	Live  int64         // slices hold what the log says since then
	Until int64         // every earlier entry was read; 0: none was
	Whole int64         // when all slices were read last
	Width time.Duration // of slices

	// First is when the first slice begins, in milliseconds since the Unix
	// epoch; 0 if there is none. PutFill ignores it.
	First int64

	version int64
}

// SumKey says to which day and slice a sum belongs, as milliseconds since the
// Unix epoch at which they begin, and whose it is. A Fill has up to millions
// of keys, so they share their labels.
type SumKey struct {
	Day, Slice int64
	Labels     unique.Handle[SumLabels]
}

// SumLabels say whose a sum is.
type SumLabels struct{ Method, Region, Job, Lane string } // "-" for none

// SumAmount is what was spent.
type SumAmount struct{ Units, Calls int64 }

// DayPeak is a day of a budget and the most that the window held.
type DayPeak struct {
	Day  int64 // milliseconds since the Unix epoch
	Date string
	Peak int64
}

// DayRefusals is how many calls were refused on one day.
type DayRefusals struct {
	Account, Budget           string
	Day                       int64 // milliseconds since the Unix epoch
	Date                      string
	Method, Region, Job, Lane string // "-" for none
	Count                     int64
}

// FillUpdate changes the history of one budget.
type FillUpdate struct {
	Account, Budget string // Budget is "" for the whole account
	Before, After   Fill   // Before is as ReadFill returned it

	Fold int64                // slices that begin before it are not changed any more; milliseconds
	Sums map[SumKey]SumAmount // that are new or have changed
	Gone []SumKey
	Days []DayPeak
}

// ReadFill returns how far the history of a budget has been read.
func (c *Catalog) ReadFill(ctx context.Context, account, budget string) (f Fill, err error) {
	var width int64
	err = c.queries["fill"].QueryRowContext(ctx, account, budget).Scan(&f.version, &f.Live, &f.Until, &width, &f.Whole,
		&f.First)
	f.Width = time.Duration(width) * time.Microsecond
	if errors.Is(err, sql.ErrNoRows) {
		return Fill{}, nil
	}
	return f, c.wrap("read the history", err)
}

// LiveSums calls each for the sums in slices that begin at from or later.
func (c *Catalog) LiveSums(ctx context.Context, account, budget string, from int64,
	each func(SumKey, SumAmount)) error {
	rows, err := c.queries["live_sums"].QueryContext(ctx, account, budget, from)
	err = eachRow(rows, err, func() error {
		var k SumKey
		var l SumLabels
		var a SumAmount
		err := rows.Scan(&k.Day, &k.Slice, &l.Method, &l.Region, &l.Job, &l.Lane, &a.Units, &a.Calls)
		k.Labels = unique.Make(l)
		each(k, a)
		return err
	})
	return c.wrap("read the history", err)
}

// PutFill applies updates in one transaction. It returns ErrMoved, and changes
// nothing, if another process has changed one of the histories since ReadFill.
// It deletes days that are older than HistoryRetention.
func (c *Catalog) PutFill(ctx context.Context, updates []FillUpdate) error {
	return c.write(ctx, "fill the history", func(b *transaction) error {
		for i := range updates {
			if err := b.putFill(&updates[i]); err != nil {
				return err
			}
		}
		old := c.now().Add(-HistoryRetention).UnixMilli()
		for _, name := range []string{"prune_day_sums", "prune_day_refusals", "prune_days", "prune_day_files"} {
			b.exec(name, old)
		}
		return nil
	})
}

func (b *transaction) putFill(u *FillUpdate) error {
	var version int64
	err := b.queryRow("fill_version", u.Account, u.Budget).Scan(&version)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if version != u.Before.version {
		return ErrMoved
	}
	for _, name := range []string{"fold_sums", "drop_folded_sums"} {
		b.exec(name, u.Account, u.Budget, u.Fold)
	}
	for _, k := range u.Gone {
		l := k.Labels.Value()
		b.exec("drop_sum", u.Account, u.Budget, k.Day, k.Slice, l.Method, l.Region, l.Job, l.Lane)
	}
	if err := b.putSums(u); err != nil {
		return err
	}
	for _, d := range u.Days {
		b.exec("put_day", u.Account, u.Budget, d.Day, d.Date, d.Peak)
	}
	b.exec("put_fill", u.Account, u.Budget, u.After.Live, u.After.Until, u.After.Width.Microseconds(), u.After.Whole)
	return nil
}

// maxRows is how many sums one statement writes: that takes a third of the time
// of a statement for each.
const maxRows = 500

// putSums writes sums in the order of their keys, in which SQLite stores them.
// In the order of a map, each would be on another page of the file.
func (b *transaction) putSums(u *FillUpdate) error {
	const head,
		tail = "INSERT INTO day_sums (account, budget, day, slice, method, region, job, lane, units, calls) VALUES ",
		" ON CONFLICT DO UPDATE SET units = excluded.units, calls = excluded.calls"
	var stmt *sql.Stmt
	for keys := range slices.Chunk(slices.SortedFunc(maps.Keys(u.Sums), compareKeys), maxRows) {
		if stmt == nil || len(keys) < maxRows {
			var err error
			if stmt, err = b.tx.PrepareContext(b.ctx,
				head+strings.Repeat(", (?1, ?2, ?, ?, ?, ?, ?, ?, ?, ?)", len(keys))[2:]+tail); err != nil {
				return err
			}
		}
		values := []any{u.Account, u.Budget}
		for _, k := range keys {
			l, a := k.Labels.Value(), u.Sums[k]
			values = append(values, k.Day, k.Slice, l.Method, l.Region, l.Job, l.Lane, a.Units, a.Calls)
		}
		if _, err := stmt.ExecContext(b.ctx, values...); err != nil {
			return cmp.Or(b.ctx.Err(), err) // the end of ctx closes the statement
		}
	}
	return nil
}

func compareKeys(x, y SumKey) int {
	if order := cmp.Or(cmp.Compare(x.Day, y.Day), cmp.Compare(x.Slice, y.Slice)); order != 0 {
		return order
	}
	a, b := x.Labels.Value(), y.Labels.Value()
	return cmp.Or(strings.Compare(a.Method, b.Method), strings.Compare(a.Region, b.Region),
		strings.Compare(a.Job, b.Job), strings.Compare(a.Lane, b.Lane))
}

// AddRefusals adds the refusals that a file holds after its first bytes, once:
// it calls read with how much of the file was added before. read returns the
// refusals after that and how much it has read.
func (c *Catalog) AddRefusals(ctx context.Context, file string,
	read func(from int64) ([]DayRefusals, int64, error)) error {
	return c.write(ctx, "add refusals", func(b *transaction) error {
		var from int64
		if err := b.queryRow("file_read", file).Scan(&from); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		all, until, err := read(from)
		if err != nil || until == from {
			return err
		}
		for i := range all {
			r := &all[i]
			b.exec("put_day", r.Account, r.Budget, r.Day, r.Date, 0)
			b.exec("add_refusals", r.Account, r.Budget, r.Day, r.Method, r.Region, r.Job, r.Lane, r.Count)
		}
		b.exec("put_file_read", file, until, c.now().UnixMilli())
		return nil
	})
}

package catalog

import (
	"context"
	"database/sql"
	"errors"
	"time"
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
// Unix epoch at which they begin, and whose it is.
type SumKey struct {
	Day, Slice                int64
	Method, Region, Job, Lane string // "-" for none
}

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

	Fold int64 // slices that begin before it are not changed any more; milliseconds
	From int64 // slices that begin at it or later are replaced by Sums; milliseconds
	Sums map[SumKey]SumAmount
	Days []DayPeak
}

// ReadFill returns how far the history of a budget has been read.
func (c *Catalog) ReadFill(ctx context.Context, account, budget string) (f Fill, err error) {
	var width int64
	err = c.queries["fill"].QueryRowContext(ctx, account, budget).Scan(&f.version, &f.Live, &f.Until, &width, &f.Whole, &f.First)
	f.Width = time.Duration(width) * time.Microsecond
	if errors.Is(err, sql.ErrNoRows) {
		return Fill{}, nil
	}
	return f, c.wrap("read the history", err)
}

// LiveSums returns the sums in slices that begin at from or later.
func (c *Catalog) LiveSums(ctx context.Context, account, budget string, from int64) (map[SumKey]SumAmount, error) {
	sums := map[SumKey]SumAmount{}
	rows, err := c.queries["live_sums"].QueryContext(ctx, account, budget, from)
	err = eachRow(rows, err, func() error {
		var k SumKey
		var a SumAmount
		err := rows.Scan(&k.Day, &k.Slice, &k.Method, &k.Region, &k.Job, &k.Lane, &a.Units, &a.Calls)
		sums[k] = a
		return err
	})
	return sums, c.wrap("read the history", err)
}

// PutFill applies updates in one transaction. It returns ErrMoved, and changes
// nothing, if another process has changed one of the histories since ReadFill.
// It deletes days that are older than HistoryRetention.
func (c *Catalog) PutFill(ctx context.Context, updates []FillUpdate) error {
	return c.wrap("fill the history", c.write(ctx, func(b *transaction) error {
		for i := range updates {
			if err := b.putFill(&updates[i]); err != nil {
				return err
			}
		}
		old := c.now().Add(-HistoryRetention).UnixMilli()
		for _, name := range []string{"prune_day_sums", "prune_day_refusals", "prune_days", "prune_day_files"} {
			if _, err := b.exec(name, old); err != nil {
				return err
			}
		}
		return nil
	}))
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
	for _, step := range []struct {
		name string
		at   int64
	}{{"fold_sums", u.Fold}, {"drop_folded_sums", u.Fold}, {"drop_live_sums", u.From}} {
		if _, err := b.exec(step.name, u.Account, u.Budget, step.at); err != nil {
			return err
		}
	}
	for k, a := range u.Sums {
		if _, err := b.exec("put_sum", u.Account, u.Budget, k.Day, k.Slice, k.Method, k.Region, k.Job, k.Lane, a.Units, a.Calls); err != nil {
			return err
		}
	}
	for _, d := range u.Days {
		if _, err := b.exec("put_day", u.Account, u.Budget, d.Day, d.Date, d.Peak); err != nil {
			return err
		}
	}
	_, err = b.exec("put_fill", u.Account, u.Budget, u.After.Live, u.After.Until, u.After.Width.Microseconds(), u.After.Whole)
	return err
}

// AddRefusals adds the refusals that a file holds after its first bytes, once:
// it calls read with how much of the file was added before. read returns the
// refusals after that and how much it has read.
func (c *Catalog) AddRefusals(ctx context.Context, file string, read func(from int64) ([]DayRefusals, int64, error)) error {
	return c.wrap("add refusals", c.write(ctx, func(b *transaction) error {
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
			if _, err := b.exec("put_day", r.Account, r.Budget, r.Day, r.Date, 0); err != nil {
				return err
			}
			if _, err := b.exec("add_refusals", r.Account, r.Budget, r.Day, r.Method, r.Region, r.Job, r.Lane, r.Count); err != nil {
				return err
			}
		}
		_, err = b.exec("put_file_read", file, until, c.now().UnixMilli())
		return err
	}))
}

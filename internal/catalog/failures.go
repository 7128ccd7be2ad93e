package catalog

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Failures says how often in a row a page was paid for and not saved, by one
// step of a region or by all steps that call a method. Commit resets it.
type Failures struct {
	Region string // "" for a method
	Name   string // of the step or the method
	Count  int
	Until  time.Time // not to be tried again before
	Reason string    // of the last failure
}

// ChangeFailures lets change read and change the failures of a region's step
// and of its method, in one transaction. Failures whose Count is 0 are deleted.
// If change returns an error, nothing is changed and ChangeFailures returns it.
func (c *Catalog) ChangeFailures(ctx context.Context, region, step, method string,
	change func(own, all *Failures) error) error {
	return c.write(ctx, "count the failures of "+region+" "+step, func(b *transaction) error {
		own, all := Failures{Region: region, Name: step}, Failures{Name: method}
		for _, f := range []*Failures{&own, &all} {
			if err := b.readFailures(f); err != nil {
				return err
			}
		}
		before := []Failures{own, all}
		if err := change(&own, &all); err != nil {
			return err
		}
		for i, f := range []Failures{own, all} {
			if f != before[i] {
				b.putFailures(f)
			}
		}
		return nil
	})
}

func (b *transaction) readFailures(f *Failures) error {
	err := b.queryRow("failures", f.Region, f.Name).Scan(&f.Count, (*stamp)(&f.Until), &f.Reason)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	return err
}

func (b *transaction) putFailures(f Failures) {
	if f.Count == 0 {
		b.exec("drop_failures", f.Region, f.Name)
		return
	}
	b.exec("put_failures", f.Region, f.Name, f.Count, f.Until.UnixMilli(), cleanText(f.Reason))
}

// dropFailures ends the failures of a page's step and method.
func (b *transaction) dropFailures(p Page) {
	b.exec("drop_failures", p.Region, p.Step)
	b.exec("drop_failures", "", p.Method)
}

// Failures returns the failures of all steps and methods.
func (c *Catalog) Failures(ctx context.Context) ([]Failures, error) {
	rows, err := c.queries["all_failures"].QueryContext(ctx)
	var all []Failures
	err = eachRow(rows, err, func() error {
		var f Failures
		err := rows.Scan(&f.Region, &f.Name, &f.Count, (*stamp)(&f.Until), &f.Reason)
		all = append(all, f)
		return err
	})
	return all, c.wrap("read the failures", err)
}

package usage

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Total adds up the entries of an account that have the same name in a
// dimension, on one day if they are added up by day too.
type Total struct {
	By      string      `json:"by"`
	Name    string      `json:"name"`
	Day     string      `json:"day,omitempty"` // of UTC: 2026-11-20
	Account string      `json:"account"`
	Units   quota.Units `json:"units"`
	Calls   quota.Units `json:"calls"`
	Share   float64     `json:"share"` // of all selected units of the account, 0 to 1
	First   time.Time   `json:"first"`
	Last    time.Time   `json:"last"`
	Amounts Amounts     `json:"amounts,omitempty"` // in named measures
}

// Totals is a Total for each account and name, or also for each day.
type Totals struct {
	by    string
	isDay bool // by days too
	all   map[totalName]*Total
	units map[string]quota.Units // by account
}

// totalName is what a total adds up.
type totalName struct{ account, name, day string }

// AndDay follows a dimension by which entries are added up for each day:
// job,day.
const AndDay = ",day"

func newTotals(by string) *Totals {
	t := &Totals{all: map[totalName]*Total{}, units: map[string]quota.Units{}}
	t.by, t.isDay = strings.CutSuffix(by, AndDay)
	return t
}

// Totals adds up the selected entries by one of the Dimensions, which AndDay
// may follow.
func (s *LogReader) Totals(ctx context.Context, by string) (*Totals, error) {
	t := newTotals(by)
	for _, account := range s.Accounts {
		for e, err := range s.entries(ctx, account) {
			if err != nil {
				return nil, err
			}
			t.add(account, &e)
		}
	}
	return t, nil
}

// TotalsOf adds up lines as Totals does.
func TotalsOf(lines []Line, by string) *Totals {
	t := newTotals(by)
	for i := range lines {
		t.add(lines[i].Account, &lines[i].Entry)
	}
	return t
}

// Len returns the number of totals.
func (t *Totals) Len() int { return len(t.all) }

// Accounts returns the number of accounts that have totals.
func (t *Totals) Accounts() int { return len(t.units) }

// Units returns the units of all totals.
func (t *Totals) Units() (n quota.Units) {
	for _, units := range t.units {
		n += units
	}
	return n
}

func (t *Totals) add(account string, e *quota.Entry) {
	if e.Amounts().IsZero() { // as of a refusal, a refund or a remark
		return
	}
	of := totalName{account: account, name: nameIn(t.by, e)}
	if t.isDay {
		of.day = e.At.UTC().Format(time.DateOnly)
	}
	total, known := t.all[of]
	if !known {
		total = &Total{By: t.by, Name: of.name, Day: of.day,
			Account: account, First: e.At.UTC(), Last: e.At.UTC()}
		t.all[of] = total
	}
	total.Units += e.Units
	total.Calls += e.Calls
	for m, n := range e.Measures {
		if total.Amounts == nil {
			total.Amounts = Amounts{}
		}
		total.Amounts[m] += n
	}
	total.First, total.Last = earlier(total.First, e.At.UTC()), later(total.Last, e.At.UTC())
	t.units[account] += e.Units
}

// Largest returns the n totals of most units, or all if n is 0, largest first;
// of totals by day, the days of each name together. A share is of its own
// account, because another account may count other units.
func (t *Totals) Largest(n int) []Total {
	all := make([]Total, 0, len(t.all))
	whole := map[totalName]quota.Amounts{} // of all days
	for _, total := range t.all {
		one := *total
		if units := t.units[one.Account]; units > 0 {
			one.Share = float64(one.Units) / float64(units)
		}
		all = append(all, one)
		name := totalName{account: one.Account, name: one.Name}
		whole[name] = whole[name].Plus(quota.Amounts{Units: one.Units, Calls: one.Calls})
	}
	slices.SortFunc(all, func(x, y Total) int {
		of, than := whole[totalName{account: x.Account, name: x.Name}],
			whole[totalName{account: y.Account, name: y.Name}]
		return cmp.Or(cmp.Compare(than.Units, of.Units), cmp.Compare(than.Calls, of.Calls), cmp.Compare(x.Name, y.Name),
			cmp.Compare(x.Account, y.Account), cmp.Compare(x.Day, y.Day))
	})
	if n > 0 {
		all = all[:min(n, len(all))]
	}
	return all
}

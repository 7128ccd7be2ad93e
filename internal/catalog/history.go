package catalog

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// HistoryRetention is how long daily sums are kept.
const HistoryRetention = 400 * 24 * time.Hour

// DayQuery selects daily sums. The zero DayQuery selects the sums of all
// accounts and budgets, one for each day.
type DayQuery struct {
	Account string // "" for all
	// Budget is the budget, or a pointer to "" for the sums of whole accounts;
	// nil for all of them.
	Budget *string

	From, To time.Time // days that begin at From or later, and before To; zero: no bound

	Method, Region, Job, Lane string // "" for all; "-" for calls without one

	// By is what the sums of one day are broken down by: method, region, job or
	// lane. "" adds each day up.
	By string
}

// DaySum is what was spent and refused on one day, of one budget or account.
type DaySum struct {
	Account string    `json:"account"`
	Budget  string    `json:"budget"` // "" for the whole account
	Day     time.Time `json:"day"`    // when it begins
	Date    string    `json:"date"`   // of Day in its zone: 2026-11-20
	Name    string    `json:"name"`   // in DayQuery.By, "-" for calls without one; "" if the day is added up

	Units    int64 `json:"units"`
	Calls    int64 `json:"calls"`
	Refusals int64 `json:"refusals"`
	// the most that the budget's window held on that day, whatever Name is, as far as it was read;
	// 0 if unknown
	Peak int64 `json:"peak"`
}

// History returns daily sums in the order of their days, accounts, budgets and
// names. Days are those of a budget's zone for a calendar window, and of UTC
// for other budgets and for whole accounts. Days on which nothing was spent or
// refused are missing. Package usage fills in the sums.
func (c *Catalog) History(ctx context.Context, q *DayQuery) ([]DaySum, error) {
	if q.By != "" && !slices.Contains([]string{"method", "region", "job", "lane"}, q.By) {
		return nil, fmt.Errorf("catalog: history by %q: name method, region, job or lane", q.By)
	}
	var budget any
	if q.Budget != nil {
		budget = *q.Budget
	}
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !q.From.IsZero() {
		from = q.From.Add(time.Millisecond - 1).UnixMilli()
	}
	if !q.To.IsZero() {
		to = q.To.Add(time.Millisecond - 1).UnixMilli()
	}
	rows, err := c.queries["history"].QueryContext(ctx, q.Account, budget, from, to, q.Method, q.Region, q.By, q.Job,
		q.Lane)
	var sums []DaySum
	err = eachRow(rows, err, func() error {
		var s DaySum
		err := rows.Scan(&s.Account, &s.Budget, (*stamp)(&s.Day), &s.Date, &s.Name, &s.Units, &s.Calls, &s.Refusals,
			&s.Peak)
		sums = append(sums, s)
		return err
	})
	return sums, c.wrap("read the history", err)
}

package plan

import (
	"time"

	"github.com/ration-dev/ration/quota"
)

// Column is what a budget's window holds at the fullest instant of a stretch of
// time, of what the schedule asks for on the dot.
type Column struct {
	At      time.Time
	Regions []quota.Units // in the order of Report.Regions
	Held    quota.Units   // of what the ledger held from the start
	Total   quota.Units
}

// Columns divides the time that was played into n stretches of one length.
func (r *Report) Columns(budget, n int) []Column {
	q := r.Budgets[budget].question
	from, length := r.From.UnixMicro(), r.To.Sub(r.From).Microseconds()
	columns, due := make([]Column, n), 0
	for i := range columns {
		end := from + length*int64(i+1)/int64(n)
		columns[i] = r.column(q, from+length*int64(i)/int64(n))
		for ; due < len(q.ticks.at) && q.ticks.at[due] < end; due++ {
			if last := due+1 == len(q.ticks.at) || q.ticks.at[due+1] > q.ticks.at[due]; !last {
				continue
			}
			if c := r.column(q, q.ticks.at[due]); c.Total > columns[i].Total {
				columns[i] = c
			}
		}
	}
	return columns
}

func (r *Report) column(q *question, at int64) Column {
	c := Column{At: instant(at), Held: q.used(at, nil, &q.held)}
	c.Total = c.Held
	for i := range r.Regions {
		units := q.used(at, &q.own[i].series, nil)
		c.Regions, c.Total = append(c.Regions, units), c.Total+units
	}
	return c
}

// used returns what of some ticks and entries the window holds at an instant.
func (q *question) used(at int64, ticks, held *series) quota.Units {
	if q.budget.Window.Estimate() {
		return quota.Units(q.estimate(at, 0, ticks, held))
	}
	since := q.since(at)
	return quota.Units(ticks.sum(since, at) + held.sum(since, at))
}

package plan

import "github.com/ration-dev/ration/quota"

// Column is what a budget's window holds at its fullest within a stretch of
// time, if every start is on time.
type Column struct {
	Regions []quota.Units // charged by each region, in the order of Report.Regions
	Held    quota.Units   // held by the ledger from the start
	Total   quota.Units
}

// Columns divides the time of the plan into n stretches of equal length and
// returns a Column for each. budget is an index into r.Budgets.
func (r *Report) Columns(budget, n int) []Column {
	l := r.Budgets[budget].load
	from, length := r.From.UnixMicro(), r.To.Sub(r.From).Microseconds()
	columns, due := make([]Column, n), 0
	for i := range columns {
		end := from + length*int64(i+1)/int64(n)
		columns[i] = r.newColumn(l, from+length*int64(i)/int64(n))
		for ; due < len(l.ticks.at) && l.ticks.at[due] < end; due++ {
			if last := due+1 == len(l.ticks.at) || l.ticks.at[due+1] > l.ticks.at[due]; !last {
				continue
			}
			if c := r.newColumn(l, l.ticks.at[due]); c.Total > columns[i].Total {
				columns[i] = c
			}
		}
	}
	return columns
}

func (r *Report) newColumn(l *load, at int64) Column {
	c := Column{Held: l.usedAt(at, nil, &l.held)}
	c.Total = c.Held
	for i := range r.Regions {
		units := l.usedAt(at, &l.regions[i].series, nil)
		c.Regions, c.Total = append(c.Regions, units), c.Total+units
	}
	return c
}

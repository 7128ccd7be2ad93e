package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/usage"
)

// table shows what was selected. totals are all of what was added up, also what
// rows do not have.
func (v *LogView) table(rows []any, totals *usage.Totals) {
	switch {
	case v.Query.ByPeriod():
		v.periodTable(rowsOf[usage.Period](rows))
	case v.Query.By != "":
		v.totalTable(rowsOf[usage.Total](rows), totals)
	default:
		v.lineTable(rowsOf[*usage.LineReport](rows))
	}
}

func rowsOf[T any](documents []any) []T {
	rows := make([]T, len(documents))
	for i, d := range documents {
		rows[i] = d.(T)
	}
	return rows
}

// totalTable shows totals, and how much of all of them they leave out.
func (v *LogView) totalTable(rows []usage.Total, all *usage.Totals) {
	by, isDay := strings.CutSuffix(v.Query.By, usage.AndDay)
	dimensions := []string{by}
	if isDay {
		dimensions = append(dimensions, "day")
	}
	headings := slices.Concat(dimensions, []string{"units", "calls"}, v.measureNames(),
		[]string{"share", "first", "last"})
	several := all.Accounts() > 1
	if several {
		headings = append(headings, "account")
	}
	t := v.Table(headings...)
	rest := all.Units()
	for _, s := range rows {
		row := []any{human.Name(s.Name)}
		if isDay {
			row = append(row, s.Day)
		}
		row = append(row, s.Units, s.Calls)
		for _, number := range s.Amounts.Numbers(v.Measures) {
			row = append(row, number)
		}
		row = append(row, strconv.FormatFloat(100*s.Share, 'f', 1, 64)+" %", v.clock(s.First), v.clock(s.Last))
		if several {
			row = append(row, human.Name(s.Account))
		}
		t.Row(row...)
		rest -= s.Units
	}
	t.Print()
	if left := all.Len() - len(rows); left > 0 {
		v.Remark("log", "%s spent %s; --top 0 shows all", human.Count(left, "other"), human.Count(rest, "unit"))
	}
}

package web

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// The dimensions of a chart.
const (
	byRegion = "region"
	byJob    = "job"
	byMethod = "method"
)

func dimensions() []string { return []string{byRegion, byJob, byMethod} }

// in returns the name of a series in a dimension.
func (s *series) in(dimension string) string {
	switch dimension {
	case byJob:
		return cmp.Or(s.job, "-")
	case byMethod:
		return cmp.Or(s.method, "-")
	}
	return cmp.Or(s.region, "-")
}

const (
	mostLayers  = 6 // of a chart; the last stands for all others
	chartHeight = 200
	columnWidth = 20
	barInset    = 4
)

// chart is what one account's calls spent in the last hours and will request in the
// next, stacked by a dimension.
type chart struct {
	ID, Account, By string
	Now             time.Time
	Layers          []*layer
	Columns         []column
	Most            quota.Units // at the top of the axis
	Yesterday       string      // path of what was spent a day before
	NowX            int
	Width, Height   int
	Spent, Before   quota.Units // in all
	Planned         quota.Units
	PlanErr         error
	HasPlan         bool
	Reading         bool // what was spent is not known yet
}

// layer is one name of the dimension.
type layer struct {
	Name           string
	Class          int
	Spent, Planned quota.Units
	Path, Ahead    string // of what was spent and what will be requested
}

// column is an hour of a chart.
type column struct {
	At        time.Time
	X         int
	Ahead     bool
	Total     quota.Units
	Yesterday quota.Units
	Layers    []quota.Units
	Axis      bool // its time is written below
}

// newChart returns the chart of an account.
func newChart(id string, s *snapshot, account *accountState, by string) *chart {
	c := &chart{ID: id, Account: account.Name, By: by, Now: s.At, Width: 2 * shownHours * columnWidth, Height: chartHeight, NowX: shownHours * columnWidth}
	spent, planned := hours{}, hours{}
	if c.Reading = account.Activity == nil; !c.Reading {
		spent = account.Activity.hours
	}
	if s.Whole != nil {
		planned, c.PlanErr, c.HasPlan = s.Whole.planned[account.Name], s.Whole.planErr, s.Whole.planned != nil
	}
	first := hourOf(s.At) - shownHours + 1
	names := c.rank(spent, planned, first)
	for i := range 2 * shownHours {
		hour, from := first+int64(i), spent
		ahead := i >= shownHours
		if ahead {
			from = planned
		}
		column := column{At: time.Unix(hour*3600, 0).UTC(), X: i * columnWidth, Ahead: ahead, Layers: make([]quota.Units, len(c.Layers)), Axis: hour%6 == 0}
		for s, units := range from[hour] {
			column.Layers[names[s.in(by)]] += units
			column.Total += units
		}
		if !ahead {
			column.Yesterday = total(spent[hour-shownHours])
			c.Spent, c.Before = c.Spent+column.Total, c.Before+column.Yesterday
		} else {
			c.Planned += column.Total
		}
		c.Most = max(c.Most, column.Total, column.Yesterday)
		c.Columns = append(c.Columns, column)
	}
	c.Most = roundAxis(c.Most)
	c.draw()
	return c
}

// rank sets the layers, the largest first, and returns the index of the layer of
// each name.
func (c *chart) rank(spent, planned hours, first int64) map[string]int {
	sums := map[string]*layer{}
	collect := func(from hours, since, until int64, add func(*layer, quota.Units)) {
		for hour := since; hour < until; hour++ {
			for s, units := range from[hour] {
				name := s.in(c.By)
				if sums[name] == nil {
					sums[name] = &layer{Name: name}
				}
				add(sums[name], units)
			}
		}
	}
	now := first + shownHours
	collect(spent, first, now, func(l *layer, units quota.Units) { l.Spent += units })
	collect(planned, now, now+shownHours, func(l *layer, units quota.Units) { l.Planned += units })
	all := slices.SortedFunc(maps.Values(sums), func(x, y *layer) int {
		return cmp.Or(cmp.Compare(y.Spent, x.Spent), cmp.Compare(y.Planned, x.Planned), cmp.Compare(x.Name, y.Name))
	})
	index := map[string]int{}
	for i, l := range all {
		if i < mostLayers-1 || len(all) == mostLayers {
			l.Class = i
			c.Layers = append(c.Layers, l)
		} else if len(c.Layers) < mostLayers {
			c.Layers = append(c.Layers, &layer{Name: fmt.Sprintf("%d others", len(all)-i), Class: mostLayers - 1, Spent: l.Spent, Planned: l.Planned})
		} else {
			others := c.Layers[mostLayers-1]
			others.Spent, others.Planned = others.Spent+l.Spent, others.Planned+l.Planned
		}
		index[l.Name] = len(c.Layers) - 1
	}
	return index
}

// draw sets the paths.
func (c *chart) draw() {
	ahead, past := make([]strings.Builder, len(c.Layers)), make([]strings.Builder, len(c.Layers))
	var yesterday strings.Builder
	for i := range c.Columns {
		column, sum := &c.Columns[i], quota.Units(0)
		for j, units := range column.Layers {
			into := &past[j]
			if column.Ahead {
				into = &ahead[j]
			}
			c.drawBar(into, column.X+barInset, columnWidth-2*barInset, sum, units)
			sum += units
		}
		c.drawBar(&yesterday, column.X+1, columnWidth-2, 0, column.Yesterday)
	}
	for j, l := range c.Layers {
		l.Path, l.Ahead = past[j].String(), ahead[j].String()
	}
	c.Yesterday = yesterday.String()
}

// drawBar adds a bar of an amount, which stands on another one.
func (c *chart) drawBar(path *strings.Builder, x, width int, below, units quota.Units) {
	if units <= 0 {
		return
	}
	scale := func(u quota.Units) float64 { return float64(chartHeight) * (1 - float64(u)/float64(c.Most)) }
	bottom, top := scale(below), scale(below+units)
	fmt.Fprintf(path, "M%d %.1fV%.1fh%dV%.1fz", x, bottom, top, width, bottom)
}

// roundAxis returns the next number from n on that is easy to read: two digits and
// zeros.
func roundAxis(n quota.Units) quota.Units {
	for step := quota.Units(1); ; step *= 10 {
		for _, of := range []quota.Units{10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100} {
			if of*step >= n {
				return of * step
			}
		}
	}
}

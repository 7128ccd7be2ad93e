package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// dimensions returns how a chart over some days can be broken down. That of
// several days is from the history, which has neither hosts nor keys.
func dimensions(days int) []string {
	if days > 1 {
		return []string{"region", "job", "method", "lane"}
	}
	return []string{"region", "job", "method", "lane", "host", "key"}
}

// nameOf returns the name of a series in a dimension.
func nameOf(s series, dimension string) string {
	return cmp.Or(*s.Field(dimension), usage.Unattributed)
}

const (
	mostLayers  = 6 // of a chart; the last stands for all others
	chartHeight = 200
	columnWidth = 20
	barInset    = 4
)

// chart is what one account's calls spent in the last hours and will request in
// the next, or what they spent in the last days, stacked by a dimension.
type chart struct {
	ID, Account, By string
	Days            int // 1: it is of hours
	Layers          []*layer
	Columns         []column
	Most            quota.Units // at the top of the axis
	Yesterday       string      // path of what was spent a day before
	NowX            int
	Width, Height   int
	Spent, Before   quota.Units // in all
	Planned         quota.Units
	Limit           *limitLine  // nil if no budget is of all calls
	PerColumn       quota.Units // that it allows
	HasLine         bool
	Refused         int // refusals that are known
	RefusedPath     string
	CoolWidth       int // of the cooldown that is in force; 0 without one
	PlanErr         error
	HasPlan         bool
	NoHistory       bool  // there is no catalogue
	HistoryErr      error // why the history could not be read
}

// layer is one name of the dimension.
type layer struct {
	Name           string
	Class          int
	Spent, Planned quota.Units
	Path, Ahead    string // of what was spent and what will be requested
}

// Unit returns what a column is: hour or day.
func (c *chart) Unit() string {
	if c.Days > 1 {
		return "day"
	}
	return "hour"
}

// column is an hour or a day of a chart.
type column struct {
	At        time.Time
	X         int
	Ahead     bool
	Total     quota.Units
	Yesterday quota.Units
	Layers    []quota.Units
	Refused   int
	Axis      bool // its time is written below
}

// newChart returns the chart of an account by hours: with the day before, and
// what the schedule will request.
func newChart(id string, s *snapshot, account *accountState, by string) *chart {
	c := &chart{ID: id, Account: account.Name, By: by, Days: 1, Limit: account.limit}
	c.HasPlan, c.PlanErr = s.HasPlan, s.PlanErr
	c.fill(account.activity.hours, account.planned, hourOf(s.At), shownHours, shownHours, time.Hour)
	c.mark(account.activity.refused, time.Hour)
	c.cool(account, s.At)
	for i := range c.Columns {
		c.Columns[i].Axis = c.Columns[i].At.Hour()%6 == 0
	}
	return c
}

// newDayChart returns the chart of an account by days, from the history: with
// as many days before them. store may be nil.
func newDayChart(ctx context.Context, id string, s *snapshot, account *accountState, v view,
	store *catalog.Catalog) *chart {
	c := &chart{ID: id, Account: account.Name, By: v.By,
		Days: v.Days, NoHistory: store == nil, Limit: account.limit}
	const day = 24 * time.Hour
	spent, today := hours{}, s.At.Truncate(day)
	refused := map[int64]int{}
	if store != nil {
		sums, err := store.History(ctx, &catalog.DayQuery{Account: account.Name, Budget: new(string),
			From: today.Add(-time.Duration(2*v.Days-1) * day), By: v.By})
		c.HistoryErr = err
		for i := range sums {
			name, number := sums[i].Name, sums[i].Day.Unix()/int64(day/time.Second)
			refused[number] += int(sums[i].Refusals)
			one := series{}
			*one.Field(v.By) = name
			spent.add(number, one, quota.Units(sums[i].Units))
		}
	}
	c.fill(spent, nil, today.Unix()/int64(day/time.Second), v.Days, 0, day)
	c.mark(refused, day)
	for i := range c.Columns {
		c.Columns[i].Axis = (len(c.Columns)-1-i)%max(1, v.Days/6) == 0
	}
	return c
}

// fill sets the columns: past ones, the last of which is now, and ones ahead.
// Each past one has the one that is past columns before it behind it.
func (c *chart) fill(spent, planned hours, now int64, past, ahead int, each time.Duration) {
	first := now - int64(past) + 1
	c.Width, c.Height = (past+ahead)*columnWidth, chartHeight
	c.NowX = past * columnWidth
	names := c.rank(spent, planned, first, now+1, now+1+int64(ahead))
	for i := range past + ahead {
		at, from := first+int64(i), spent
		isAhead := i >= past
		if isAhead {
			from = planned
		}
		column := column{At: time.Unix(at*int64(each/time.Second), 0).UTC(), X: i * columnWidth, Ahead: isAhead,
			Layers: make([]quota.Units, len(c.Layers))}
		for s, units := range from[at] {
			column.Layers[names[nameOf(s, c.By)]] += units
			column.Total += units
		}
		if !isAhead {
			column.Yesterday = total(spent[at-int64(past)])
			c.Spent, c.Before = c.Spent+column.Total, c.Before+column.Yesterday
		} else {
			c.Planned += column.Total
		}
		c.Most = max(c.Most, column.Total, column.Yesterday)
		c.Columns = append(c.Columns, column)
	}
	c.scaleLimit(each)
	c.Most = roundAxis(c.Most)
	c.draw()
}

// rank sets the layers, the largest first, and returns the index of the layer
// of each name.
func (c *chart) rank(spent, planned hours, first, next, end int64) map[string]int {
	sums := map[string]*layer{}
	collect := func(from hours, since, until int64, add func(*layer, quota.Units)) {
		for hour := since; hour < until; hour++ {
			for s, units := range from[hour] {
				name := nameOf(s, c.By)
				if sums[name] == nil {
					sums[name] = &layer{Name: name}
				}
				add(sums[name], units)
			}
		}
	}
	collect(spent, first, next, func(l *layer, units quota.Units) { l.Spent += units })
	collect(planned, next, end, func(l *layer, units quota.Units) { l.Planned += units })
	all := slices.SortedFunc(maps.Values(sums), func(x, y *layer) int {
		return cmp.Or(cmp.Compare(y.Spent, x.Spent), cmp.Compare(y.Planned, x.Planned), cmp.Compare(x.Name, y.Name))
	})
	index := map[string]int{}
	for i, l := range all {
		if i < mostLayers-1 || len(all) == mostLayers {
			l.Class = i
			c.Layers = append(c.Layers, l)
		} else if len(c.Layers) < mostLayers {
			c.Layers = append(c.Layers, &layer{Name: fmt.Sprintf("%d others", len(all)-i), Class: mostLayers - 1,
				Spent: l.Spent, Planned: l.Planned})
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

// roundAxis returns the next number from n on that is easy to read: two digits
// and zeros.
func roundAxis(n quota.Units) quota.Units {
	for step := quota.Units(1); ; step *= 10 {
		for _, of := range []quota.Units{10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100} {
			if of*step >= n {
				return of * step
			}
		}
	}
}

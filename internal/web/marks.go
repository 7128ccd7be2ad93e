package web

import (
	"fmt"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// limitLine is the limit of a chart: that of the budget on all calls of the
// account that allows least in an hour.
type limitLine struct {
	Budget, Window string
	Limit          quota.Units
	perHour        float64
}

// addLimit makes the limit of a budget that of the chart, if it is lower. A
// budget of other measures, of some calls or of each key has no line.
func (account *accountState) addLimit(b *usage.BudgetStatus) {
	budget := &b.Budget
	narrow := len(budget.Methods) + len(budget.Except) + len(budget.Lanes) + len(budget.Regions)
	isOther := budget.Measure != quota.ByUnits || budget.PerKey || budget.Shadow
	span := budget.Window.Span()
	if narrow > 0 || isOther || span == 0 {
		return
	}
	perHour := float64(b.Limit()) / span.Hours()
	if account.limit == nil || perHour < account.limit.perHour {
		account.limit = &limitLine{budget.Name, budget.Window.Words(), b.Limit(), perHour}
	}
}

// maxLimitScale is how many times the highest bar a limit may be so that the
// chart shows it.
const maxLimitScale = 4

// scaleLimit makes room for the limit, unless it is far above the bars.
func (c *chart) scaleLimit(each time.Duration) {
	if c.Limit == nil {
		return
	}
	c.PerColumn = quota.Units(c.Limit.perHour * each.Hours())
	if c.HasLine = c.PerColumn <= maxLimitScale*c.Most; c.HasLine {
		c.Most = max(c.Most, c.PerColumn)
	}
}

// LimitY returns the height of the line.
func (c *chart) LimitY() float64 {
	return chartHeight * (1 - float64(c.PerColumn)/float64(c.Most))
}

const markHeight = 9

// mark sets the marks of the columns in which calls were refused, by their
// numbers, and of a cooldown that is in force.
func (c *chart) mark(refused map[int64]int, each time.Duration) {
	var path strings.Builder
	for i := range c.Columns {
		column := &c.Columns[i]
		if column.Refused = refused[column.At.Unix()/int64(each/time.Second)]; column.Refused > 0 && !column.Ahead {
			fmt.Fprintf(&path, "M%d 0h%dl-%d %dz", column.X+barInset, columnWidth-2*barInset, columnWidth/2-barInset,
				markHeight)
			c.Refused += column.Refused
		}
	}
	c.RefusedPath = path.String()
}

// cool marks the hours of the longest cooldown that is in force.
func (c *chart) cool(account *accountState, now time.Time) {
	for _, held := range account.Cooldowns {
		if ahead := held.Until.Sub(now).Hours(); held.Move == nil && ahead > 0 {
			c.CoolWidth = max(c.CoolWidth, min(c.Width-c.NowX, int(ahead*columnWidth)+columnWidth))
		}
	}
}

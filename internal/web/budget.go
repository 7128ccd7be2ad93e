package web

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// budgetRow is a budget as the page shows it.
type budgetRow struct {
	*usage.BudgetReport
	ID        string
	Now       time.Time
	Kept      quota.Units // reserved for floors
	Percent   int         // of the limit that is used
	UsedWidth float64     // of 100
	KeptWidth float64
	Level     string // "", "high" or "full"
	FloorRows []floorRow
	Spenders  []spenders
	Dots      []dot
	Next      *usage.Return
}

// floorRow is the floor of a region.
type floorRow struct {
	Region string
	usage.Floor
}

// spenders is who spent a budget, by one dimension, most first.
type spenders struct {
	By  string
	Who []spender
}

// spender is a name and what it spent.
type spender struct {
	Name  string
	Units quota.Units
}

// dot is a return on a timeline that is 100 wide.
type dot struct {
	X, Radius float64
}

// The levels at which a bar changes its colour, in percent of the limit.
const (
	levelHigh = 80
	levelFull = 95
)

func newBudgetRow(id string, s *snapshot, b *usage.BudgetReport) *budgetRow {
	row := &budgetRow{BudgetReport: b, ID: id, Now: s.At}
	for _, region := range slices.Sorted(maps.Keys(b.Floors)) {
		row.FloorRows = append(row.FloorRows, floorRow{region, b.Floors[region]})
		row.Kept += b.Floors[region].Kept
	}
	row.Kept = min(row.Kept, b.Remaining)
	share := 100 / float64(b.Limit)
	row.UsedWidth = min(100, float64(b.Used)*share)
	row.KeptWidth = min(100-row.UsedWidth, float64(row.Kept)*share)
	row.Percent = int(b.Used * 100 / b.Limit)
	switch {
	case row.Percent >= levelFull:
		row.Level = "full"
	case row.Percent >= levelHigh:
		row.Level = "high"
	}
	for _, by := range b.Breakdowns() {
		row.Spenders = append(row.Spenders, spenders{by.By, rankSpenders(by.Sums)})
	}
	row.addReturns()
	return row
}

// Pace returns what was spent in an hour.
func (row *budgetRow) Pace() quota.Units { return quota.Units(math.Round(*row.PaceHour)) }

// Refusals returns how many calls a shadow would have refused.
func (row *budgetRow) Refusals() int {
	if row.WouldRefuse == nil {
		return 0
	}
	return *row.WouldRefuse
}

// addReturns sets what the timeline shows: each return between now and
// the last.
func (row *budgetRow) addReturns() {
	if len(row.NextFree) == 0 {
		if row.NextFreeAt != nil {
			row.Next = &usage.Return{At: *row.NextFreeAt}
		}
		return
	}
	row.Next = &row.NextFree[0]
	span := row.NextFree[len(row.NextFree)-1].At.Sub(row.Now)
	most := quota.Units(1)
	for _, back := range row.NextFree {
		most = max(most, back.Units)
	}
	for _, back := range row.NextFree {
		d := dot{X: 94, Radius: 2 + 3*float64(back.Units)/float64(most)}
		if span > 0 {
			d.X = 6 + 88*float64(back.At.Sub(row.Now))/float64(span)
		}
		row.Dots = append(row.Dots, d)
	}
}

// mostSpenders is how many names are shown of each dimension.
const mostSpenders = 8

func rankSpenders(sums map[string]quota.Units) []spender {
	most := mostSpenders
	if len(sums) == most+1 { // one other has a name
		most++
	}
	names, others, rest := usage.Ranked(sums, most)
	var ranked []spender
	for _, name := range names {
		ranked = append(ranked, spender{name, sums[name]})
	}
	if rest > 0 {
		ranked = append(ranked, spender{fmt.Sprintf("%d others", others), rest})
	}
	return ranked
}

// rankedText names who spent most: DE 1,500, IN 200.
func rankedText(sums map[string]quota.Units) string {
	var parts []string
	for _, who := range rankSpenders(sums) {
		parts = append(parts, who.Name+" "+human.Grouped(int64(who.Units)))
	}
	return strings.Join(parts, ", ")
}

// maxShownKeys is how many keys of an account the page shows: of the fullest,
// and of those in cooldown.
const maxShownKeys = 10

// shownCooldowns leaves out the cooldowns of keys but the first of them.
func shownCooldowns(held []report.Cooldown) []report.Cooldown {
	keys := 0
	return slices.DeleteFunc(held, func(c report.Cooldown) bool {
		if c.Key == nil {
			return false
		}
		keys++
		return keys > maxShownKeys
	})
}

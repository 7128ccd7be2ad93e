package doctor

import (
	"fmt"
	"slices"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/human"
)

// CheckRepeats warns of words that a list of a budget, or of a rule of
// when_ledger_down, has twice: probably another one is meant.
func (c *Checkup) CheckRepeats(table *costs.Table) {
	list := table.List()
	for i := range list.Budgets {
		b := &list.Budgets[i]
		place := fmt.Sprintf("%s: budget %s", b.From, human.Name(b.Name))
		c.checkRepeats(place, b.Methods, b.Except, b.Lanes, b.Regions)
	}
	for i := range list.Down {
		r := &list.Down[i]
		c.checkRepeats(fmt.Sprintf("%s: when_ledger_down", r.Origin), r.Methods, r.Lanes, r.Jobs, r.Regions)
	}
}

func (c *Checkup) checkRepeats(place string, lists ...[]string) {
	for _, list := range lists {
		var repeated []string
		for i, word := range list {
			if slices.Contains(list[:i], word) && !slices.Contains(repeated, word) {
				repeated = append(repeated, word)
				c.Add(Warning, "write it once, or the name that was meant", "%s names %s twice", place, human.Name(word))
			}
		}
	}
}

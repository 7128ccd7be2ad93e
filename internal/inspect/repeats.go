package inspect

import (
	"fmt"
	"slices"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/human"
)

// CheckRepeats warns of words that a list of a budget, or of a rule of
// when_ledger_down, has twice, where probably another one is meant, and of
// budgets that cover nothing.
func (c *Checkup) CheckRepeats(table *costs.Table) {
	list := table.List()
	for i := range list.Budgets {
		b := &list.Budgets[i]
		place := fmt.Sprintf("%s: budget %s", b.From, human.Name(b.Name))
		c.checkRepeats(place, b.Methods, b.Except, b.Lanes, b.Regions)
		c.checkMethods(place, b, list.Methods, table.Upstreams())
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
				c.Add(Warning, "write it once, or the name that was meant", "%s names %s twice", place,
					human.Name(word))
			}
		}
	}
}

// checkMethods warns of a budget that covers no method which has a cost. Where
// unlisted methods have one, it may cover those.
func (c *Checkup) checkMethods(place string, b *costs.ListedBudget, priced []costs.ListedMethod,
	upstreams []costs.Upstream) {
	isCovered := func(m costs.ListedMethod) bool {
		isNamed := len(b.Methods) == 0 || slices.Contains(b.Methods, m.Method)
		return m.Account == b.Account && isNamed && !slices.Contains(b.Except, m.Method)
	}
	takesOthers := func(u costs.Upstream) bool { return u.Account == b.Account && u.Unlisted > 0 }
	if !slices.ContainsFunc(priced, isCovered) && !slices.ContainsFunc(upstreams, takesOthers) {
		c.Add(Warning, "correct its methods and except, or remove the budget",
			"%s covers no method that has a cost, and so limits nothing", place)
	}
}

package costs

import (
	"slices"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

// Reprice returns a function that says what a call of a log asks for by the
// prices of candidate, and what it costs in the end. units is what the log says
// it cost while t was in force, 0 if it was refunded. A log does not say what
// was asked:
//
//   - A call that cost what t says costs what candidate says; so do the calls of
//     a batch.
//   - A call that cost less was settled: it asks for candidate's cost, and costs
//     the same part of it.
//   - If the upstream's answers say what calls cost, a call asks for candidate's
//     cost and costs what the log says.
//   - A call whose request said what it costs costs what the log says.
//   - Any other call that cost more was spent with units of its own, which it
//     asks for. So was one whose method has no cost in one of the tables.
//
// The function is not safe for concurrent use.
func (t *Table) Reprice(candidate *Table) func(account, method string, units quota.Units) (asked, cost quota.Units) {
	known := map[[2]string][2]loggedPrice{}
	return func(account, method string, units quota.Units) (asked, cost quota.Units) {
		prices, ok := known[[2]string{account, method}]
		if !ok {
			prices = [2]loggedPrice{t.loggedPrice(account, method), candidate.loggedPrice(account, method)}
			known[[2]string{account, method}] = prices
		}
		before, after := prices[0], prices[1]
		if before.each == 0 || after.each == 0 || before.byField {
			return units, units
		}
		calls := units / before.each
		isWhole := calls > 0 && units%before.each == 0
		if isWhole && (calls == 1 || before.batch) {
			if !after.batch {
				calls = 1
			}
			units = multiply(after.each, int64(calls))
			return units, units
		}
		switch {
		case before.answered:
			return after.each, units
		case units > before.each:
			return units, units
		case before.unmodified != nil && units == *before.unmodified && after.unmodified != nil:
			return after.each, *after.unmodified
		}
		return after.each, (units*after.each + before.each - 1) / before.each
	}
}

// loggedPrice is what a table says of a method.
type loggedPrice struct {
	each       quota.Units  // of one call; 0 if there is none
	batch      bool         // a request may hold several calls
	byField    bool         // the request says what a call costs
	answered   bool         // the upstream's answers say what a call cost
	unmodified *quota.Units // what a 304 costs; nil: the price
}

func (t *Table) loggedPrice(account, method string) loggedPrice {
	for _, u := range t.upstreamsOf(account) {
		if u.price(method) == 0 {
			continue
		}
		// No answer of an api says what a call cost.
		p := loggedPrice{each: u.site.cost(method), answered: u.API == "" && feedback.SaysCost(u.Feedback)}
		p.byField = u.site.fieldPrices[method] != nil
		p.batch = slices.ContainsFunc(u.Batches, func(b BatchMethod) bool { return b.Method == method })
		if u.NotModifiedUnits != nil {
			p.unmodified = new(u.NotModified(method))
		}
		return p
	}
	return loggedPrice{}
}

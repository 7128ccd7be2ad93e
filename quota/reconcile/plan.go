package reconcile

import (
	"slices"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// plan is what a reconciliation does.
type plan struct {
	added   []addition
	removed []removal
}

// addition is an amount to be entered.
type addition struct {
	correction
	amount quota.Units
}

// removal is an amount to be taken off an entry.
type removal struct {
	entry  quota.Entry
	covers coverage
	amount quota.Units
}

// net returns by how much the plan raises a budget.
func (p *plan) net(budget int) (net quota.Units) {
	for _, a := range p.added {
		if a.covers[budget] {
			net += a.amount
		}
	}
	for _, r := range p.removed {
		if r.covers[budget] {
			net -= r.amount
		}
	}
	return net
}

// moves reports whether all that is taken off earlier corrections is entered
// again, for other budgets.
func (p *plan) moves() bool {
	var sum quota.Units
	for _, a := range p.added {
		sum += a.amount
	}
	for _, r := range p.removed {
		sum -= r.amount
	}
	return sum >= 0
}

// correction is a call as which an amount may be entered.
type correction struct {
	call   quota.Call
	covers coverage
}

// corrections returns one correction for each set of budgets with a reading that
// some call counts for: the one that touches the fewest other budgets.
func (b *books) corrections() []correction {
	methods, lanes, regions := []string{Job}, []string{Lane}, []string{""}
	for i := range b.balances {
		budget := &b.balances[i].Budget
		methods = append(append(methods, budget.Methods...), budget.Except...)
		lanes, regions = append(lanes, budget.Lanes...), append(regions, budget.Regions...)
	}
	var all []correction
	known := map[string]int{} // place in all, by the set
	for _, method := range distinct(methods) {
		for _, lane := range distinct(lanes) {
			for _, region := range distinct(regions) {
				caller := quota.Caller{Lane: lane, Job: Job, Region: region}
				c := correction{quota.Call{Account: b.account, Method: method, Caller: caller}, b.covering(method, caller)}
				set := b.named(c.covers)
				at, ok := known[set.key()]
				switch {
				case !slices.Contains(set, true):
				case !ok:
					known[set.key()] = len(all)
					all = append(all, c)
				case b.touched(c.covers) < b.touched(all[at].covers):
					all[at] = c
				}
			}
		}
	}
	return all
}

// distinct returns the words without repetitions, in their order.
func distinct(words []string) []string {
	var all []string
	for _, word := range words {
		if !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return all
}

// touched weighs the budgets without a reading that count something; those that
// were reconciled before weigh more than all others.
func (b *books) touched(covers coverage) (weight int) {
	for i, covered := range covers {
		if _, named := b.targets[i]; !covered || named {
			continue
		}
		if weight++; b.marked[i] {
			weight += len(covers)
		}
	}
	return weight
}

// untouched reports whether a set has no budget that was reconciled before.
func (b *books) untouched(covers coverage) bool {
	for i := range b.marked {
		if covers[i] {
			return false
		}
	}
	return true
}

// stock is what may be taken off entries that count for the same budgets.
type stock struct {
	covers  coverage
	cost    int64
	entries []*quota.Entry // newest first
	amount  quota.Units
}

// The costs of what a plan may do for one unit, each far above the one before.
// Among plans that are equal in these, the one that enters the most units wins: it
// counts as little as possible for several budgets at once.
const (
	costCorrection = 1 << 12 // take it off an earlier correction
	costCall       = 1 << 24 // take it off a call
	costMissing    = 1 << 36 // leave it, since it cannot be taken off
)

// stocks returns what may be taken off: earlier corrections and notes, and with
// force calls too.
func (b *books) stocks(force bool) []*stock {
	type group struct {
		cost   int64
		covers string
	}
	var all []*stock
	known := map[group]*stock{}
	for i := range b.entries {
		e := &b.entries[i]
		amount, cost := b.amount(e), int64(costCall)
		if e.Kind == quota.EntryCorrection || e.Kind == quota.EntryNote {
			cost = costCorrection
		}
		if amount == 0 || cost == costCall && !force {
			continue
		}
		covers := b.covering(e.Method, e.Caller)
		for i := range covers {
			covers[i] = covers[i] && !e.At.Before(b.since(i))
		}
		if !slices.Contains(b.named(covers), true) {
			continue
		}
		in := group{cost, covers.key()}
		if known[in] == nil {
			known[in] = &stock{covers: covers, cost: cost}
			all = append(all, known[in])
		}
		known[in].entries, known[in].amount = append(known[in].entries, e), known[in].amount+amount
	}
	return all
}

// plan finds what brings every budget to its reading, without touching budgets
// that were reconciled before if it can.
func (b *books) plan(force bool) (*plan, error) {
	corrections, stocks := b.corrections(), b.stocks(force)
	freeCorrections := slices.DeleteFunc(slices.Clone(corrections), func(c correction) bool { return !b.untouched(c.covers) })
	freeStocks := slices.DeleteFunc(slices.Clone(stocks), func(s *stock) bool { return !b.untouched(s.covers) })
	found, ok := b.search(freeCorrections, freeStocks, false)
	if !ok {
		found, ok = b.search(corrections, stocks, false)
	}
	if !ok && force && len(b.targets) == 1 { // as far as it comes
		found, ok = b.search(freeCorrections, freeStocks, true)
	}
	if !ok {
		return nil, b.impossible()
	}
	sum := quota.Units(0)
	for _, a := range found.added {
		sum += a.amount
	}
	if b.measure == quota.Calls && sum > maxCalls {
		return nil, rejected("%s: %d calls are missing; at most %d are entered at once", b.names(), sum, maxCalls)
	}
	return found, nil
}

// search finds the cheapest plan made of corrections and stocks. Partly allows
// it to lower less than it should.
func (b *books) search(corrections []correction, stocks []*stock, partly bool) (*plan, bool) {
	p := &program{}
	rows := map[int]int{} // by budget
	for i := range b.balances {
		if target, named := b.targets[i]; named {
			rows[i] = p.addRow(int64(target - b.balances[i].Used))
		}
	}
	bounds := make([]int, len(stocks))
	for i, s := range stocks {
		bounds[i] = p.addRow(int64(s.amount))
	}
	column := func(covers coverage, sign int64) map[int]int64 {
		coefficients := map[int]int64{}
		for budget, row := range rows {
			if covers[budget] {
				coefficients[row] = sign
			}
		}
		return coefficients
	}
	for _, c := range corrections {
		p.addColumn(-1, column(c.covers, 1))
	}
	for i, s := range stocks {
		coefficients := column(s.covers, -1)
		coefficients[bounds[i]] = 1
		p.addColumn(s.cost, coefficients)
	}
	for _, row := range bounds {
		p.addColumn(0, map[int]int64{row: 1})
	}
	if partly {
		for _, row := range rows {
			p.addColumn(costMissing, map[int]int64{row: -1})
		}
	}
	solution, ok := p.solve()
	if !ok {
		return nil, false
	}
	found := &plan{}
	for i, c := range corrections {
		if n := quota.Units(solution[i]); n > 0 {
			found.added = append(found.added, addition{c, n})
		}
	}
	for i, s := range stocks {
		left := quota.Units(solution[len(corrections)+i])
		for _, e := range s.entries {
			if taken := min(left, b.amount(e)); taken > 0 {
				found.removed = append(found.removed, removal{*e, s.covers, taken})
				left -= taken
			}
		}
	}
	return found, true
}

// names returns the budgets that have a reading.
func (b *books) names() string {
	var names []string
	for i := range b.balances {
		if _, named := b.targets[i]; named {
			names = append(names, b.balances[i].Budget.Name)
		}
	}
	return strings.Join(names, ", ")
}

// impossible returns an error that says why no plan leads to the readings.
func (b *books) impossible() error {
	if len(b.targets) == 1 {
		return rejected("%s: nothing that could be entered counts for it alone; widen its methods, lanes or regions", b.names())
	}
	return rejected("%s cannot hold these numbers together: what is entered now counts for every budget that covers it, in each of their windows, and only the newest %d entries can be lowered; check the numbers, or reconcile fewer budgets",
		b.names(), quota.MaxSettle)
}

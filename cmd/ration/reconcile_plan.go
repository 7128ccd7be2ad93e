package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// steps are what a reconciliation does.
type steps struct {
	added   []addition
	removed []removal
}

// addition is an amount to be entered.
type addition struct {
	kind
	amount quota.Units
}

// removal is an amount to be taken off an entry.
type removal struct {
	entry  quota.Entry
	covers coverage
	amount quota.Units
}

// net returns by how much the steps raise a budget.
func (s *steps) net(budget int) (net quota.Units) {
	for _, a := range s.added {
		if a.covers[budget] {
			net += a.amount
		}
	}
	for _, r := range s.removed {
		if r.covers[budget] {
			net -= r.amount
		}
	}
	return net
}

// move reports whether all that is taken off earlier corrections is entered
// again, for other budgets.
func (s *steps) move() bool {
	var sum quota.Units
	for _, a := range s.added {
		sum += a.amount
	}
	for _, r := range s.removed {
		sum -= r.amount
	}
	return sum >= 0
}

// stock is what may be taken off entries that count for the same budgets.
type stock struct {
	covers  coverage
	cost    int64
	entries []quota.Entry // newest first
	amount  quota.Units
}

// The costs of what a plan may do, each far above what may be done of the one
// before. Among plans that are equal in these, the one that enters the most units
// wins: it counts as little as possible for several budgets at once.
const (
	costCorrection = 1 << 12 // take a unit off an earlier correction
	costCall       = 1 << 24 // take a unit off a call
	costMissing    = 1 << 36 // leave a unit that could not be taken off
)

// stocks returns what may be taken off: earlier corrections, and with force calls too.
func (b *books) stocks(force bool) []*stock {
	var all []*stock
	known := map[string]*stock{}
	for _, e := range slices.Backward(b.entries) {
		amount, cost := b.amount(e), int64(costCorrection)
		if driftOf(e) == "" {
			cost = costCall
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
		key := fmt.Sprint(cost, covers)
		if known[key] == nil {
			known[key] = &stock{covers: covers, cost: cost}
			all = append(all, known[key])
		}
		s := known[key]
		s.entries, s.amount = append(s.entries, e), s.amount+amount
	}
	return all
}

// plan finds steps after which every named budget holds its number: without
// touching budgets that were reconciled before if it can.
func (b *books) plan(force bool) (*steps, error) {
	kinds, stocks := b.kinds(b.balances[0].Budget.Account), b.stocks(force)
	untouched := func(covers coverage) bool {
		for i := range b.marked {
			if covers[i] {
				return false
			}
		}
		return true
	}
	freeKinds := slices.DeleteFunc(slices.Clone(kinds), func(c kind) bool { return !untouched(c.covers) })
	freeStocks := slices.DeleteFunc(slices.Clone(stocks), func(s *stock) bool { return !untouched(s.covers) })
	found, ok := b.search(freeKinds, freeStocks, false)
	if !ok {
		found, ok = b.search(kinds, stocks, false)
	}
	if !ok && force && len(b.targets) == 1 { // as far as it comes
		found, ok = b.search(freeKinds, freeStocks, true)
	}
	if !ok {
		return nil, &usageError{b.impossible()}
	}
	calls := quota.Units(0)
	for _, a := range found.added {
		calls += a.amount
	}
	if b.measure == quota.Calls && calls > maxReconciledCalls {
		return nil, &usageError{fmt.Errorf("%s: %d calls are missing; at most %d are entered at once", safe(b.names()), calls, maxReconciledCalls)}
	}
	return found, nil
}

// search finds the cheapest steps that may be made of kinds and stocks. Partly
// allows it to lower less than it should.
func (b *books) search(kinds []kind, stocks []*stock, partly bool) (*steps, bool) {
	p := &program{}
	rows := map[int]int{}
	for i := range b.balances {
		if target, named := b.targets[i]; named {
			rows[i] = p.row(int64(target - b.balances[i].Used))
		}
	}
	bounds := make([]int, len(stocks))
	for i, s := range stocks {
		bounds[i] = p.row(int64(s.amount))
	}
	signed := func(covers coverage, sign int64) map[int]int64 {
		coefficients := map[int]int64{}
		for budget, row := range rows {
			if covers[budget] {
				coefficients[row] = sign
			}
		}
		return coefficients
	}
	for _, c := range kinds {
		p.column(-1, signed(c.covers, 1))
	}
	for i, s := range stocks {
		coefficients := signed(s.covers, -1)
		coefficients[bounds[i]] = 1
		p.column(s.cost, coefficients)
	}
	for _, row := range bounds {
		p.column(0, map[int]int64{row: 1})
	}
	if partly {
		for _, row := range rows {
			p.column(costMissing, map[int]int64{row: -1})
		}
	}
	solution, ok := p.solve()
	if !ok {
		return nil, false
	}
	found := &steps{}
	for i, c := range kinds {
		if n := quota.Units(solution[i]); n > 0 {
			found.added = append(found.added, addition{c, n})
		}
	}
	for i, s := range stocks {
		found.removed = append(found.removed, s.take(quota.Units(solution[len(kinds)+i]), b)...)
	}
	return found, true
}

// take takes an amount off the newest entries of a stock.
func (s *stock) take(amount quota.Units, b *books) (removed []removal) {
	for _, e := range s.entries {
		if amount == 0 {
			break
		}
		taken := min(amount, b.amount(e))
		removed = append(removed, removal{e, s.covers, taken})
		amount -= taken
	}
	return removed
}

func (b *books) names() string {
	var names []string
	for i := range b.balances {
		if _, named := b.targets[i]; named {
			names = append(names, b.balances[i].Budget.Name)
		}
	}
	return strings.Join(names, ", ")
}

// impossible returns an error that says why no corrections lead to the numbers.
func (b *books) impossible() error {
	if len(b.targets) == 1 {
		return fmt.Errorf("%s: nothing that could be entered counts for it alone; widen its methods, lanes or regions", safe(b.names()))
	}
	return fmt.Errorf("%s cannot hold these numbers together: what is entered now counts for every budget that covers it, in each of their windows, and only the newest %d entries can be lowered; check the numbers, or reconcile fewer budgets",
		safe(b.names()), quota.MaxSettle)
}

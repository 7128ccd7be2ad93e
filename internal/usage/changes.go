package usage

import (
	"slices"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// changes are what brings the budgets to their readings.
type changes struct {
	added   []addition
	removed []removal
}

// addition is an amount to record.
type addition struct {
	correction
	amount quota.Units
}

// removal is an amount by which to lower an entry.
type removal struct {
	entry  quota.Entry
	covers budgetSet
	amount quota.Units
}

// net returns by how much the changes raise a budget.
func (c *changes) net(budget int) (net quota.Units) {
	for _, a := range c.added {
		if a.covers[budget] {
			net += a.amount
		}
	}
	for _, r := range c.removed {
		if r.covers[budget] {
			net -= r.amount
		}
	}
	return net
}

// correction is a call that an amount may be recorded as.
type correction struct {
	call   quota.Call
	covers budgetSet
}

// corrections returns one correction for each set of budgets with a reading
// that a call can count for: the one that affects the fewest other budgets.
func (s *snapshot) corrections() []correction {
	methods := []string{ReconcileJob}
	lanes := []string{ReconcileLane}
	regions := []string{""}
	for i := range s.balances {
		budget := &s.balances[i].Budget
		methods = append(append(methods, budget.Methods...), budget.Except...)
		lanes = append(lanes, budget.Lanes...)
		regions = append(regions, budget.Regions...)
	}
	var all []correction
	known := map[string]int{} // index in all, by set
	for _, method := range distinct(methods) {
		for _, lane := range distinct(lanes) {
			for _, region := range distinct(regions) {
				caller := quota.Caller{Lane: lane, Job: ReconcileJob, Region: region}
				c := correction{quota.Call{Account: s.account, Method: method, Caller: caller},
					s.covering(method, caller)}
				set := s.named(c.covers)
				at, ok := known[set.key()]
				switch {
				case !slices.Contains(set, true):
				case !ok:
					known[set.key()] = len(all)
					all = append(all, c)
				case s.sideEffects(c.covers) < s.sideEffects(all[at].covers):
					all[at] = c
				}
			}
		}
	}
	return all
}

// distinct returns words in their order, without repetitions.
func distinct(words []string) []string {
	var all []string
	for _, word := range words {
		if !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return all
}

// sideEffects weighs the budgets of a set that have no reading. One that was
// reconciled before weighs more than all that were not.
func (s *snapshot) sideEffects(covers budgetSet) (weight int) {
	for i, covered := range covers {
		if _, named := s.targets[i]; !covered || named {
			continue
		}
		if weight++; s.reconciled[i] {
			weight += len(covers)
		}
	}
	return weight
}

// hasReconciled reports whether a set contains a budget that was reconciled
// before.
func (s *snapshot) hasReconciled(covers budgetSet) bool {
	for i := range s.reconciled {
		if covers[i] {
			return true
		}
	}
	return false
}

// stock is entries of the same cost that may be lowered and count for the same
// budgets.
type stock struct {
	covers  budgetSet
	cost    int64
	entries []*quota.Entry // newest first
	amount  quota.Units    // what they add up to
}

// The costs of changing one unit, each far above the one before. Among changes
// of equal cost, those that add the most units win: they count as little as
// possible for several budgets at once.
const (
	costCorrection = 1 << 12 // lower an earlier correction
	costCall       = 1 << 24 // lower a call
	costMissing    = 1 << 36 // leave the unit, because it cannot be removed
)

// stocks returns the entries that may be lowered: earlier corrections and notes
// and, with force, calls.
func (s *snapshot) stocks(force bool) []*stock {
	type group struct {
		cost   int64
		covers string
	}
	var all []*stock
	known := map[group]*stock{}
	for i := range s.entries {
		e := &s.entries[i]
		amount, cost := e.Amounts().Of(s.measure), int64(costCall)
		if e.Kind == quota.EntryCorrection || e.Kind == quota.EntryNote {
			cost = costCorrection
		}
		if amount == 0 || cost == costCall && !force {
			continue
		}
		covers := s.covering(e.Method, e.Caller)
		for i := range covers {
			covers[i] = covers[i] && !e.At.Before(s.balances[i].Since)
		}
		if !slices.Contains(s.named(covers), true) {
			continue
		}
		in := group{cost, covers.key()}
		if known[in] == nil {
			known[in] = &stock{covers: covers, cost: cost}
			all = append(all, known[in])
		}
		known[in].entries = append(known[in].entries, e)
		known[in].amount += amount
	}
	return all
}

// findChanges returns what brings every budget to its reading, if possible
// without affecting budgets that were reconciled before.
func (s *snapshot) findChanges(force bool) (*changes, error) {
	corrections, stocks := s.corrections(), s.stocks(force)
	freeCorrections := slices.DeleteFunc(slices.Clone(corrections),
		func(c correction) bool { return s.hasReconciled(c.covers) })
	freeStocks := slices.DeleteFunc(slices.Clone(stocks), func(st *stock) bool { return s.hasReconciled(st.covers) })
	found, ok := s.search(freeCorrections, freeStocks, false)
	if !ok {
		found, ok = s.search(corrections, stocks, false)
	}
	if !ok && force && len(s.targets) == 1 { // as far as possible
		found, ok = s.search(freeCorrections, freeStocks, true)
	}
	if !ok {
		return nil, s.impossible()
	}
	sum := quota.Units(0)
	for _, a := range found.added {
		sum += a.amount
	}
	if s.measure == quota.Calls && sum > maxCalls {
		return nil,
			rejected("%s: %d calls are missing, more than the %d that can be recorded at once; check the number",
				s.names(), sum, maxCalls)
	}
	return found, nil
}

// search returns the cheapest changes made of corrections and stocks, and false
// if there are none. partly allows them to lower less than they should.
func (s *snapshot) search(corrections []correction, stocks []*stock, partly bool) (*changes, bool) {
	p := &program{}
	rows := map[int]int{} // by budget
	for i := range s.balances {
		if target, named := s.targets[i]; named {
			rows[i] = p.addRow(int64(target - s.balances[i].Used))
		}
	}
	bounds := make([]int, len(stocks))
	for i, st := range stocks {
		bounds[i] = p.addRow(int64(st.amount))
	}
	column := func(covers budgetSet, sign int64) map[int]int64 {
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
	for i, st := range stocks {
		coefficients := column(st.covers, -1)
		coefficients[bounds[i]] = 1
		p.addColumn(st.cost, coefficients)
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
	found := &changes{}
	for i, c := range corrections {
		if n := quota.Units(solution[i]); n > 0 {
			found.added = append(found.added, addition{c, n})
		}
	}
	for i, st := range stocks {
		left := quota.Units(solution[len(corrections)+i])
		for _, e := range st.entries {
			if taken := min(left, e.Amounts().Of(s.measure)); taken > 0 {
				found.removed = append(found.removed, removal{*e, st.covers, taken})
				left -= taken
			}
		}
	}
	return found, true
}

// names returns the names of the budgets that have a reading.
func (s *snapshot) names() string {
	var names []string
	for i := range s.balances {
		if _, named := s.targets[i]; named {
			names = append(names, s.balances[i].Budget.Name)
		}
	}
	return strings.Join(names, ", ")
}

// impossible returns an error that says why no changes lead to the readings.
func (s *snapshot) impossible() error {
	if len(s.targets) == 1 {
		return rejected("%s: no correction counts for it alone; widen its methods, lanes or regions", s.names())
	}
	return rejected("%s cannot hold these numbers together: a correction counts for every budget that covers it, in "+
		"each of their windows, and only the newest %d entries can be lowered; check the numbers, or reconcile "+
		"fewer budgets",
		s.names(), maxEntries)
}

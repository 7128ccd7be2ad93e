package usage

import (
	"math/big"
	"slices"
)

// program is a linear program: find variables of at least 0 that satisfy every
// row, an equation, at the least cost. Rows are added before columns.
// Arithmetic is exact, since amounts of 48 bits and costs of 36 bits exceed a
// float64.
type program struct {
	right   []*big.Rat
	columns [][]int64 // a column's coefficient in each row; short ones end in zeros
	costs   []int64
}

// addRow adds an equation and returns its index.
func (p *program) addRow(right int64) int {
	p.right = append(p.right, big.NewRat(right, 1))
	return len(p.right) - 1
}

// addColumn adds a variable with a cost.
func (p *program) addColumn(cost int64, coefficients map[int]int64) {
	column := make([]int64, len(p.right))
	for row, coefficient := range coefficients {
		column[row] = coefficient
	}
	p.columns, p.costs = append(p.columns, column), append(p.costs, cost)
}

// maxBranches is how many times solve may bound a variable. Fractions are rare:
// it takes three budgets that overlap in pairs.
const maxBranches = 12

// solve returns the cheapest solution in whole numbers, or false if it finds
// none.
func (p *program) solve() ([]int64, bool) {
	solution, ok := p.branch(maxBranches)
	if !ok {
		return nil, false
	}
	whole := make([]int64, len(solution))
	for j, x := range solution {
		if !x.Num().IsInt64() {
			return nil, false
		}
		whole[j] = x.Num().Int64()
	}
	return whole, true
}

// branch solves the program by branch and bound: if a variable is a fraction,
// it bounds it by the whole numbers below and above, and returns the cheaper
// solution.
func (p *program) branch(left int) ([]*big.Rat, bool) {
	solution, ok := p.relax()
	if !ok {
		return nil, false
	}
	j := slices.IndexFunc(solution, func(x *big.Rat) bool { return !x.IsInt() })
	if j < 0 {
		return solution, true
	}
	if left == 0 {
		return nil, false
	}
	floor := new(big.Int).Div(solution[j].Num(), solution[j].Denom()).Int64()
	low, lowOK := p.bounded(j, floor, 1).branch(left - 1)
	high, highOK := p.bounded(j, floor+1, -1).branch(left - 1)
	switch {
	case !lowOK && !highOK:
		return nil, false
	case !highOK, lowOK && p.cost(low).Cmp(p.cost(high)) <= 0:
		return low[:len(p.columns)], true
	}
	return high[:len(p.columns)], true
}

// bounded returns the program with one more equation: variable j plus slack
// times a new variable is bound.
func (p *program) bounded(j int, bound, slack int64) *program {
	more := &program{right: slices.Clone(p.right), columns: slices.Clone(p.columns), costs: slices.Clone(p.costs)}
	row := more.addRow(bound)
	column := make([]int64, row+1)
	copy(column, more.columns[j])
	column[row] = 1
	more.columns[j] = column
	more.addColumn(0, map[int]int64{row: slack})
	return more
}

func (p *program) cost(solution []*big.Rat) *big.Rat {
	sum := new(big.Rat)
	for j, cost := range p.costs {
		sum.Add(sum, new(big.Rat).Mul(big.NewRat(cost, 1), solution[j]))
	}
	return sum
}

// relax returns the cheapest solution, which may have fractions. It uses the
// simplex method with Bland's rule, which always terminates, on a dense
// tableau: there are only as many rows as budgets and stocks.
func (p *program) relax() ([]*big.Rat, bool) {
	rows, n := len(p.right), len(p.columns)
	t := &tableau{basis: make([]int, rows)}
	// The initial solution consists of artificial variables, one for each row,
	// at a cost that drives them out.
	penalty := int64(1)
	for _, cost := range p.costs {
		penalty += 1000 * max(cost, -cost)
	}
	for i := range rows {
		sign := int64(1)
		if p.right[i].Sign() < 0 {
			sign = -1
		}
		line := make([]*big.Rat, n+rows+1)
		for j := range line {
			line[j] = new(big.Rat)
		}
		for j, column := range p.columns {
			if i < len(column) {
				line[j].SetInt64(sign * column[i])
			}
		}
		line[n+i].SetInt64(1)
		line[n+rows].Mul(p.right[i], big.NewRat(sign, 1))
		t.lines, t.basis[i] = append(t.lines, line), n+i
	}
	t.costs = make([]*big.Rat, n+rows)
	for j := range t.costs {
		t.costs[j] = big.NewRat(penalty, 1)
		if j < n {
			t.costs[j].SetInt64(p.costs[j])
		}
	}
	for t.improve() {
	}
	solution := make([]*big.Rat, n)
	for j := range solution {
		solution[j] = new(big.Rat)
	}
	for i, j := range t.basis {
		if j < n {
			solution[j] = t.lines[i][n+rows]
		} else if t.lines[i][n+rows].Sign() != 0 {
			return nil, false
		}
	}
	return solution, true
}

// tableau is the state of the simplex method.
type tableau struct {
	lines [][]*big.Rat // coefficients, and at the end the right side
	basis []int        // the basic variable of each line
	costs []*big.Rat
}

// improve replaces one variable of the basis by one that lowers the cost, and
// reports whether there was one.
func (t *tableau) improve() bool {
	for j := range t.costs {
		reduced := new(big.Rat).Set(t.costs[j])
		for i, line := range t.lines {
			reduced.Sub(reduced, new(big.Rat).Mul(t.costs[t.basis[i]], line[j]))
		}
		if reduced.Sign() >= 0 {
			continue
		}
		if pivot := t.leaving(j); pivot >= 0 {
			t.exchange(pivot, j)
			return true
		}
	}
	return false
}

// leaving returns the line whose variable is the first to reach 0 as variable j
// grows, or -1 if none does.
func (t *tableau) leaving(j int) int {
	found, least := -1, new(big.Rat)
	for i, line := range t.lines {
		if line[j].Sign() <= 0 {
			continue
		}
		ratio := new(big.Rat).Quo(line[len(line)-1], line[j])
		order := ratio.Cmp(least)
		winsTie := found >= 0 && order == 0 && t.basis[i] < t.basis[found]
		if found < 0 || order < 0 || winsTie {
			found, least = i, ratio
		}
	}
	return found
}

// exchange makes j the basic variable of the line pivot.
func (t *tableau) exchange(pivot, j int) {
	line := t.lines[pivot]
	by := new(big.Rat).Inv(line[j])
	for k := range line {
		line[k] = new(big.Rat).Mul(line[k], by)
	}
	for i, other := range t.lines {
		if factor := new(big.Rat).Set(other[j]); i != pivot && factor.Sign() != 0 {
			for k := range other {
				other[k] = new(big.Rat).Sub(other[k], new(big.Rat).Mul(factor, line[k]))
			}
		}
	}
	t.basis[pivot] = j
}

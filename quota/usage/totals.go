package usage

import (
	"cmp"
	"context"
	"hash/maphash"
	"iter"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Total adds up the entries of an account that have the same name in a
// dimension.
type Total struct {
	By      string      `json:"by"`
	Name    string      `json:"name"`
	Account string      `json:"account"`
	Units   quota.Units `json:"units"`
	Calls   quota.Units `json:"calls"`
	Share   float64     `json:"share"` // of all selected units of the account, 0 to 1
	First   time.Time   `json:"first"`
	Last    time.Time   `json:"last"`
}

// Totals is a Total for each account and name. There can be as many runs as
// entries, so it holds 56 bytes for each, without pointers, and makes Total
// values as they are asked for.
type Totals struct {
	by       string
	accounts []accountTotal
	names    []string          // except of runs, whose names are those of their clients
	known    map[string]uint64 // the index of each of names

	seed   maphash.Seed
	slots  []uint32  // a hash table of 1 + the index into groups; 0 is free
	groups [][]group // of chunk groups each, so that growing copies nothing
	n      int       // groups
}

// accountTotal is the units of all groups of an account.
type accountTotal struct {
	name  string
	units quota.Units
}

// groupKey identifies a group: an index into accounts, and the client of a run
// or an index into names.
type groupKey struct {
	account uint32
	name    uint64
}

// group is what a Total says, with times in microseconds.
type group struct {
	groupKey
	units, calls quota.Units
	first, last  int64
}

// chunk is how many groups are allocated at once.
const chunk = 128

func newTotals(by string) *Totals {
	return &Totals{by: by, known: map[string]uint64{}, seed: maphash.MakeSeed(), slots: make([]uint32, 64)}
}

// Totals adds up the selected entries by one of the Dimensions. Memory holds
// the sums of the ledger or, for runs, a page of its entries, and the Totals.
func (s *LogReader) Totals(ctx context.Context, by string) (*Totals, error) {
	t := newTotals(by)
	for _, account := range s.Accounts {
		for sum, err := range s.sums(ctx, account, s.Since, s.Until, by == "run") {
			if err != nil {
				return nil, err
			}
			t.add(account, &sum)
		}
	}
	return t, nil
}

// TotalsOf adds up lines by one of the Dimensions.
func TotalsOf(lines []Line, by string) *Totals {
	t := newTotals(by)
	for i := range lines {
		p := partOf(&lines[i].Entry)
		t.add(lines[i].Account, &p)
	}
	return t
}

// Len returns the number of totals.
func (t *Totals) Len() int { return t.n }

// Accounts returns the number of accounts that have totals.
func (t *Totals) Accounts() int { return len(t.accounts) }

// Units returns the units of all totals.
func (t *Totals) Units() (n quota.Units) {
	for _, account := range t.accounts {
		n += account.units
	}
	return n
}

func (t *Totals) at(i uint32) *group { return &t.groups[i/chunk][i%chunk] }

func (t *Totals) add(account string, s *part) {
	g := t.group(groupKey{t.account(account), t.key(s)}, s)
	t.accounts[g.account].units += s.Units
	g.units += s.Units
	g.calls += s.Calls
	g.first = min(g.first, s.First.UnixMicro())
	g.last = max(g.last, s.Last.UnixMicro())
}

// account returns the index of an account. Few logs are read, one after the
// other, so it is near the end.
func (t *Totals) account(name string) uint32 {
	for i := len(t.accounts) - 1; i >= 0; i-- {
		if t.accounts[i].name == name {
			return uint32(i)
		}
	}
	t.accounts = append(t.accounts, accountTotal{name: name})
	return uint32(len(t.accounts) - 1)
}

// key returns groupKey.name of a sum.
func (t *Totals) key(s *part) uint64 {
	if t.by == "run" {
		return s.client
	}
	name := nameIn(t.by, s)
	key, known := t.known[name]
	if !known {
		key = uint64(len(t.names))
		t.names = append(t.names, name)
		t.known[name] = key
	}
	return key
}

// group returns the group of a key, which s may be the first sum of.
func (t *Totals) group(key groupKey, s *part) *group {
	slot := t.slot(key)
	if *slot > 0 {
		return t.at(*slot - 1)
	}
	if t.n%chunk == 0 {
		t.groups = append(t.groups, make([]group, chunk))
	}
	t.n++
	*slot = uint32(t.n)
	g := t.at(*slot - 1)
	*g = group{groupKey: key, first: s.First.UnixMicro(), last: s.Last.UnixMicro()}
	if t.n*4 > len(t.slots)*3 {
		t.slots = make([]uint32, 2*len(t.slots))
		for i := range uint32(t.n) {
			*t.slot(t.at(i).groupKey) = i + 1
		}
	}
	return g
}

// slot returns the slot of a key: the free one where it belongs if there is no
// group of it.
func (t *Totals) slot(key groupKey) *uint32 {
	mask := uint64(len(t.slots) - 1)
	for i := maphash.Comparable(t.seed, key) & mask; ; i = (i + 1) & mask {
		if slot := &t.slots[i]; *slot == 0 || t.at(*slot-1).groupKey == key {
			return slot
		}
	}
}

// Largest yields the n totals of most units, or all if n is 0, largest first. A
// share is of its own account, because another account may count other units.
func (t *Totals) Largest(n int) iter.Seq[Total] {
	return func(yield func(Total) bool) {
		order := make([]uint32, t.n)
		for i := range order {
			order[i] = uint32(i)
		}
		slices.SortFunc(order, func(i, j uint32) int { return t.compare(t.at(i), t.at(j)) })
		if n > 0 {
			order = order[:min(n, len(order))]
		}
		for _, i := range order {
			if !yield(t.total(t.at(i))) {
				return
			}
		}
	}
}

func (t *Totals) compare(x, y *group) int {
	if c := cmp.Or(cmp.Compare(y.units, x.units), cmp.Compare(y.calls, x.calls)); c != 0 {
		return c
	}
	names := cmp.Compare(x.name, y.name) // of clients of 48 bits, the order of their names
	if t.by != "run" {
		names = cmp.Compare(t.names[x.name], t.names[y.name])
	}
	return cmp.Or(names, cmp.Compare(t.accounts[x.account].name, t.accounts[y.account].name))
}

func (t *Totals) total(g *group) Total {
	account := t.accounts[g.account]
	total := Total{By: t.by, Account: account.name, Units: g.units, Calls: g.calls, First: time.UnixMicro(g.first).UTC(), Last: time.UnixMicro(g.last).UTC()}
	if account.units > 0 {
		total.Share = float64(g.units) / float64(account.units)
	}
	if t.by == "run" {
		total.Name = Run(g.name)
	} else {
		total.Name = t.names[g.name]
	}
	return total
}

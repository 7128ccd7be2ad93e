package quota

import (
	"cmp"
	"context"
	"slices"

	"github.com/ration-dev/ration/internal/engine"
)

// KeySummary is the state of an account's keys.
type KeySummary struct {
	// Fullest are the balances of the budgets with PerKey, in the guard's order,
	// for each of the fullest keys, which Balance.Key names.
	Fullest [][]Balance
	Used    map[string]int // how many keys have used some of a budget with PerKey, by its name
	Full    map[string]int // how many of them have nothing left
	Read    int            // how many keys were compared: at most MaxKeys, in the order of their names
	All     bool           // these were all keys of the account
}

// keysAtOnce is how many keys are read before callers of the account get their
// turn.
const keysAtOnce = 500

// TopKeys returns the n keys of an account that have used the largest part
// of a limit, largest first, and how many keys there are. Without a budget with
// PerKey there are none.
func (g *Guard) TopKeys(ctx context.Context, account string, n int) (*KeySummary, error) {
	budgets := slices.DeleteFunc(slices.Clone(g.accounts[account]), func(b chargedBudget) bool {
		return b.Shadow || !b.PerKey
	})
	s := &KeySummary{Used: map[string]int{}, Full: map[string]int{}, All: true}
	if len(budgets) == 0 {
		return s, nil
	}
	charges := chargesOf(budgets)
	var keys []string
	if err := g.Account(account).View(ctx, func(v *engine.View) { keys = v.Keys() }); err != nil {
		return nil, opError("keys of "+account, err)
	}
	if s.All = len(keys) <= MaxKeys; !s.All {
		keys = keys[:MaxKeys]
	}
	s.Read = len(keys)
	fullest, err := g.compareKeys(ctx, account, keys, charges, s)
	if err != nil {
		return nil, opError("balances of the keys of "+account, err)
	}
	for _, key := range fullest[:min(n, len(fullest))] {
		states, err := g.states(ctx, account, key, charges)
		if err != nil {
			return nil, opError("balances of a key of "+account, err)
		}
		balances := make([]Balance, len(budgets))
		for i, c := range charges {
			balances[i] = c.balance(key, &states[i])
		}
		s.Fullest = append(s.Fullest, balances)
	}
	return s, nil
}

// compareKeys returns the keys with the largest part of a limit first, and adds
// them to the counts of the charges.
func (g *Guard) compareKeys(ctx context.Context, account string, keys []string, charges []*charge,
	s *KeySummary) ([]string, error) {
	shares := make(map[string]float64, len(keys))
	for some := range slices.Chunk(keys, keysAtOnce) {
		err := g.Account(account).Known(ctx, func(v *engine.View) {
			for _, key := range some {
				for _, c := range charges {
					used, limit := v.Use(c.engine, key)
					shares[key] = max(shares[key], float64(used)/float64(limit))
					if used > 0 {
						s.Used[c.Name]++
					}
					if used >= limit {
						s.Full[c.Name]++
					}
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(shares[b], shares[a]) })
	return keys, nil
}

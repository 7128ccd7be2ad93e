package quota

import (
	"cmp"
	"context"
	"slices"
)

// KeyBalance is the state of an account's budgets with PerKey for one key.
type KeyBalance struct {
	Key      string
	Balances []Balance // one for each of these budgets, in the guard's order; without Floors
}

// share returns Used divided by the limit for the fullest budget.
func (k *KeyBalance) share() (share float64) {
	for _, b := range k.Balances {
		share = max(share, float64(b.Used)/float64(b.Limit()))
	}
	return share
}

// MaxKeys is the most keys that FullestKeys reads.
const MaxKeys = 10_000

// FullestKeys returns the n keys of an account that have used the largest part
// of a limit, largest first. read is how many keys it compared: at most
// MaxKeys, in the order in which the ledger lists them. all reports whether
// these were all keys of the account. Without a budget with PerKey there are
// none.
func (g *Guard) FullestKeys(ctx context.Context, account string, n int) (fullest []KeyBalance, read int, all bool, err error) {
	budgets := slices.DeleteFunc(slices.Clone(g.accounts[account]), func(b chargedBudget) bool {
		return g.budgets[b.index].Shadow || !g.budgets[b.index].PerKey
	})
	if len(budgets) == 0 {
		return nil, 0, true, nil
	}
	charges := make([]*Charge, len(budgets))
	for i, b := range budgets {
		charges[i] = b.charge
	}
	for key, err := range g.log.Keys(ctx, account) {
		if err != nil {
			return nil, read, false, opError("keys of "+account, err)
		}
		if read == MaxKeys {
			return fullest, read, false, nil
		}
		standings, err := g.log.Standings(ctx, account, key, charges)
		if err != nil {
			return nil, read, false, opError("balances of a key of "+account, err)
		}
		read++
		k := KeyBalance{Key: key, Balances: make([]Balance, len(budgets))}
		for i, b := range budgets {
			k.Balances[i] = g.balance(&b, &standings[i])
		}
		fullest = append(fullest, k)
		slices.SortStableFunc(fullest, func(a, b KeyBalance) int { return cmp.Compare(b.share(), a.share()) })
		fullest = fullest[:min(n, len(fullest))]
	}
	return fullest, read, true, nil
}

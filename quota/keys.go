package quota

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// KeyBalance is what the budgets of an account hold for one key.
type KeyBalance struct {
	Key      string
	Balances []Balance // of the account's budgets, in the guard's order
}

// share returns how full the fullest budget is: used per limit.
func (k *KeyBalance) share() (share float64) {
	for _, b := range k.Balances {
		share = max(share, float64(b.Used)/float64(b.Budget.Limit))
	}
	return share
}

// MaxKeys is how many keyed logs FullestKeys reads.
const MaxKeys = 10_000

// FullestKeys returns the n keys of an account with the fullest budget, fullest
// first, and how many keys it read. It reads the first MaxKeys that the ledger
// lists; all reports that there were no more.
func (g *Guard) FullestKeys(ctx context.Context, account string, n int) (fullest []KeyBalance, read int, all bool, err error) {
	budgets := g.accounts[account]
	charges := make([]*Charge, len(budgets))
	for i, b := range budgets {
		charges[i] = b.charge
	}
	for key, err := range g.ledger.Keys(ctx, account) {
		if err != nil {
			return nil, read, false, opError("keys of "+account, err)
		}
		if strings.HasPrefix(key, reservedKeys) {
			continue
		}
		if read == MaxKeys {
			return fullest, read, false, nil
		}
		standings, err := g.ledger.Standings(ctx, account, key, charges)
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

// Restamp repairs an account's log and those of its keys after the ledger's
// clock was wrong: entries stamped ahead of the clock are stamped anew. It
// returns how many there were. Correct the clock first.
func (g *Guard) Restamp(ctx context.Context, account string) (changed int, err error) {
	defer g.refusals.forget()
	changed, err = g.ledger.Restamp(ctx, account, "")
	if err != nil {
		return 0, opError("restamp "+account, err)
	}
	for key, err := range g.ledger.Keys(ctx, account) {
		if err != nil {
			return changed, opError("keys of "+account, err)
		}
		n, err := g.ledger.Restamp(ctx, account, key)
		if changed += n; err != nil {
			return changed, opError("restamp a key of "+account, err)
		}
	}
	return changed, nil
}

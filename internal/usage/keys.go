package usage

import (
	"context"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// KeyReport is a key of an account, shown by the budget with PerKey that has
// the greatest part of its limit used.
type KeyReport struct {
	Account    string      `json:"account"`
	Key        string      `json:"key"`
	Budget     string      `json:"budget"`
	Used       quota.Units `json:"used"`
	Limit      quota.Units `json:"limit"`
	Remaining  quota.Units `json:"remaining"`
	Measure    string      `json:"measure"`
	Share      float64     `json:"share"` // of the limit
	NextFreeAt *time.Time  `json:"next_free_at"`
	// how far the newest entry is stamped ahead of the ledger's clock, 0 unless it is minutes
	Ahead int64 `json:"ahead_s"`
}

// KeysReport is the state of the keys of some accounts. No slice is nil.
type KeysReport struct {
	Fullest []KeyReport
	Counts  map[[2]string]KeyCount // by account and budget
	More    []string               // accounts with more keys than quota.MaxKeys, which is how many were read
}

// TopKeys returns at most n keys of each account, those that have the
// greatest part of a limit used, and how many keys there are.
func TopKeys(ctx context.Context, guard *quota.Guard, accounts []string, n int) (*KeysReport, error) {
	r := &KeysReport{Fullest: []KeyReport{}, Counts: map[[2]string]KeyCount{}, More: []string{}}
	for _, account := range accounts {
		keys, err := guard.TopKeys(ctx, account, n)
		if err != nil {
			return nil, err
		}
		if !keys.All {
			r.More = append(r.More, account)
		}
		for budget, n := range keys.Used {
			r.Counts[[2]string{account, budget}] = KeyCount{n, keys.Full[budget]}
		}
		for _, balances := range keys.Fullest {
			if one, used := newKeyReport(balances); used {
				r.Fullest = append(r.Fullest, one)
			}
		}
	}
	return r, nil
}

// Reports returns the statuses of budgets for JSON, those per key with how many
// keys have something of them.
func (r *KeysReport) Reports(statuses []BudgetStatus) (all []*BudgetReport) {
	for i := range statuses {
		b := NewBudgetReport(&statuses[i])
		if of := &statuses[i].Budget; of.PerKey && !of.Shadow {
			b.Keys = new(r.Counts[[2]string{of.Account, of.Name}])
		}
		all = append(all, b)
	}
	return all
}

// KeyCount says how many keys have something of a budget, for JSON.
type KeyCount struct {
	Used int `json:"used"` // keys with some of the limit used, but not calls without a key
	Full int `json:"full"` // those of them that have nothing left
}

// newKeyReport returns the budget of a key that has the greatest part of its
// limit used, and false when nothing is.
func newKeyReport(balances []quota.Balance) (best KeyReport, used bool) {
	for _, b := range balances {
		if share := float64(b.Used) / float64(b.Limit()); share > best.Share {
			best = KeyReport{Account: b.Budget.Account, Key: b.Key, Budget: b.Budget.Name, Used: b.Used,
				Limit:     b.Limit(),
				Remaining: b.Remaining, Measure: b.Budget.Measure.String(), Share: share,
				NextFreeAt: human.OptionalTime(b.NextFree), Ahead: human.Seconds(b.Ahead)}
			used = true
		}
	}
	return best, used
}

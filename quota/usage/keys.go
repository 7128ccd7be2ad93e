package usage

import (
	"context"
	"time"

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
	Ahead      int64       `json:"ahead_s"` // how far the newest entry is stamped ahead of the ledger's clock, 0 unless it is minutes
}

// FullestKeys returns at most n keys of each account, those that have the
// greatest part of a limit used, and the accounts that have more keys than
// quota.MaxKeys, which is how many were read. Neither slice is nil.
func FullestKeys(ctx context.Context, guard *quota.Guard, accounts []string, n int) (fullest []KeyReport, more []string, err error) {
	fullest, more = []KeyReport{}, []string{}
	for _, account := range accounts {
		keys, _, all, err := guard.FullestKeys(ctx, account, n)
		if err != nil {
			return nil, nil, err
		}
		if !all {
			more = append(more, account)
		}
		for i := range keys {
			if one, used := newKeyReport(&keys[i]); used {
				fullest = append(fullest, one)
			}
		}
	}
	return fullest, more, nil
}

// newKeyReport returns the budget of a key that has the greatest part of its
// limit used, and false when nothing is.
func newKeyReport(k *quota.KeyBalance) (best KeyReport, used bool) {
	for _, b := range k.Balances {
		if share := float64(b.Used) / float64(b.Limit()); share > best.Share {
			best = KeyReport{Account: b.Budget.Account, Key: k.Key, Budget: b.Budget.Name, Used: b.Used, Limit: b.Limit(),
				Remaining: b.Remaining, Measure: b.Budget.Measure.String(), Share: share, NextFreeAt: jsonTime(b.NextFree), Ahead: seconds(b.Ahead)}
			used = true
		}
	}
	return best, used
}

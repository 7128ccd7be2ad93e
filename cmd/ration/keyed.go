package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
)

// fullestKeys is how many keyed logs of an account are shown.
const fullestKeys = 10

// keyedStanding is the budget of a keyed log that has the greatest part of its
// limit used.
type keyedStanding struct {
	Account    string      `json:"account"`
	Key        string      `json:"key"`
	Budget     string      `json:"budget"`
	Used       quota.Units `json:"used"`
	Limit      quota.Units `json:"limit"`
	Remaining  quota.Units `json:"remaining"`
	Measure    string      `json:"measure"`
	Share      float64     `json:"share"` // of the limit
	NextFreeAt *time.Time  `json:"next_free_at"`
}

// keyedLogs returns the fullest keyed logs of each account, and the accounts
// that have more keys than were read.
func keyedLogs(ctx context.Context, guard *quota.Guard, accounts []string) (fullest []keyedStanding, more []string, err error) {
	fullest, more = []keyedStanding{}, []string{}
	for _, account := range accounts {
		keys, _, all, err := guard.FullestKeys(ctx, account, fullestKeys)
		if err != nil {
			return nil, nil, err
		}
		if !all {
			more = append(more, account)
		}
		for i := range keys {
			if one, used := newKeyedStanding(&keys[i]); used {
				fullest = append(fullest, one)
			}
		}
	}
	return fullest, more, nil
}

// newKeyedStanding returns the budget of a key that has the greatest part of its
// limit used, and false when nothing is.
func newKeyedStanding(k *quota.KeyBalance) (best keyedStanding, used bool) {
	for _, b := range k.Balances {
		if share := float64(b.Used) / float64(b.Budget.Limit); share > best.Share {
			best = keyedStanding{Account: b.Budget.Account, Key: k.Key, Budget: b.Budget.Name, Used: b.Used, Limit: b.Budget.Limit,
				Remaining: b.Remaining, Measure: b.Budget.Measure.String(), Share: share, NextFreeAt: human.Instant(b.NextFree)}
			used = true
		}
	}
	return best, used
}

// keyedTable shows the fullest keyed logs.
func (a *app) keyedTable(r *statusReport) {
	if len(r.Keyed) == 0 {
		return
	}
	fmt.Fprintln(a.stdout)
	t := a.table("key", "budget", "used", "limit", "left", "", "next to return")
	for _, k := range r.Keyed {
		next := "-"
		if k.NextFreeAt != nil {
			next = fmt.Sprintf("%s (in %s)", a.clock(roundUp(*k.NextFreeAt)), human.Duration(k.NextFreeAt.Sub(r.At)))
		}
		t.Row(human.Name(k.Key), human.Name(k.Budget), k.Used, k.Limit, k.Remaining, k.Measure, next)
	}
	t.Print()
	for _, account := range r.MoreKeys {
		fmt.Fprintf(a.stdout, "account %s has more than %d keys; these are the fullest of the first\n", human.Name(account), quota.MaxKeys)
	}
}

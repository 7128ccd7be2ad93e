package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

const (
	fullestKeys = 10   // of an account's keyed logs, how many are shown
	maxKeys     = 2000 // and how many are looked at
)

// keyLister is a ledger that knows the keys of an account's keyed logs.
type keyLister interface {
	Keys(ctx context.Context, account string) iter.Seq2[string, error]
}

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
// that have more keys than are looked at.
func keyedLogs(ctx context.Context, s *spending, table *costs.Table) (fullest []keyedStanding, more []string, err error) {
	fullest, more = []keyedStanding{}, []string{}
	lister, ok := s.ledger.Ledger.(keyLister)
	if !ok {
		return fullest, more, nil
	}
	for _, account := range accounts(table) {
		budgets := slices.DeleteFunc(table.Budgets(), func(b quota.Budget) bool { return b.Account != account })
		var charges []*quota.Charge
		for i := range budgets {
			b := &budgets[i]
			charges = append(charges, &quota.Charge{Budget: b.Name, Coverage: b.Coverage(), Limit: b.Limit, Window: b.Window})
		}
		var found []keyedStanding
		seen := 0
		for key, err := range lister.Keys(ctx, account) {
			if err != nil {
				return nil, nil, err
			}
			if strings.HasPrefix(key, "ration: ") { // the guard's own
				continue
			}
			if seen++; seen > maxKeys {
				more = append(more, account)
				break
			}
			standings, err := s.allowance.Standings(ctx, account, key, charges)
			if err != nil {
				return nil, nil, err
			}
			if one, used := fullestBudget(account, key, budgets, standings); used {
				found = append(found, one)
			}
		}
		slices.SortFunc(found, func(x, y keyedStanding) int {
			return cmp.Or(cmp.Compare(y.Share, x.Share), cmp.Compare(x.Key, y.Key))
		})
		fullest = append(fullest, found[:min(len(found), fullestKeys)]...)
	}
	return fullest, more, nil
}

// fullestBudget returns the budget of a keyed log that has the greatest part of
// its limit used, and false when nothing is.
func fullestBudget(account, key string, budgets []quota.Budget, standings []quota.Standing) (best keyedStanding, used bool) {
	for i, s := range standings {
		b := &budgets[i]
		if share := float64(s.Used) / float64(b.Limit); share > best.Share {
			best = keyedStanding{Account: account, Key: key, Budget: b.Name, Used: s.Used, Limit: b.Limit, Remaining: max(0, b.Limit-s.Used),
				Measure: b.Measure.String(), Share: share, NextFreeAt: instant(s.NextFree)}
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
			next = fmt.Sprintf("at %s (in %s)", clock(roundUp(*k.NextFreeAt)), quota.Human(k.NextFreeAt.Sub(r.At)))
		}
		t.row(safe(k.Key), safe(k.Budget), k.Used, k.Limit, k.Remaining, k.Measure, next)
	}
	t.print()
	for _, account := range r.MoreKeys {
		fmt.Fprintf(a.stdout, "account %s has more than %d keys; these are the fullest of the first\n", safe(account), maxKeys)
	}
}

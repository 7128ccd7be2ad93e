package main

import (
	"fmt"

	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
)

// fullestKeys is how many keyed logs of an account are shown.
const fullestKeys = 10

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

package client_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestWaitingCallOfAHigherLaneIsGrantedFirst: by the priorities of costs.yaml,
// and in order of arrival within a lane, in one process and over several.
func TestWaitingCallOfAHigherLaneIsGrantedFirst(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte("version: 1\naccount: p\ncosts: {m: 1}\n"+
		"budgets: [{name: one, limit: 1, window: 1m}]\nlanes: {cron: {priority: 2}, backfill: {priority: 1}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, processes := range map[string]int{"one process": 1, "several": 5} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ledger := memledger.Open(nil)
				var guards []*quota.Guard
				for range processes {
					c, err := client.New(table, &client.Options{Opened: ledger, State: t.TempDir()})
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					guards = append(guards, c.Guard())
				}
				if got, want := grantedInTurn(t, guards), []string{"first", "cron", "backfill", "again", "manual"}; !slices.Equal(got, want) {
					t.Errorf("granted to %q; want %q", got, want)
				}
			})
		})
	}
}

// grantedInTurn lets a call of each job wait, a second after the one before,
// and returns their jobs in the order in which they are granted.
func grantedInTurn(t *testing.T, guards []*quota.Guard) (granted []string) {
	var mu sync.Mutex
	var calls sync.WaitGroup
	for i, caller := range []quota.Caller{{Job: "first"}, {Job: "manual", Lane: "manual"}, {Job: "backfill", Lane: "backfill"},
		{Job: "again", Lane: "backfill"}, {Job: "cron", Lane: "cron"}} {
		call := quota.Call{Account: "p", Method: "m", Units: 1, Caller: caller}
		calls.Go(func() {
			if _, err := guards[i%len(guards)].Wait(t.Context(), call, time.Hour); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			granted = append(granted, caller.Job)
		})
		time.Sleep(time.Second)
	}
	calls.Wait()
	return granted
}

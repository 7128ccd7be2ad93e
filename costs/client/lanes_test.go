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
// and in order of arrival within a lane, in one process.
func TestWaitingCallOfAHigherLaneIsGrantedFirst(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte("version: 1\naccount: p\ncosts: {m: 1}\n"+
		"budgets: [{name: one, limit: 1, window: 1m}]\nlanes: {cron: {priority: 2}, backfill: {priority: 1}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New(table, &client.Options{Opened: memledger.Open(nil), State: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got, want := grantedInTurn(t, c.Guard()),
			[]string{"first", "cron", "backfill", "again", "manual"}; !slices.Equal(got, want) {
			t.Errorf("granted to %q; want %q", got, want)
		}
	})
}

// grantedInTurn lets a call of each job wait, a second after the one before,
// and returns their jobs in the order in which they are granted.
func grantedInTurn(t *testing.T, guard *quota.Guard) (granted []string) {
	var mu sync.Mutex
	var calls sync.WaitGroup
	for _, caller := range []quota.Caller{{Job: "first"}, {Job: "manual", Lane: "manual"},
		{Job: "backfill", Lane: "backfill"},
		{Job: "again", Lane: "backfill"}, {Job: "cron", Lane: "cron"}} {
		call := quota.Call{Account: "p", Method: "m", Units: 1, Caller: caller}
		calls.Go(func() {
			if _, err := guard.Wait(t.Context(), call, time.Hour); err != nil {
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

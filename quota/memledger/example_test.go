package memledger_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// A ledger in memory is for a process that spends a quota alone, and for tests,
// which may set its clock.
func ExampleOpen() {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	ledger := memledger.Open(&memledger.Options{Now: func() time.Time { return now }})
	defer ledger.Close()
	guard, err := quota.NewGuard(ledger, []quota.Budget{
		{Account: "my-project", Name: "minute", Limit: 1, Window: quota.Sliding(time.Minute)},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		_, err := guard.Spend(context.Background(), quota.Call{Account: "my-project", Method: "get", Units: 1})
		fmt.Println(err)
		now = now.Add(30*time.Second + time.Millisecond)
	}
	// Output:
	// <nil>
	// minute has 0 of 1 unit left, get needs 1; try again at 2026-11-20T09:01:00Z (in 30s)
	// <nil>
}

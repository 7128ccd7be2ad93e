package usage_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// The console shows 700 units, of which 200 never went through the guard.
// Reconcile records them as a correction.
func ExampleAccount() {
	ctx := context.Background()
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{
		{Account: "my-project", Name: "day", Limit: 1000, Window: quota.Sliding(24 * time.Hour)},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := guard.Spend(ctx, quota.Call{Account: "my-project", Method: "report", Units: 500}); err != nil {
		log.Fatal(err)
	}
	results, err := usage.Reconcile(ctx, guard, "my-project", []usage.Reading{{Budget: "day", Used: 700}}, false)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range results {
		fmt.Println(r.Entered, "units were missing;", r.Balance.Remaining, "are left")
	}
	// Output: 200 units were missing; 300 are left
}

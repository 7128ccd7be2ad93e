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

// Status returns each budget's balance and who spent it: by method, region,
// lane and job.
func ExampleStatus() {
	guard, err := quota.NewGuard(memledger.Open(nil), []quota.Budget{
		{Account: "my-project", Name: "day", Limit: 1000, Window: quota.Sliding(24 * time.Hour)},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	for region, units := range map[string]quota.Units{"IN": 200, "GB": 100} {
		ctx := quota.WithCaller(context.Background(),
			quota.Caller{Lane: quota.LaneCron, Job: "nightly", Region: region})
		if _, err := guard.Spend(ctx, quota.Call{Account: "my-project", Method: "report", Units: units}); err != nil {
			log.Fatal(err)
		}
	}
	statuses, err := usage.Status(context.Background(), guard)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range statuses {
		fmt.Println(s.Budget.Name, "-", s.Used, "of", s.Budget.Limit)
		fmt.Println("by region:", s.ByRegion)
	}
	// Output:
	// day - 300 of 1000
	// by region: map[GB:100 IN:200]
}

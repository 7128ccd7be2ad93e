package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/redisledger"
)

// A program without a costs.yaml puts the journal between its ledger and its
// Guard. Nothing listens at this ledger's address, so the journal grants the
// allowance, and refuses the call that exceeds it.
func ExampleNew() {
	folder, err := os.MkdirTemp("", "journal") // all processes of a host use one, on its own disk
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	const address = "redis://127.0.0.1:1/0"
	shared, err := redisledger.Open(address, nil)
	if err != nil {
		log.Fatal(err)
	}
	budgets := []quota.Budget{{Account: "my-project", Name: "day", Limit: 1000, Window: quota.Sliding(24 * time.Hour)}}
	ledger := journal.New(shared, folder, &journal.Options{
		Name:    address,
		Budgets: budgets,
		Allow:   func(quota.Call) quota.Units { return 50 },
	})
	defer ledger.Close() // closes the Redis ledger too
	guard, err := quota.NewGuard(ledger, budgets, nil)
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		_, err := guard.Spend(context.Background(), quota.Call{Account: "my-project", Method: "report", Units: 40})
		fmt.Println("granted:", err == nil, "ledger down:", errors.Is(err, quota.ErrLedgerDown))
	}
	// Output:
	// granted: true ledger down: false
	// granted: false ledger down: true
}

package sqliteledger_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// The processes of one host share a file. Units that one process spends are not
// left for the others.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for range 2 { // as two processes would
		ledger, err := sqliteledger.Open(filepath.Join(dir, "ration.db"), nil)
		if err != nil {
			log.Fatal(err)
		}
		guard, err := quota.NewGuard(ledger, []quota.Budget{
			{Account: "my-project", Name: "day", Limit: 1000, Window: quota.Sliding(24 * time.Hour)},
		}, nil)
		if err != nil {
			log.Fatal(err)
		}
		if _, err := guard.Spend(context.Background(), quota.Call{Account: "my-project", Method: "report", Units: 300}); err != nil {
			log.Fatal(err)
		}
		balances, err := guard.Balances(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(balances[0].Remaining, "left")
		ledger.Close()
	}
	// Output:
	// 700 left
	// 400 left
}

package redisledger_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// Processes on several hosts share a Redis. Open does not connect: while the
// server is down, calls fail with quota.ErrLedgerDown. The ledger reconnects by
// itself.
func ExampleOpen() {
	ledger, err := redisledger.Open(os.Getenv("REDIS_URL"), &redisledger.Options{Password: os.Getenv("REDIS_PASSWORD")})
	if err != nil {
		log.Fatal(err)
	}
	defer ledger.Close()
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
}

// TestExampleOpen runs the example, which cannot start a server itself.
func TestExampleOpen(t *testing.T) {
	t.Setenv("REDIS_URL", redistest.Start(t).URL())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = w
	ExampleOpen()
	os.Stdout = stdout
	w.Close()
	defer r.Close()
	var left int
	if _, err := fmt.Fscanf(r, "%d left\n", &left); err != nil || left != 700 {
		t.Errorf("it prints %d left, %v; want 700", left, err)
	}
}

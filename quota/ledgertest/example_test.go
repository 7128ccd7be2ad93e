package ledgertest_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// myLedger is the ledger under test; here it only wraps another.
type myLedger struct {
	quota.Ledger
}

func open(now func() time.Time) *myLedger {
	return &myLedger{memledger.Open(&memledger.Options{Now: now})}
}

// testContract is named TestContract in the ledger's test file. It runs the
// whole contract, each subtest on a fresh ledger with the given clock.
func testContract(t *testing.T) {
	ledgertest.Run(t, func(t testing.TB, now func() time.Time) quota.Ledger {
		ledger := open(now)
		t.Cleanup(func() { ledger.Close() })
		return ledger
	})
}

func ExampleRun() {
	var t *testing.T // that of TestContract
	testContract(t)
}

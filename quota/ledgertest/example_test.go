package ledgertest_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// myLedger is a ledger of one's own: here it only wraps another.
type myLedger struct {
	quota.Ledger
}

func open(now func() time.Time) *myLedger {
	return &myLedger{memledger.Open(&memledger.Options{Now: now})}
}

// testContract is what a test file of the ledger calls TestContract. It runs
// the whole contract, each subtest on a fresh ledger that reads the given clock.
func testContract(t *testing.T) {
	ledgertest.Run(t, func(t testing.TB, now func() time.Time) quota.Ledger {
		ledger := open(now)
		t.Cleanup(func() { ledger.Close() })
		return ledger
	})
}

func ExampleRun() {
	_ = testContract // go test finds and runs it as TestContract
}

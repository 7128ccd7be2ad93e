package quota_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestNewClassesCopyNoOthers: each call of a class not seen before copied up
// to 1,024 classes, 100 kB, once there were as many.
func TestNewClassesCopyNoOthers(t *testing.T) {
	ledger := memledger.Open(nil)
	defer ledger.Close()
	guard, err := quota.NewGuard(ledger,
		[]quota.Budget{{Account: "p", Name: "b", Limit: 1000, Window: quota.Sliding(time.Hour)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	covering := func(n int) {
		for i := range n {
			guard.ChargeSets(quota.Call{Account: "p", Method: "m", Caller: quota.Caller{Region: fmt.Sprint(i)}})
		}
	}
	covering(5000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const calls = 20_000
	covering(calls)
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / calls; each > 5_000 {
		t.Errorf("a call of a new class allocates %d bytes", each)
	}
	if kept := guard.ChargeSets(quota.Call{Account: "p", Method: "m"}); kept > 2*1024+2 {
		t.Errorf("%d classes are kept", kept)
	}
	before = after
	for range 50 {
		covering(600) // as many as are kept are found again
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / (50 * 600); each > 500 {
		t.Errorf("a call of a known class allocates %d bytes", each)
	}
}

package memledger_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

func TestContract(t *testing.T) {
	ledgertest.Run(t, func(_ testing.TB, now func() time.Time) quota.Ledger {
		return memledger.Open(&memledger.Options{Now: now})
	})
}

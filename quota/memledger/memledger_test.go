package memledger_test

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

func TestContract(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T, now func() time.Time) func() engine.Ledger {
		l := memledger.Open(&memledger.Options{Now: now})
		return func() engine.Ledger { return l }
	})
}

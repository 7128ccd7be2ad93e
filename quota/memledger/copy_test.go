package memledger_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// copying is a ledger whose copy takes its place before each of its first
// spends, and some later ones, as it takes time in proportion to the entries.
type copying struct {
	*memledger.Ledger
	spends atomic.Int64
}

func (c *copying) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if n := c.spends.Add(1); n < 200 || n%1000 == 0 {
		c.ReplaceByCopy()
	}
	return c.Ledger.Spend(ctx, batch)
}

// TestContractOfCopies: a copy that lacks something would decide otherwise.
func TestContractOfCopies(t *testing.T) {
	ledgertest.Run(t, func(_ testing.TB, now func() time.Time) quota.Ledger {
		return &copying{Ledger: memledger.Open(&memledger.Options{Now: now})}
	})
}

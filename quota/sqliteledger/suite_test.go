package sqliteledger_test

import (
	"context"
	"iter"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// open opens a ledger that is closed when the test ends.
func open(t testing.TB, path string, o *sqliteledger.Options) *sqliteledger.Ledger {
	t.Helper()
	l, err := sqliteledger.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func fresh(t testing.TB) string { return filepath.Join(t.TempDir(), "ration.db") }

func charge(name string, limit quota.Units, window quota.Window, methods ...string) *quota.Charge {
	return &quota.Charge{Budget: name, Coverage: quota.NewCoverage(quota.Coverage{Methods: methods}), Limit: limit, Window: window}
}

func one(units quota.Units, charges ...*quota.Charge) *quota.Batch {
	return &quota.Batch{Account: "my-project", Requests: []quota.Request{{Method: "videos.list", Units: units, Charges: charges}}}
}

func TestContract(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t testing.TB, now func() time.Time) quota.Ledger {
		return open(t, fresh(t), &sqliteledger.Options{Now: now, Sync: sqliteledger.Normal})
	})
}

// TestContractBySeveralHandles runs the contract on a file that two handles use
// in turn; one is reopened at times. No handle may use a stale cache.
func TestContractBySeveralHandles(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the contract a second time, 18 seconds")
	}
	t.Parallel()
	ledgertest.Run(t, func(t testing.TB, now func() time.Time) quota.Ledger {
		o := &sqliteledger.Options{Now: now, Sync: sqliteledger.Normal}
		path := fresh(t)
		r := &relay{t: t, open: func() *sqliteledger.Ledger { return open(t, path, o) }}
		r.handles = []*sqliteledger.Ledger{r.open(), r.open()}
		return r
	})
}

// relay is a ledger that forwards its calls to two handles on one file in turn.
type relay struct {
	t    testing.TB
	open func() *sqliteledger.Ledger

	mu      sync.Mutex
	n       int
	handles []*sqliteledger.Ledger
}

func (r *relay) next() *sqliteledger.Ledger {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if r.n%40 == 0 && r.n < 400 {
		r.handles[0] = r.open()
	}
	return r.handles[r.n%len(r.handles)]
}

func (r *relay) Spend(ctx context.Context, b *quota.Batch) ([]quota.Answer, error) {
	return r.next().Spend(ctx, b)
}

func (r *relay) Settle(ctx context.Context, receipt quota.Receipt, units quota.Units) error {
	return r.next().Settle(ctx, receipt, units)
}

func (r *relay) Refund(ctx context.Context, receipt quota.Receipt) error {
	return r.next().Refund(ctx, receipt)
}

func (r *relay) Standings(ctx context.Context, account, key string, charges []*quota.Charge) ([]quota.Standing, error) {
	return r.next().Standings(ctx, account, key, charges)
}

func (r *relay) Entries(ctx context.Context, query quota.Query) iter.Seq2[quota.Entry, error] {
	return r.next().Entries(ctx, query)
}

func (r *relay) Sums(ctx context.Context, query quota.Query) iter.Seq2[quota.Sum, error] {
	return r.next().Sums(ctx, query)
}

func (r *relay) SetCooldown(ctx context.Context, c quota.Cooldown) error {
	return r.next().SetCooldown(ctx, c)
}

func (r *relay) ClearCooldown(ctx context.Context, account, budget string) error {
	return r.next().ClearCooldown(ctx, account, budget)
}

func (r *relay) Cooldowns(ctx context.Context, account string) ([]quota.Cooldown, error) {
	return r.next().Cooldowns(ctx, account)
}

func (r *relay) Accounts(ctx context.Context) iter.Seq2[string, error] { return r.next().Accounts(ctx) }

func (r *relay) ClearLimits(ctx context.Context, account string) error {
	return r.next().ClearLimits(ctx, account)
}

func (r *relay) Keys(ctx context.Context, account string) iter.Seq2[string, error] {
	return r.next().Keys(ctx, account)
}

func (r *relay) Restamp(ctx context.Context, account, key string) (int, error) {
	return r.next().Restamp(ctx, account, key)
}

func (r *relay) Restore(ctx context.Context, restoration *quota.Restoration) (quota.RestoreResult, error) {
	return r.next().Restore(ctx, restoration)
}

func (r *relay) Close() error { return nil }

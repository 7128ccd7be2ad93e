package client

import (
	"context"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// shared records refusals in the ledger, so that every host can say what is
// refused: the first of an hour and kind, and again once a call of the kind was
// granted, to any process.
type shared struct {
	hourly
	covered map[[2]string]coveredBudget // by account and name
}

type coveredBudget struct {
	*quota.Budget
	coverage *engine.Coverage
}

func newShared(budgets []quota.Budget) *shared {
	s := &shared{covered: map[[2]string]coveredBudget{}}
	for i := range budgets {
		b := &budgets[i]
		s.covered[[2]string{b.Account, b.Name}] = coveredBudget{b, b.CoverageAmong(budgets)}
	}
	return s
}

// sharePatience is how long a refused call waits at most for its refusal to be
// recorded in the ledger.
const sharePatience = 2 * time.Second

// record records a refusal at a time on the ledger's clock, unless the ledger
// has one that says the same.
func (s *shared) record(g *quota.Guard, r *quota.RefusedError, at time.Time) {
	if !isShared(r) {
		return
	}
	kind := eventKind{account: r.Account, of: r.Budget, method: r.Method}
	b := s.covered[[2]string{r.Account, r.Budget}]
	if b.Budget != nil && b.PerKey {
		kind.key = r.Key
	}
	if b.Budget != nil && b.Floor[r.Caller.Region] > 0 {
		kind.region = r.Caller.Region
	}
	if !s.isFirst(kind, at, func(since time.Time) bool { return b.hasGranted(g, kind, since) }) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sharePatience)
	defer cancel()
	_ = g.RecordRefusal(ctx, r) // the state folder has it, too
}

// isShared reports whether other hosts should know of a refusal. Those that end
// in a moment, and those of one run's own share or pace, do not matter to them.
func isShared(refused *quota.RefusedError) bool {
	lasts := refused.Reason == quota.ReasonSpent || refused.Reason == quota.ReasonCooldown
	return lasts && refused.Moved() == nil
}

// hasGranted reports whether, as far as this host knows, a call of a kind was
// granted since.
func (b coveredBudget) hasGranted(g *quota.Guard, kind eventKind, since time.Time) bool {
	query := quota.Query{Account: kind.account, Key: kind.key, Since: since}
	for sum, err := range g.Sums(engine.WithKnown(context.Background()), query) {
		if err != nil {
			return false
		}
		isCall := sum.Kind == quota.EntryCall && sum.Method == kind.method
		isAlike := b.Budget == nil || b.coverage.Covers(sum.Method, sum.Caller.Lane, sum.Caller.Region)
		region := ""
		if b.Budget != nil && b.Floor[sum.Caller.Region] > 0 {
			region = sum.Caller.Region
		}
		if isCall && isAlike && region == kind.region {
			return true
		}
	}
	return false
}

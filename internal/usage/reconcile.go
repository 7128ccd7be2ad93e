// Reconcile corrects an account's log to match the usage that the
// upstream's console shows. Command ration ledger reconcile uses it.
//
// Budgets of one account overlap: a search counts for the budget of searches
// and for the budget of all units. Budgets are therefore reconciled together,
// in one step, so that no unit is recorded twice. Missing usage is recorded as
// corrections (quota.EntryCorrection), each attributed so that it counts for
// the budgets that lack it. Excess usage is removed from earlier corrections
// and, with force, from calls.

package usage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// ReconcileLane is the lane of corrections and of the notes about them.
const ReconcileLane = quota.LaneManual

// ReconcileJob is the job of corrections, and their method if no budget names
// one.
const ReconcileJob = "reconcile"

// doneMethod is the method of the note that a budget was reconciled.
const doneMethod = "ledger.reconcile"

// maxCalls is the most calls that are recorded at once.
const maxCalls = 10_000

// Reading is the usage of a budget that the upstream's console shows.
type Reading struct {
	Budget string
	Used   quota.Units // in what the budget counts, 0 to quota.MaxLimit
	// Upstream is what the upstream itself allows; 0 if that is not known. A
	// reading above the budget's limit and up to Upstream needs no force.
	Upstream quota.Units
}

// Correction is what was changed for one budget.
type Correction struct {
	Balance quota.Balance // after the change
	Target  quota.Units   // the reading
	Before  quota.Units   // the usage before
	Entered quota.Units   // by how much the usage was raised
	Lowered quota.Units   // by how much it was lowered; less than Before-Target if old entries could not be changed
	Also    []string      // budgets without a reading whose usage was raised by corrections of the same measure
}

// RejectedError says why readings were rejected: they contradict each other or
// the log, or look like a mistake. Nothing was changed.
type RejectedError struct {
	reason     string
	NeedsForce bool // with force, the readings are accepted
}

// Error says what is wrong and what to check.
func (e *RejectedError) Error() string { return e.reason }

func rejected(format string, args ...any) error {
	return &RejectedError{reason: fmt.Sprintf(format, args...)}
}

func needsForce(format string, args ...any) error {
	return &RejectedError{fmt.Sprintf(format, args...), true}
}

// BoundaryError says that a budget is within the margin of a calendar boundary:
// a correction would count for two days, but the console shows only one.
// Nothing was changed.
type BoundaryError struct {
	Budget string
	Until  time.Time // when the next day begins to be the current one
}

// Error names the budget and says when to try again.
func (e *BoundaryError) Error() string {
	return fmt.Sprintf("%s is between two windows, and a correction would count for both; try again at %s", e.Budget,
		e.Until.Format(time.RFC3339Nano))
}

// Reconcile brings the budgets of an account to their readings. It returns a
// *RejectedError, a *BoundaryError, quota.ErrCorrecting or the ledger's error,
// and for an account that has moved to another ledger a *quota.MovedError.
//
// Without force, Account rejects a reading that is lower than the ledger's
// usage, because consoles lag behind, even if other budgets are raised at the
// same time, and one above both a limit and Reading.Upstream. Usage is removed
// from the newest 256 entries, and may stay too high if they do not suffice. A
// correction that would change another budget that was reconciled within its
// current window is rejected; give a reading for that budget too. Once Account
// changes something, it makes all changes, even if ctx ends.
func Reconcile(ctx context.Context, guard *quota.Guard, account string, readings []Reading, force bool) ([]Correction,
	error) {
	balances, err := guard.Balances(ctx) // fails if the ledger is down; Correct alone may be granted by an allowance
	if err != nil {
		return nil, err
	}
	results := make([]Correction, len(readings))
	for i, r := range readings {
		at := slices.IndexFunc(balances,
			func(b quota.Balance) bool { return b.Budget.Account == account && b.Budget.Name == r.Budget })
		if at < 0 {
			return nil, rejected("account %s has no budget %q", account, r.Budget)
		}
		switch moved := balances[at].Moved; {
		case moved != nil && moved.Arriving:
			return nil,
				fmt.Errorf("%w: account %q is being copied here; reconcile it when ration ledger copy has ended",
					quota.ErrLedgerBusy, account)
		case moved != nil:
			return nil, moved
		}
		b := &balances[at].Budget
		if b.Window.Kind() == engine.InFlight {
			return nil, rejected("%s counts calls in flight, which end by themselves; name another budget", b.Name)
		}
		if most := max(b.Limit, r.Upstream); r.Used > most && !force {
			whose := "the limit"
			if most > b.Limit {
				whose = "the upstream's limit"
			}
			return nil, needsForce("%s is above %s of %s, %s %s, and may be a typo", b.Measure.Number(r.Used), whose,
				b.Name, b.Measure.Number(most), b.Measure)
		}
		results[i] = Correction{Balance: balances[at], Target: r.Used, Also: []string{}}
	}
	err = guard.Correct(ctx, account, func() error {
		return correct(ctx, guard, account, results, force)
	})
	if err != nil {
		return nil, err
	}
	if balances, err = guard.Balances(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	for i := range results {
		for _, b := range balances {
			if b.Budget.Account == account && b.Budget.Name == results[i].Balance.Budget.Name {
				results[i].Balance = b
			}
		}
	}
	return results, nil
}

// correct brings the budgets to their readings. It checks the changes of all
// measures before it applies any.
func correct(ctx context.Context, guard *quota.Guard, account string, results []Correction, force bool) error {
	calls, err := newAdjustment(ctx, guard, account, results, quota.Calls, force)
	if err != nil {
		return err
	}
	others, err := adjustOthers(ctx, guard, account, results, force)
	if err == nil {
		err = calls.checkUnits(ctx, results)
	}
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx = context.WithoutCancel(ctx) // half of the changes may count units twice
	lowered, err := calls.apply(ctx)
	if err != nil {
		return err
	}
	if lowered { // a call that is removed takes its units with it
		others, err = adjustOthers(ctx, guard, account, results, force)
		// which mean that nothing was changed
		if errors.As(err, new(*RejectedError)) || errors.As(err, new(*BoundaryError)) {
			err = errors.New("the calls were corrected, but nothing else: " + err.Error())
		}
		if err != nil {
			return err
		}
	}
	for _, other := range others {
		if _, err := other.apply(ctx); err != nil {
			return err
		}
	}
	return nil
}

// adjustOthers finds and checks the changes of each measure but calls.
func adjustOthers(ctx context.Context, guard *quota.Guard, account string, results []Correction,
	force bool) (others []*adjustment, err error) {
	var measures []quota.Measure
	for i := range results {
		if m := results[i].Balance.Budget.Measure; m != quota.Calls && !slices.Contains(measures, m) {
			measures = append(measures, m)
		}
	}
	for _, m := range measures {
		one, err := newAdjustment(ctx, guard, account, results, m, force)
		if err != nil {
			return nil, err
		}
		others = append(others, one)
	}
	return others, nil
}

// adjustment is what brings the budgets of one measure to their readings.
type adjustment struct {
	*snapshot
	*changes
	named []*Correction
}

// resultsOf returns the results of the budgets of one measure.
func resultsOf(results []Correction, measure quota.Measure) (named []*Correction) {
	for i := range results {
		if results[i].Balance.Budget.Measure == measure {
			named = append(named, &results[i])
		}
	}
	return named
}

// newAdjustment finds and checks the changes of one measure.
func newAdjustment(ctx context.Context, guard *quota.Guard, account string, results []Correction, measure quota.Measure,
	force bool) (*adjustment, error) {
	named := resultsOf(results, measure)
	if len(named) == 0 {
		return &adjustment{changes: &changes{}}, nil
	}
	s, err := newSnapshot(ctx, guard, account, measure, named)
	if err != nil {
		return nil, err
	}
	if !force {
		if err := s.checkExcess(named); err != nil {
			return nil, err
		}
	}
	changes, err := s.findChanges(force)
	if err == nil {
		err = s.checkChanges(changes)
	}
	if err != nil {
		return nil, err
	}
	return &adjustment{s, changes, named}, nil
}

// checkUnits rejects changes of calls that would take units off a budget
// reconciled before: a call that is removed takes its units with it.
func (a *adjustment) checkUnits(ctx context.Context, results []Correction) error {
	isLost := func(r removal) bool { return r.entry.Kind == quota.EntryCall && r.entry.Units > 0 }
	if !slices.ContainsFunc(a.removed, isLost) {
		return nil
	}
	s, err := newSnapshot(ctx, a.guard, a.account, quota.ByUnits, resultsOf(results, quota.ByUnits))
	if err != nil {
		return err
	}
	var affected []string
	for i := range s.reconciled {
		if slices.ContainsFunc(a.removed, func(r removal) bool { return isLost(r) && s.counts(i, &r.entry) }) {
			affected = append(affected, s.balances[i].Budget.Name)
		}
	}
	if len(affected) == 0 {
		return nil
	}
	slices.Sort(affected)
	return rejected("calls that are taken off take their units off %s, which was reconciled before; give the "+
		"console's numbers for all of these budgets: %s %s",
		strings.Join(affected, ", "), a.arguments(nil), s.arguments(affected))
}

// apply makes the changes, and reports whether it removed anything.
func (a *adjustment) apply(ctx context.Context) (lowered bool, err error) {
	if len(a.named) == 0 {
		return false, nil
	}
	if lowered, err = a.snapshot.apply(ctx, a.changes); err != nil {
		return lowered, err
	}
	for _, r := range a.named {
		name := r.Balance.Budget.Name
		net := a.net(a.index[name])
		r.Entered, r.Lowered = max(0, net), max(0, -net)
		r.Also = a.raised(a.changes)
		if lowered {
			if err := a.addRemark(ctx, "ledger.lower", name); err != nil {
				return lowered, err
			}
		}
		if r.Before+net == r.Target {
			if err := a.addRemark(ctx, doneMethod, name); err != nil {
				return lowered, err
			}
		}
	}
	return lowered, nil
}

// checkExcess returns an error if the console shows less than the ledger.
func (s *snapshot) checkExcess(named []*Correction) error {
	for _, r := range slices.Backward(named) {
		if r.Target < r.Before {
			budget := &r.Balance.Budget
			why := "consoles lag behind, and other hosts may use this ledger: check again in a few minutes"
			if noted := s.noted(s.index[budget.Name]); noted > 0 {
				why = fmt.Sprintf("%s of them are noted, by the upstream's answers or a restoration, and that can "+
					"be more than was spent", s.measure.Number(noted))
			}
			number := budget.Measure.Number
			return needsForce("%s has %s of %s %s used, more than the %s of the console; %s",
				budget.Name, number(r.Before), number(budget.Limit), budget.Measure, number(r.Target), why)
		}
	}
	return nil
}

// checkChanges rejects changes that would affect a budget reconciled before, or
// would count for two days. Moving an earlier correction away from a budget
// that was never reconciled is fine: it counted there only for lack of a better
// place.
func (s *snapshot) checkChanges(c *changes) error {
	var affected []string
	for i := range s.balances {
		if s.reconciled[i] && c.net(i) != 0 {
			affected = append(affected, s.balances[i].Budget.Name)
		}
	}
	if len(affected) > 0 {
		return rejected("this would change %s, which was reconciled before, so that units might be counted twice; "+
			"give the console's numbers for all of these budgets: %s",
			strings.Join(affected, ", "), s.arguments(affected))
	}
	for _, added := range c.added {
		for i, covered := range added.covers {
			if !covered {
				continue
			}
			if err := checkBoundary(&s.balances[i].Budget, s.balances[i].At); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkBoundary returns a *BoundaryError if an entry made at a given time
// counts for two days.
func checkBoundary(b *quota.Budget, at time.Time) error {
	if b.Window.Kind() != engine.Calendar {
		return nil
	}
	day := b.Window.Day(at)
	if at.Before(day.Next) {
		return nil
	}
	return &BoundaryError{b.Name, day.Opens}
}

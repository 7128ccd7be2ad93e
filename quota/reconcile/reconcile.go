// Package reconcile corrects an account's log by what the upstream's console
// says was used. It is what ration ledger reconcile runs.
//
// Budgets of one account overlap: a search counts for the budget of searches and
// for that of all units. Budgets are therefore reconciled together, in one step,
// so that no unit is entered twice. What is missing is entered as corrections
// (quota.EntryCorrection), each attributed so that the budgets that lack it count
// it. What is too much is taken off earlier corrections, and by force off calls.
package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Lane attributes corrections and the notes about them.
const Lane = quota.LaneManual

// Job is the job of a correction, and its method where a budget names none.
const Job = "reconcile"

// markMethod is the method of the note that marks a budget as reconciled.
const markMethod = "ledger.reconcile"

// maxCalls is the most calls that are entered at once.
const maxCalls = 10_000

// Reading is what an upstream's console says was used of a budget, in what the
// budget counts: 0 to quota.MaxLimit.
type Reading struct {
	Budget string
	Used   quota.Units
}

// Result is what was done to one budget.
type Result struct {
	Balance quota.Balance // after it
	Target  quota.Units   // what the console says
	Before  quota.Units   // what was used before
	Entered quota.Units
	Lowered quota.Units // less than Before-Target when older entries stay
	Also    []string    // budgets without a reading that the corrections of its measure raised
}

// RejectedError says why readings cannot be entered as they are: they contradict
// each other or the log, or need force. Nothing was entered.
type RejectedError struct{ reason string }

// Error says what is wrong, and what to give instead.
func (e *RejectedError) Error() string { return e.reason }

func rejected(format string, args ...any) error {
	return &RejectedError{fmt.Sprintf(format, args...)}
}

// BoundaryError means that a correction would count into two calendar windows,
// of which the console shows one. Nothing was entered.
type BoundaryError struct {
	Budget string
	Until  time.Time // when the next window takes over
}

// Error names the budget and when to try again.
func (e *BoundaryError) Error() string {
	return fmt.Sprintf("%s begins anew, and what is entered now would count into both its windows; go on at %s", e.Budget, e.Until.Format(time.RFC3339Nano))
}

// Account brings the budgets of an account to their readings, or returns a
// *RejectedError, a *BoundaryError, quota.ErrCorrecting or the ledger's error.
// Without force it lowers no budget, since consoles lag behind, and accepts no
// reading above a limit. It takes units off the newest quota.MaxSettle entries,
// as far as that comes. A correction that would change a budget that was
// reconciled within its present window is rejected unless that has a reading too.
func Account(ctx context.Context, guard *quota.Guard, account string, readings []Reading, force bool) ([]Result, error) {
	balances, err := guard.Balances(ctx) // also because the claim of a correction could go out within an allowance
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(readings))
	for i, r := range readings {
		at := slices.IndexFunc(balances, func(b quota.Balance) bool { return b.Budget.Account == account && b.Budget.Name == r.Budget })
		if at < 0 {
			return nil, rejected("account %s has no budget %q", account, r.Budget)
		}
		b := &balances[at].Budget
		if r.Used > b.Limit && !force {
			return nil, rejected("%d is above the limit of %s, %d %s; if the console really says so, add --force", r.Used, b.Name, b.Limit, b.Measure)
		}
		results[i] = Result{Balance: balances[at], Target: r.Used, Also: []string{}}
	}
	err = guard.Correct(ctx, account, func() error {
		// Calls that are taken off take their units along, so units come last.
		for _, measure := range []quota.Measure{quota.Calls, quota.ByUnits} {
			if err := correct(ctx, guard, account, results, measure, force); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if balances, err = guard.Balances(ctx); err != nil {
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

// correct brings the budgets of a measure to their readings, in one plan.
func correct(ctx context.Context, guard *quota.Guard, account string, results []Result, measure quota.Measure, force bool) error {
	var named []*Result
	for i := range results {
		if results[i].Balance.Budget.Measure == measure {
			named = append(named, &results[i])
		}
	}
	if len(named) == 0 {
		return nil
	}
	books, err := open(ctx, guard, account, measure, named)
	if err != nil {
		return err
	}
	plan, err := books.plan(force)
	if late := books.late(named); late != nil && !force && (err != nil || !plan.moves()) {
		return late
	}
	if err == nil {
		err = books.permit(plan)
	}
	if err != nil {
		return err
	}
	lowered, err := books.enter(ctx, plan)
	if err != nil {
		return err
	}
	for _, r := range named {
		name := r.Balance.Budget.Name
		net := plan.net(books.place[name])
		r.Entered, r.Lowered, r.Also = max(0, net), max(0, -net), books.raised(plan)
		if lowered {
			if err := books.note(ctx, "ledger.lower", name); err != nil {
				return err
			}
		}
		if r.Before+net == r.Target {
			if err := books.note(ctx, markMethod, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// late returns an error about a console that shows less than the ledger.
func (b *books) late(named []*Result) error {
	for _, r := range slices.Backward(named) {
		if r.Target < r.Before {
			budget := &r.Balance.Budget
			return rejected("%s has %d of %d %s used, more than the %d of the console; consoles are late, and others may share its ledger: look again in some minutes, and lower it with --force if the calls were never made",
				budget.Name, r.Before, budget.Limit, budget.Measure, r.Target)
		}
	}
	return nil
}

// permit rejects a plan that would change budgets reconciled before, or count
// into two windows. An earlier correction may be moved away from a budget that
// was never reconciled: it counted there for want of a better place.
func (b *books) permit(p *plan) error {
	var also []string
	for i := range b.balances {
		if b.marked[i] && p.net(i) != 0 {
			also = append(also, b.balances[i].Budget.Name)
		}
	}
	if len(also) > 0 {
		return rejected("this would change %s, reconciled before, so that units might be counted twice; give all of them what the console says now: ration ledger reconcile %s",
			strings.Join(also, ", "), b.together(also))
	}
	for _, added := range p.added {
		for i, covered := range added.covers {
			if !covered {
				continue
			}
			if err := betweenWindows(&b.balances[i].Budget, b.balances[i].At); err != nil {
				return err
			}
		}
	}
	return nil
}

// betweenWindows returns a *BoundaryError if what is entered at a time counts
// into two calendar windows.
func betweenWindows(b *quota.Budget, at time.Time) error {
	if b.Window.Kind() != quota.KindDaily {
		return nil
	}
	day := b.Window.Day(at)
	if at.Before(day.Next) {
		return nil
	}
	return &BoundaryError{b.Name, day.Opens}
}

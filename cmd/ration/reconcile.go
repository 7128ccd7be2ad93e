package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

// maxReconciledCalls bounds the calls that reconcile enters at once: each is an
// entry of its own.
const maxReconciledCalls = 10_000

func (a *app) reconcileCommand() *cobra.Command {
	var account string
	var used int64
	var force bool
	cmd := &cobra.Command{
		Use:   "reconcile BUDGET --used N | BUDGET=N…",
		Short: "Raise budgets to what the upstream's console says it counted",
		Long: fmt.Sprintf(`Reconcile compares budgets with what the upstream's console says was used,
and enters what is missing as a correction: not a call, in lane manual, job
reconcile. It is an entry like any other, so every budget that covers it counts
it, and it leaves their windows with time. status and ledger info show such
drift.

Budgets that share calls, such as all units and those of searches, are best
given together, in any order: each then holds its number, and no unit is
entered twice. A correction that would change a budget that was reconciled
before, within its present window, is refused until that budget's number is
given too.

A budget by the day of the upstream's own zone is what a console can be compared
with; for a sliding window N is what was used in the trailing time.

A console that shows less than the ledger is often only late, by minutes or
more, so lowering needs --force, and so does a number above the limit, which is
often a typo. Lowering takes units off the newest corrections and calls of the
window, %d entries back at most, and says how far it came. Where calls are
counted it takes whole calls off, with their units.

`, quota.MaxSettle) + exitCodes(exitStopped, exitLedger, exitConfig),
		Example: "  ration ledger reconcile youtube-day --used 8700\n  ration ledger reconcile youtube=8700 youtube-day=8700 youtube-search=800",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			readings, err := parseReadings(args, used, cmd.Flags().Changed("used"))
			if err != nil {
				return err
			}
			return a.reconcile(cmd.Context(), readings, account, force)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&used, "used", 0, "what the upstream's console says was used in the budget's window")
	flags.StringVar(&account, "account", "", "the budgets' account, where several have one of that name")
	flags.BoolVar(&force, "force", false, "lower budgets too, and accept numbers above their limits")
	return cmd
}

// reading is what a console says was used of a budget.
type reading struct {
	budget string
	used   quota.Units
}

// parseReadings reads BUDGET with --used, or BUDGET=N once or more.
func parseReadings(args []string, used int64, given bool) ([]reading, error) {
	if given {
		if len(args) != 1 || used < 0 || quota.Units(used) > quota.MaxLimit {
			return nil, &usageError{fmt.Errorf("--used: give one budget, and what the upstream's console says was used, 0 to %d", quota.MaxLimit)}
		}
		return []reading{{args[0], quota.Units(used)}}, nil
	}
	var readings []reading
	for _, arg := range args {
		cut := strings.LastIndexByte(arg, '=')
		if cut < 0 {
			return nil, &usageError{fmt.Errorf("%s: give --used: what the upstream's console says was used, or write %s=N for each of several budgets", safe(arg), safe(arg))}
		}
		n, err := strconv.ParseInt(arg[cut+1:], 10, 64)
		if err != nil || n < 0 || quota.Units(n) > quota.MaxLimit {
			return nil, &usageError{fmt.Errorf("%s: write BUDGET=N, with N from 0 to %d", safe(arg), quota.MaxLimit)}
		}
		if slices.ContainsFunc(readings, func(r reading) bool { return r.budget == arg[:cut] }) {
			return nil, &usageError{fmt.Errorf("%s is given twice; give each budget once", safe(arg[:cut]))}
		}
		readings = append(readings, reading{arg[:cut], quota.Units(n)})
	}
	return readings, nil
}

// correction is what a reconciliation did to one budget.
type correction struct {
	budget quota.Budget
	target quota.Units

	Account string      `json:"account"`
	Budget  string      `json:"budget"`
	Measure string      `json:"measure"`
	Limit   quota.Units `json:"limit"`
	Before  quota.Units `json:"used_before"`
	Used    quota.Units `json:"used"`
	Left    quota.Units `json:"remaining"`
	Entered quota.Units `json:"entered"`
	Lowered quota.Units `json:"lowered"`
	Also    []string    `json:"also_charged"` // budgets not named that the corrections of its measure raised
}

// corrections returns the budgets that are named, all of one account.
func corrections(table *costs.Table, readings []reading, account string, force bool) ([]*correction, error) {
	var all []*correction
	for _, r := range readings {
		budget, err := budgetOf(table, r.budget, account)
		if err != nil {
			return nil, err
		}
		if len(all) > 0 && budget.Account != all[0].Account {
			return nil, &usageError{fmt.Errorf("%s and %s are of different accounts; reconcile one account at a time", safe(all[0].Budget), safe(budget.Name))}
		}
		if r.used > budget.Limit && !force {
			return nil, &usageError{fmt.Errorf("%d is above the limit of %s, %d %s; if the console really says so, add --force", r.used, safe(budget.Name), budget.Limit, budget.Measure)}
		}
		all = append(all, &correction{budget: budget, target: r.used, Account: budget.Account, Budget: budget.Name,
			Measure: budget.Measure.String(), Limit: budget.Limit, Also: []string{}})
	}
	return all, nil
}

func (a *app) reconcile(ctx context.Context, readings []reading, account string, force bool) error {
	table, err := a.prices()
	if err != nil {
		return err
	}
	all, err := corrections(table, readings, account, force)
	if err != nil {
		return err
	}
	s, err := a.openGuard(table, true)
	if err != nil {
		return err
	}
	defer s.Close()
	// The claim of a correction would go out within an allowance.
	if _, err := s.guard.Balances(ctx); err != nil {
		return fmt.Errorf("%w (ledger %s)", err, s.ledger.name)
	}
	err = s.guard.Correct(ctx, all[0].Account, func() error {
		// Whole calls that are taken off take their units along, so units come last.
		for _, measure := range []quota.Measure{quota.Calls, quota.ByUnits} {
			if err := s.correct(ctx, all, measure, force); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, quota.ErrCorrecting) {
		err = &stoppedError{err}
	}
	if as[*usageError](err) {
		return err
	}
	if err == nil {
		err = s.readAfter(ctx, all)
	}
	if err != nil {
		return fmt.Errorf("%w (ledger %s)", err, s.ledger.name)
	}
	return a.printCorrections(all)
}

// readAfter sets what the budgets hold after their correction.
func (s *spending) readAfter(ctx context.Context, all []*correction) error {
	balances, err := s.guard.Balances(ctx)
	for _, b := range balances {
		for _, c := range all {
			if b.Budget.Account == c.Account && b.Budget.Name == c.Budget {
				c.Used, c.Left = b.Used, b.Remaining
			}
		}
	}
	return err
}

func (a *app) printCorrections(all []*correction) error {
	switch {
	case a.json && len(all) == 1:
		return a.writeJSON(all[0])
	case a.json:
		return a.writeJSON(map[string]any{"account": all[0].Account, "budgets": all})
	}
	for _, c := range all {
		fmt.Fprintln(a.stdout, c.told())
	}
	return nil
}

// correct brings the named budgets of a measure to their numbers, in one plan.
func (s *spending) correct(ctx context.Context, all []*correction, measure quota.Measure, force bool) error {
	named := slices.DeleteFunc(slices.Clone(all), func(c *correction) bool { return c.budget.Measure != measure })
	if len(named) == 0 {
		return nil
	}
	books, err := s.openBooks(ctx, named, measure)
	if err != nil {
		return err
	}
	var late error // a console that shows less than the ledger often is
	for _, c := range named {
		if c.Before = books.used(c.Budget); c.target < c.Before && !force {
			late = &usageError{fmt.Errorf("%s has %d of %d %s used, more than the %d of the console; consoles are late, and others may share its ledger: look again in some minutes, and lower it with --force if the calls were never made",
				safe(c.Budget), c.Before, c.Limit, c.Measure, c.target)}
		}
	}
	steps, err := books.plan(force)
	if late != nil && (err != nil || !steps.move()) {
		return late
	}
	if err != nil {
		return err
	}
	if err := books.permit(steps); err != nil {
		return err
	}
	lowered, err := s.enter(ctx, books, steps)
	if err != nil {
		return err
	}
	for _, c := range named {
		net := steps.net(books.place[c.Budget])
		c.Entered, c.Lowered = max(0, net), max(0, -net)
		c.Also = books.raised(steps)
		if lowered {
			if err := s.note(ctx, c.Account, "ledger.lower", 0, jobOf(reconciled, c.Budget)); err != nil {
				return err
			}
		}
		if c.Before+net != c.target {
			continue // it does not hold what the console says
		}
		if err := s.note(ctx, c.Account, reconcileMark, 0, jobOf(reconciled, c.Budget)); err != nil {
			return err
		}
	}
	return nil
}

// betweenDays refuses what would count into two days, or months: the console
// shows one of them.
func betweenDays(b *quota.Budget, at time.Time) error {
	if b.Window.Kind() != quota.KindDaily {
		return nil
	}
	window := b.Window.Day(at)
	if at.Before(window.Next) {
		return nil
	}
	return &stoppedError{fmt.Errorf("%s begins anew, and what is entered now would count into both its windows; go on at %s (in %s)",
		safe(b.Name), quota.Stamp(window.Opens), quota.Human(window.Opens.Sub(at)))}
}

// told is the correction for people.
func (c *correction) told() string {
	left := fmt.Sprintf("; it has %d of %d used, %d left", c.Used, c.Limit, c.Left)
	switch {
	case c.Entered > 0:
		also := ""
		if len(c.Also) > 0 {
			also = "; they count for " + safe(strings.Join(c.Also, ", ")) + " too"
		}
		return fmt.Sprintf("%s had %d %s: %d were missing and are entered%s%s", safe(c.Budget), c.Before, c.Measure, c.Entered, left, also)
	case c.Lowered > 0 && c.Lowered < c.Before-c.target:
		return fmt.Sprintf("%s had %d %s: %d were taken off, and the rest is older than %d entries and stays%s", safe(c.Budget), c.Before, c.Measure, c.Lowered, quota.MaxSettle, left)
	case c.Lowered > 0:
		return fmt.Sprintf("%s had %d %s: %d were taken off%s", safe(c.Budget), c.Before, c.Measure, c.Lowered, left)
	case c.target < c.Before:
		return fmt.Sprintf("%s had %d %s: none could be taken off, they are older than %d entries%s", safe(c.Budget), c.Before, c.Measure, quota.MaxSettle, left)
	}
	return fmt.Sprintf("%s agrees: %d %s%s", safe(c.Budget), c.Before, c.Measure, left)
}

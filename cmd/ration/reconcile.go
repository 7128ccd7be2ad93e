package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/quota"
)

// reconciled is the job, and where a budget names no methods the method, of
// what reconcile enters.
const reconciled = "reconcile"

// reportedLane is the lane of what the guard enters when an upstream's answer
// says that less is left than the ledger believed.
const reportedLane = "upstream"

// drift says how an entry came to be found missing: by hand, by the upstream's
// answers, or with "" not at all. It is units of no call, or a call of no units.
func drift(job, lane string, units, calls quota.Units) string {
	switch {
	case (units == 0) == (calls == 0):
	case job == reconciled:
		return byHand
	case lane == reportedLane:
		return byUpstream
	}
	return ""
}

// How drift was found.
const (
	byHand     = "by ration ledger reconcile"
	byUpstream = "by the upstream's answers"
)

func driftOf(e quota.Entry) string {
	return drift(e.Caller.Job, e.Caller.Lane, e.Units, e.Calls)
}

// missed is what was found missing, by how it was found.
type missed struct{ hand, upstream quota.Units }

// told says how much was found missing, and how: 300 units by ration ledger
// reconcile, 80 units by the upstream's answers.
func (m missed) told(measure string) string {
	var parts []string
	for _, part := range []struct {
		amount quota.Units
		by     string
	}{{m.hand, byHand}, {m.upstream, byUpstream}} {
		if part.amount > 0 {
			parts = append(parts, fmt.Sprintf("%d %s %s", part.amount, measure, part.by))
		}
	}
	return strings.Join(parts, ", ")
}

// maxReconciledCalls bounds the calls that reconcile enters at once: each is an
// entry of its own.
const maxReconciledCalls = 10_000

func (a *app) reconcileCommand() *cobra.Command {
	var account string
	var used int64
	var force bool
	cmd := &cobra.Command{
		Use:   "reconcile BUDGET --used N",
		Short: "Raise a budget to what the upstream's console says it counted",
		Long: fmt.Sprintf(`Reconcile compares a budget with what the upstream's console says was used, and
enters what is missing as a correction: no call, in lane manual, job reconcile.
It is an entry like any other, so that every budget that covers it counts it,
and it leaves their windows with time. status and ledger info show such drift.

A budget by the day of the upstream's own zone is what a console can be compared
with; for a sliding window N is what was used in the trailing time.

A console that shows less than the ledger is often only late, by minutes or
more, so lowering needs --force. It takes units off the newest corrections and
calls of the window, %d entries back at most, and says how far it came. Where
calls are counted it takes whole calls off, with their units.

`, quota.MaxSettle) + exitCodes(exitStopped, exitLedger, exitConfig),
		Example: "  ration ledger reconcile youtube-day --used 8700\n  ration ledger reconcile youtube-day --used 8500 --force",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("used") || used < 0 || quota.Units(used) > quota.MaxLimit {
				return &usageError{fmt.Errorf("--used: give what the upstream's console says was used, 0 to %d", quota.MaxLimit)}
			}
			return a.reconcile(cmd.Context(), args[0], account, quota.Units(used), force)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&used, "used", 0, "what the upstream's console says was used in the budget's window")
	flags.StringVar(&account, "account", "", "the budget's account, where several have one of that name")
	flags.BoolVar(&force, "force", false, "lower the budget too")
	return cmd
}

// correction is one reconciliation.
type correction struct {
	*spending
	budget   quota.Budget
	coverage *quota.Coverage
	call     quota.Call // what is entered

	Account string      `json:"account"`
	Budget  string      `json:"budget"`
	Measure string      `json:"measure"`
	Limit   quota.Units `json:"limit"`
	Before  quota.Units `json:"used_before"`
	Used    quota.Units `json:"used"`
	Left    quota.Units `json:"remaining"`
	Entered quota.Units `json:"entered"`
	Lowered quota.Units `json:"lowered"`
	Also    []string    `json:"also_charged"` // other budgets that the correction counts for
}

func (a *app) reconcile(ctx context.Context, name, account string, used quota.Units, force bool) error {
	table, err := a.prices()
	if err != nil {
		return err
	}
	budget, err := budgetOf(table, name, account)
	if err != nil {
		return err
	}
	s, err := a.openGuard(table, true)
	if err != nil {
		return err
	}
	defer s.Close()
	c := &correction{spending: s, budget: budget, coverage: budget.CoverageAmong(table.Budgets()), Account: budget.Account, Budget: budget.Name,
		Measure: budget.Measure.String(), Limit: budget.Limit, Also: []string{}}
	err = s.guard.Correct(ctx, c.Account, func() error {
		before, err := c.balance(ctx)
		if err != nil {
			return err
		}
		c.Before = before.Used
		return c.bring(ctx, before, used, force)
	})
	if errors.Is(err, quota.ErrCorrecting) {
		err = &stoppedError{err}
	}
	if err == nil {
		var after quota.Balance
		after, err = c.balance(ctx)
		c.Used, c.Left = after.Used, after.Remaining
	}
	if as[*usageError](err) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w (ledger %s)", err, s.ledger.name)
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(c)
	}
	fmt.Fprintln(a.stdout, c.told(used))
	return nil
}

func (c *correction) balance(ctx context.Context) (quota.Balance, error) {
	balances, err := c.guard.Balances(ctx)
	for _, b := range balances {
		if b.Budget.Account == c.Account && b.Budget.Name == c.Budget {
			return b, nil
		}
	}
	return quota.Balance{}, err
}

// bring raises or lowers the budget to what was used.
func (c *correction) bring(ctx context.Context, now quota.Balance, used quota.Units, force bool) error {
	switch {
	case used == now.Used:
		return nil
	case used < now.Used && !force:
		return &usageError{fmt.Errorf("%s has %d of %d %s used, more than the %d of the console; consoles are late, and others may share its ledger: look again in some minutes, and lower it with --force if the calls were never made",
			safe(c.Budget), now.Used, c.Limit, c.Measure, used)}
	case used < now.Used:
		return c.lower(ctx, now, now.Used-used)
	}
	missing := used - now.Used
	if err := c.choose(); err != nil {
		return err
	}
	for _, b := range c.guard.Covering(c.call) {
		if err := betweenDays(&b, now.At); err != nil {
			return err
		}
		if b.Name != c.Budget && b.Measure == c.budget.Measure {
			c.Also = append(c.Also, b.Name)
		}
	}
	if c.budget.Measure == quota.Calls {
		return c.enterCalls(ctx, missing)
	}
	for c.Entered < missing {
		note := c.call
		note.Units = min(missing-c.Entered, quota.MaxUnits)
		if err := c.guard.Note(ctx, quota.Note{Call: note, Kind: quota.EntryCorrection}); err != nil {
			return err
		}
		c.Entered += note.Units
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

// choose sets what is entered: something that the budget covers.
func (c *correction) choose() error {
	coverage := c.budget.Coverage()
	c.call = quota.Call{Account: c.Account, Method: reconciled, Caller: quota.Caller{Lane: manualLane, Job: reconciled}}
	if len(coverage.Methods) > 0 {
		c.call.Method = coverage.Methods[0]
	}
	if lanes := coverage.Lanes; len(lanes) > 0 && !slices.Contains(lanes, manualLane) {
		c.call.Caller.Lane = lanes[0]
	}
	if len(c.coverage.Regions) > 0 {
		c.call.Caller.Region = c.coverage.Regions[0]
	}
	if !c.coverage.Covers(c.call.Method, c.call.Caller) {
		return &usageError{fmt.Errorf("%s covers nothing that a correction could be entered as", safe(c.Budget))}
	}
	return nil
}

// enterCalls enters calls that cost no units: a budget that counts calls sees
// nothing else.
func (c *correction) enterCalls(ctx context.Context, missing quota.Units) error {
	if missing > maxReconciledCalls {
		return &usageError{fmt.Errorf("%s lacks %d calls of what --used says; at most %d are entered at once", safe(c.Budget), missing, maxReconciledCalls)}
	}
	for c.Entered < missing {
		batch := &quota.Batch{Account: c.Account, Requests: make([]quota.Request, min(missing-c.Entered, 256))}
		for i := range batch.Requests {
			batch.Requests[i] = quota.Request{Method: c.call.Method, Caller: c.call.Caller, Force: true}
		}
		answers, err := c.ledger.Spend(ctx, batch)
		if err != nil {
			return fmt.Errorf("after %d of %d calls: %w", c.Entered, missing, err)
		}
		for _, answer := range answers {
			if answer.Err != nil {
				return answer.Err
			}
			c.Entered++
		}
	}
	return nil
}

// lower takes what is too much off the newest entries of the window, first off
// earlier corrections, and leaves a line in the log.
func (c *correction) lower(ctx context.Context, now quota.Balance, excess quota.Units) error {
	window := attribution{balance: now}
	var entries []quota.Entry
	for e, err := range c.ledger.Entries(ctx, quota.Query{Account: c.Account, Since: window.since()}) {
		if err != nil {
			return err
		}
		if entries = append(entries, e); len(entries) > 2*quota.MaxSettle {
			entries = slices.Delete(entries, 0, quota.MaxSettle)
		}
	}
	entries = entries[max(0, len(entries)-quota.MaxSettle):]
	slices.Reverse(entries)
	slices.SortStableFunc(entries, func(x, y quota.Entry) int { return cmp.Compare(rank(x), rank(y)) })
	for _, e := range entries {
		if c.Lowered >= excess {
			break
		}
		if !c.coverage.Covers(e.Method, e.Caller) {
			continue
		}
		if err := c.take(ctx, e, excess-c.Lowered); err != nil && !errors.Is(err, quota.ErrStays) {
			return err
		}
	}
	if c.Lowered == 0 {
		return nil
	}
	return c.note(ctx, c.Account, "ledger.lower", 0, jobOf(reconciled, c.Budget))
}

// rank puts corrections before calls.
func rank(e quota.Entry) int {
	if driftOf(e) != "" {
		return 0
	}
	return 1
}

// take takes up to excess off one entry. What is no call cannot be settled: it
// is given back whole, and what was too much of that is entered anew.
func (c *correction) take(ctx context.Context, e quota.Entry, excess quota.Units) error {
	receipt := quota.Receipt{Account: c.Account, ID: e.ID, At: e.At}
	amount := e.Units
	if c.budget.Measure == quota.Calls {
		amount = e.Calls
	}
	taken := min(amount, excess)
	switch {
	case amount == 0:
		return nil
	case c.budget.Measure == quota.Calls:
		if err := c.allowance.Refund(ctx, receipt); err != nil {
			return err
		}
	case e.Calls > 0:
		if err := c.allowance.Settle(ctx, receipt, e.Units-taken); err != nil {
			return err
		}
	default:
		if err := c.allowance.Refund(ctx, receipt); err != nil {
			return err
		}
		if taken < amount {
			rest := quota.Call{Account: c.Account, Method: e.Method, Units: amount - taken, Caller: e.Caller}
			if err := c.guard.Note(ctx, quota.Note{Call: rest, Kind: quota.EntryCorrection}); err != nil {
				return fmt.Errorf("%d units were taken off that belong there: %w", rest.Units, err)
			}
		}
	}
	c.Lowered += taken
	return nil
}

// told is the correction for people.
func (c *correction) told(used quota.Units) string {
	left := fmt.Sprintf("; it has %d of %d used, %d left", c.Used, c.Limit, c.Left)
	switch {
	case c.Entered > 0:
		also := ""
		if len(c.Also) > 0 {
			also = "; they count for " + safe(strings.Join(c.Also, ", ")) + " too"
		}
		return fmt.Sprintf("%s had %d %s: %d were missing and are entered%s%s", safe(c.Budget), c.Before, c.Measure, c.Entered, left, also)
	case c.Lowered > 0 && c.Lowered < c.Before-used:
		return fmt.Sprintf("%s had %d %s: %d were taken off, and the rest is older than %d entries and stays%s", safe(c.Budget), c.Before, c.Measure, c.Lowered, quota.MaxSettle, left)
	case c.Lowered > 0:
		return fmt.Sprintf("%s had %d %s: %d were taken off%s", safe(c.Budget), c.Before, c.Measure, c.Lowered, left)
	case used < c.Before:
		return fmt.Sprintf("%s had %d %s: none could be taken off, they are older than %d entries%s", safe(c.Budget), c.Before, c.Measure, quota.MaxSettle, left)
	}
	return fmt.Sprintf("%s agrees: %d %s%s", safe(c.Budget), c.Before, c.Measure, left)
}

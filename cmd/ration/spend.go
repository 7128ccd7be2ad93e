package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/quota"
)

// spendFlags describe a call to spend.
type spendFlags struct {
	upstream string
	units    int64
	amounts  map[string]string
	calls    int
	repeat   string
	key      string
	maxWait  time.Duration
	caller   quota.Caller
}

func (a *app) spendCommand() *cobra.Command {
	var f spendFlags
	cmd := &cobra.Command{
		Use:   "spend METHOD",
		Short: "Charge a call from a shell script: exit 0 means go, 75 not now",
		Long: `Spend charges a call to every budget that covers it. If it exits with 0, make
the call; otherwise do not. It waits no longer than --max-wait, and needs only
costs.yaml. While the ledger is down, when_ledger_down in costs.yaml decides
what may be sent.

With --calls it charges several calls that are alike, all or none. --json prints
a grant, which report takes with what the upstream answered. A spend that is
repeated with the same --idempotency-key within ten minutes is charged once.

` + exitCodes(exitStopped, exitLedger, exitConfig),
		Example: `  ration spend search.list && curl "$SEARCH_URL"
  ration spend videos.list --max-wait 30s --region IN --json
  ration spend videos.list --calls 20 --idempotency-key "nightly $(date -I)"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.units = max(f.units, 0)
			if cmd.Flags().Changed("units") && (f.units < 1 || quota.Units(f.units) > quota.MaxUnits) {
				return &cli.Error{Err: fmt.Errorf("--units: give 1 to %d", quota.MaxUnits)}
			}
			if f.calls < 1 || f.calls > quota.MaxTogether {
				return &cli.Error{Err: fmt.Errorf("--calls %d: give 1 to %d", f.calls, quota.MaxTogether)}
			}
			return a.spend(cmd.Context(), args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&f.units, "units", 0, "what each call costs (default: its cost in costs.yaml)")
	cli.DefineAmounts(flags, &f.amounts, "what each call costs in a `measure`")
	flags.IntVar(&f.calls, "calls", 1, "charge `n` calls, all or none")
	flags.StringVar(&f.repeat, "idempotency-key", "", "charge spends with this `key` once")
	cli.SecondsVar(flags, &f.maxWait, "max-wait", "longest wait for the units: 5, 30s, 2m")
	a.defineCaller(flags, &f.caller, quota.LaneManual)
	a.defineKey(flags, &f.key)
	a.defineShare(flags)
	flags.StringVar(&f.upstream, "upstream", "", "the upstream, if several have the method")
	return cmd
}

func (a *app) spend(ctx context.Context, method string, f spendFlags) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	caller, err := a.callerOf(table, f.caller)
	if err != nil {
		return err
	}
	call, err := cli.Call(table, f.upstream, method)
	if err != nil {
		return err
	}
	given := gateway.Given{Amounts: cli.AmountsOf(f.amounts)}
	if f.units > 0 {
		call.Units, call.Lease = quota.Units(f.units), gateway.EstimateLease
		given.Units = &call.Units
	}
	if err := given.Amounts.Set(table, &call); err != nil {
		return &cli.Error{Err: fmt.Errorf("--amount: %w", err)}
	}
	if !a.json {
		call.Lease = 0 // nobody gets the grant with which to settle it
	}
	call.Caller, call.Key = caller, f.key
	if err := checkKey(f.key); err != nil {
		return err
	}
	if call.ID, err = gateway.CallID(f.repeat, call, given, f.calls); err != nil {
		return &cli.Error{Err: fmt.Errorf("--idempotency-key: %w", err)}
	}
	c, err := a.setup().Open(table, true)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.CheckMove(ctx); err != nil {
		a.warn("ledger", err.Error())
	}
	grants, err := c.SpendTogether(ctx, call, f.calls, f.maxWait)
	if errors.Is(err, quota.ErrReused) {
		return &cli.Error{Err: fmt.Errorf("--idempotency-key: %w", err)}
	}
	if err != nil && !errors.Is(err, quota.ErrRefused) {
		return client.NameLedger(cli.NeverFits(err, f.units > 0), c.LedgerName())
	}
	if unrecorded := c.RefusalError(); unrecorded != nil {
		a.warn("refusal", unrecorded.Error())
	}
	answer := gateway.NewSpend(c, call, f.calls, grants, err, a.now)
	return a.printAnswer(answer, answer.Describe(len(c.Guard().Covering(call)) > 0), err)
}

// printAnswer prints a grant or a refusal, as a document or in words. A grant
// is silent off a terminal: its exit code says it.
func (a *app) printAnswer(document any, words string, refusal error) error {
	if a.json {
		if err := a.writeJSON(document); err != nil {
			return err
		}
		if refusal != nil {
			return &reported{refusal}
		}
		return nil
	}
	if refusal != nil || !a.terminal && !a.verbose {
		return refusal
	}
	fmt.Fprintln(a.stderr, words)
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/cmd/ration/internal/durationflag"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
)

// spendFlags are what spend may be told of a call.
type spendFlags struct {
	upstream string
	units    int64
	maxWait  time.Duration
	caller   quota.Caller
}

func (a *app) spendCommand() *cobra.Command {
	var f spendFlags
	cmd := &cobra.Command{
		Use:   "spend METHOD",
		Short: "Charge one call from a shell script: exit 0 means go, 75 not now",
		Long: `Spend charges one call to every budget that covers it. If it exits with 0, make
the call; otherwise do not. It waits no longer than --max-wait, and needs only
costs.yaml. While the ledger is down, when_ledger_down in costs.yaml decides
what may be sent.

` + exitCodes(exitStopped, exitLedger, exitConfig),
		Example: `  ration spend search.list && curl "$SEARCH_URL"
  ration spend videos.list --max-wait 30s --region IN --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.units = max(f.units, 0)
			if cmd.Flags().Changed("units") && f.units < 1 {
				return &usageError{errors.New("--units: give at least 1")}
			}
			return a.spend(cmd.Context(), args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&f.units, "units", 0, "what the call costs (default: its cost in costs.yaml)")
	durationflag.SecondsVar(flags, &f.maxWait, "max-wait", "longest wait for the units: 5, 30s, 2m")
	flags.StringVar(&f.caller.Region, "region", "", "the region that the call is for")
	flags.StringVar(&f.caller.Job, "job", "", "the job that makes the call")
	flags.StringVar(&f.caller.Lane, "lane", quota.LaneManual, "the lane of the call: cron, backfill, manual, or another that costs.yaml names")
	flags.StringVar(&f.upstream, "upstream", "", "the upstream, if several have the method")
	return cmd
}

func (a *app) spend(ctx context.Context, method string, f spendFlags) error {
	table, err := a.prices()
	if err != nil {
		return err
	}
	if err := checkLane(table, f.caller.Lane); err != nil {
		return err
	}
	region, err := regionOf(f.caller.Region, table)
	if err != nil {
		return err
	}
	call, err := table.Call(f.upstream, method)
	if err != nil {
		return err
	}
	if f.units > 0 {
		call.Units = quota.Units(f.units)
	}
	call.Caller = f.caller
	call.Caller.Region = region
	c, err := a.openClient(table, true)
	if err != nil {
		return err
	}
	defer c.Close()
	grant, err := c.Guard().Wait(ctx, call, f.maxWait)
	if err != nil && !errors.Is(err, quota.ErrRefused) {
		return fmt.Errorf("%w (ledger %s)", err, c.LedgerName())
	}
	return a.tellSpend(c.Guard(), call, grant, err)
}

// tellSpend prints a grant or a refusal. A grant is silent off a terminal: its
// exit code says it.
func (a *app) tellSpend(guard *quota.Guard, call quota.Call, grant *quota.Grant, refusal error) error {
	out := struct {
		Granted    bool         `json:"granted"`
		Method     string       `json:"method"`
		Units      quota.Units  `json:"units"`
		Used       *quota.Units `json:"used"`
		Remaining  *quota.Units `json:"remaining"`
		Limit      *quota.Units `json:"limit"`
		NextFreeAt *time.Time   `json:"next_free_at"`
		RetryAfter *int64       `json:"retry_after_s"`
		RetryAt    *time.Time   `json:"retry_at"`
		Budget     *string      `json:"budget"`
		Reason     *string      `json:"reason"`
		LimitUntil *time.Time   `json:"limit_until,omitempty"` // when limit ends, if another configuration has asked it
	}{Granted: refusal == nil, Method: call.Method, Units: call.Units}
	if !a.json && !a.terminal && !a.verbose {
		return refusal
	}
	if refused, ok := errors.AsType[*quota.RefusedError](refusal); ok {
		out.RetryAt, out.RetryAfter, out.Reason = human.Instant(refused.RetryAt), new(human.SecondsUntil(client.RefusedAt(refused, a.now), refused.RetryAt)), new(refusal.Error())
		if refused.Budget != "" {
			out.Used, out.Remaining, out.Limit = &refused.Used, &refused.Remaining, &refused.Limit
			out.Budget, out.LimitUntil = &refused.Budget, human.Instant(refused.LimitUntil)
		}
	} else if tightest, ok := grant.Tightest(); ok {
		out.Used, out.Remaining, out.Limit = &tightest.Used, &tightest.Remaining, new(tightest.Limit())
		out.NextFreeAt, out.Budget = human.Instant(tightest.NextFree), &tightest.Budget.Name
		out.LimitUntil = human.Instant(tightest.LimitUntil)
	} else if len(guard.Covering(call)) > 0 {
		out.Reason = new("within the allowance")
		if why := a.ledgerState().Reason; why != nil {
			out.Reason = new("within the allowance: " + *why)
		}
	}
	switch {
	case a.json:
		if err := a.writeJSON(out); err != nil {
			return err
		}
		if refusal != nil {
			return &reported{refusal}
		}
	case refusal == nil && out.Budget != nil:
		fmt.Fprintf(a.stderr, "granted: %s %d; %s has %d left\n", call.Method, call.Units, *out.Budget, *out.Remaining)
	case refusal == nil && out.Reason != nil:
		fmt.Fprintf(a.stderr, "granted: %s %d, %s\n", call.Method, call.Units, *out.Reason)
	case refusal == nil:
		fmt.Fprintf(a.stderr, "granted: %s %d; no budget covers it\n", call.Method, call.Units)
	}
	return refusal
}

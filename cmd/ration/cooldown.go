package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/quota"
)

func (a *app) cooldownCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "cooldown",
		Short: "List, lift or set cooldowns",
		Long: `A cooldown stops the calls of a budget or a whole account until a given time, in
all processes that share the ledger, or those of one key. The upstream's answers
set it, or a person.

` + exitCodes(),
		Example: "  ration cooldown list\n  ration cooldown clear youtube-search\n  ration cooldown clear --account " +
			"my-project",
	}, a.cooldownListCommand(), a.cooldownClearCommand(), a.cooldownSetCommand())
}

func (a *app) cooldownListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show the cooldowns in force",
		Long: `List shows the cooldowns in force: their account and budget, when they end, and
the reason. One without a budget holds the whole account. A budget's own
cooldown is not shown if it ends before its account's. List never creates a
ledger.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration cooldown list\n  ration cooldown list --json | jq '.cooldowns[].until'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.cooldownList(cmd.Context()) },
	}
}

func (a *app) cooldownList(ctx context.Context) error {
	at, found := a.now().UTC(), []report.Cooldown{}
	err := a.readLedger(func(c *client.Client) (err error) {
		a.warnOfLoss()
		at, found, err = report.ListCooldowns(ctx, c.Guard(), c.Table().Accounts())
		return err
	})
	if err != nil && !errors.Is(err, setup.ErrNoLedger) {
		return err
	}
	if a.json {
		return a.writeJSON(map[string]any{"at": at, "ledger": a.setup().LedgerName(), "cooldowns": found})
	}
	if len(found) == 0 {
		fmt.Fprintln(a.stdout, "no cooldown holds")
		return nil
	}
	hasKeys := slices.ContainsFunc(found, func(c report.Cooldown) bool { return c.Key != nil })
	headings := []string{"account", "budget", "until", "in", "what was said"}
	if hasKeys {
		headings = slices.Insert(headings, 2, "key")
	}
	t := a.table(headings...)
	for _, c := range found {
		budget := "(all)"
		if c.Budget != nil {
			budget = human.Name(*c.Budget)
		}
		until, in := c.Ends(at)
		row := []any{human.Name(c.Account), budget, until, in, human.Name(dash(c.Reason))}
		if hasKeys {
			row = slices.Insert(row, 2, any(cmp.Or(human.Name(human.Given(c.Key)), "(all)")))
		}
		t.Row(row...)
	}
	t.Print()
	return nil
}

func (a *app) cooldownClearCommand() *cobra.Command {
	var account, key string
	var reopen bool
	cmd := &cobra.Command{
		Use:   "clear BUDGET",
		Short: "Lift a cooldown by hand",
		Long: `Clear lifts the cooldown of a budget, or of a whole account with --account alone
(or - for BUDGET), and records that in the log. Use it when the upstream serves
requests again before it said it would. If it does not, its next answer sets the
cooldown again. If there is nothing to lift, clear says so and exits 0.

An account that ration ledger copy has moved to another ledger, or that it has
not copied completely, stays closed: only --reopen opens it. Make sure first
that no process uses the other ledger.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration cooldown clear youtube-search\n  ration cooldown clear --account my-project",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.cooldownClear(cmd.Context(), args, account, key, reopen)
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "the budget's account; without a budget, the whole account")
	cmd.Flags().StringVar(&key, "key", "", "lift what stops this key alone")
	cmd.Flags().BoolVar(&reopen, "reopen", false,
		"open an account in a ledger from which, or to which, ration ledger copy moves it")
	return cmd
}

func (a *app) cooldownClear(ctx context.Context, args []string, account, key string, reopen bool) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	account, budget, err := cli.Scope(table, args, account)
	if err != nil {
		return err
	}
	at, out := a.now(), report.NewCleared(account, budget, key)
	if reopen && budget+key != "" {
		return &cli.Error{Err: errors.New("--reopen opens a whole account; name it with --account, and no budget")}
	}
	err = a.withClient(table, false, func(c *client.Client) (err error) {
		if reopen {
			at, out, err = report.Reopen(ctx, c.Guard(), account)
			return err
		}
		at, out, err = report.ClearCooldown(ctx, c.Guard(), account, budget, key)
		return err
	})
	if err != nil && !errors.Is(err, setup.ErrNoLedger) {
		return err
	}
	name := human.Scope(account, budget, key)
	switch {
	case a.json:
		return a.writeJSON(out)
	case reopen:
		fmt.Fprintf(a.stdout, "open: no move closes %s in %s\n", name, a.setup().LedgerName())
	case out.Lifted:
		fmt.Fprintf(a.stdout, "lifted: %s was in cooldown %s\n", name, report.CooldownText(*out.Until, at, *out.Reason))
	default:
		fmt.Fprintf(a.stdout, "nothing to lift: %s has no cooldown of its own\n", name)
	}
	report.WriteStill(a.stdout, out.Still, at)
	return nil
}

func (a *app) cooldownSetCommand() *cobra.Command {
	var account, key, until, reason string
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "set BUDGET",
		Short: "Stop a budget or a whole account until a given time",
		Long: `Set stops the calls of a budget, or of a whole account with --account alone (or
- for BUDGET), in all processes that share the ledger, and records that in the
log. It never shortens a cooldown. With --until reset it lasts until the
upstream's next reset, which resets: in costs.yaml defines.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration cooldown set youtube --for 10m --reason 'the console is at 9,990'\n  ration cooldown set " +
			"--account my-project --until 2026-11-21T08:00:00Z\n  ration cooldown set youtube --until reset",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := cli.CooldownEnd(length, cmd.Flags().Changed("for"), until)
			if err != nil {
				return err
			}
			wanted := quota.Cooldown{Account: account, Key: key, For: length, Until: at, Reason: reason}
			return a.cooldownSet(cmd.Context(), args, wanted)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&account, "account", "", "the budget's account; without a budget, the whole account")
	flags.StringVar(&key, "key", "", "stop this key alone")
	cli.SecondsVar(flags, &length, "for", "how long: 30s, 10m, 1d")
	flags.StringVar(&until, "until", "", "end at this `time` (RFC 3339); reset means the upstream's next reset")
	flags.StringVar(&reason, "reason", "set by hand", "the `reason` that refusals give")
	return cmd
}

func (a *app) cooldownSet(ctx context.Context, args []string, wanted quota.Cooldown) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	if wanted.Account, wanted.Budget, err = cli.Scope(table, args, wanted.Account); err != nil {
		return err
	}
	var at time.Time
	var set *report.Cooldown
	err = a.withClient(table, true, func(c *client.Client) (err error) {
		at, set, err = report.SetCooldown(ctx, c.Guard(), table, wanted)
		if as[*report.UntilError](err) {
			err = &cli.Error{Err: fmt.Errorf("--until %w", err)}
		}
		return err
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.writeJSON(set)
	}
	fmt.Fprintf(a.stdout, "%s is in cooldown %s\n", human.Scope(wanted.Account, wanted.Budget, wanted.Key),
		report.CooldownText(set.Until, at, set.Reason))
	return nil
}

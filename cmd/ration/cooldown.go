package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/cmd/ration/internal/durationflag"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
)

func (a *app) cooldownCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "cooldown",
		Short: "List, lift or set cooldowns",
		Long: `A cooldown is an order from the upstream to stop until a given time. It holds
one budget or a whole account, in all processes that share the ledger.

` + exitCodes(),
		Example: "  ration cooldown list\n  ration cooldown clear youtube-search\n  ration cooldown clear --account my-project",
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

// cooled is a cooldown as JSON says it.
type cooled struct {
	Account string    `json:"account"`
	Budget  *string   `json:"budget"` // null: the whole account
	Until   time.Time `json:"until"`
	In      int64     `json:"in_s"`
	Reason  string    `json:"reason"`
}

func newCooled(c *quota.Cooldown, at time.Time) cooled {
	out := cooled{Account: c.Account, Until: human.JSONTime(c.Until), In: human.SecondsUntil(at, c.Until), Reason: c.Reason}
	if c.Budget != "" {
		out.Budget = &c.Budget
	}
	return out
}

func (a *app) cooldownList(ctx context.Context) error {
	table, err := a.prices()
	if err != nil {
		return err
	}
	at, found := a.now().UTC(), []cooled{}
	err = a.withClient(table, false, func(c *client.Client) (err error) {
		at, found, err = cooldowns(ctx, c.Guard(), table.Accounts())
		return err
	})
	if err != nil && !errors.Is(err, errNoLedger) {
		return err
	}
	if a.json {
		return a.writeJSON(map[string]any{"at": at, "ledger": a.ledgerName(), "cooldowns": found})
	}
	if len(found) == 0 {
		fmt.Fprintln(a.stdout, "no cooldown holds")
		return nil
	}
	t := a.table("account", "budget", "until", "in", "what was said")
	for _, c := range found {
		budget := "(all)"
		if c.Budget != nil {
			budget = human.Name(*c.Budget)
		}
		t.Row(human.Name(c.Account), budget, human.Time(c.Until), human.Duration(c.Until.Sub(at)), human.Name(dash(c.Reason)))
	}
	t.Print()
	return nil
}

// cooldowns returns what holds now, of each account its own first.
func cooldowns(ctx context.Context, guard *quota.Guard, accounts []string) (at time.Time, found []cooled, err error) {
	found = []cooled{}
	for _, account := range accounts {
		now, held, err := guard.Cooldowns(ctx, account)
		if err != nil {
			return at, nil, err
		}
		at = now
		for i := range held {
			found = append(found, newCooled(&held[i], at))
		}
	}
	return at, found, nil
}

// cooldownOf returns the cooldown of a budget, or with an empty name of the
// account, and nil when it has none of its own that is seen.
func cooldownOf(cooldowns []quota.Cooldown, budget string) *quota.Cooldown {
	i := slices.IndexFunc(cooldowns, func(c quota.Cooldown) bool { return c.Budget == budget })
	if i < 0 {
		return nil
	}
	return &cooldowns[i]
}

func (a *app) cooldownClearCommand() *cobra.Command {
	var account string
	cmd := &cobra.Command{
		Use:   "clear BUDGET",
		Short: "Lift a cooldown by hand",
		Long: `Clear lifts the cooldown of a budget, or of a whole account with --account alone
(or - for BUDGET), and records that in the log. Use it when the upstream serves
requests again before it said it would. If it does not, its next answer sets the
cooldown again. If there is nothing to lift, clear says so and exits 0.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration cooldown clear youtube-search\n  ration cooldown clear --account my-project",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.cooldownClear(cmd.Context(), args, account)
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "the budget's account; without a budget, the whole account")
	return cmd
}

// cleared is what clear did, as JSON says it.
type cleared struct {
	Lifted  bool       `json:"lifted"`
	Account string     `json:"account"`
	Budget  *string    `json:"budget"`
	Until   *time.Time `json:"until"`
	Reason  *string    `json:"reason"`
	Still   []cooled   `json:"still"` // what holds calls of the account all the same
}

func (a *app) cooldownClear(ctx context.Context, args []string, account string) error {
	table, err := a.prices()
	if err != nil {
		return err
	}
	account, budget, err := chosen(table, args, account)
	if err != nil {
		return err
	}
	out := &cleared{Account: account, Still: []cooled{}}
	if budget != "" {
		out.Budget = &budget
	}
	at := a.now()
	err = a.withClient(table, false, func(c *client.Client) (err error) {
		at, err = out.clear(ctx, c.Guard(), budget)
		return err
	})
	if err != nil && !errors.Is(err, errNoLedger) {
		return err
	}
	if a.json {
		return a.writeJSON(out)
	}
	name := whose(account, budget)
	if out.Lifted {
		fmt.Fprintf(a.stdout, "lifted: %s was in cooldown until %s (in %s): %s\n", name, human.Time(*out.Until), human.Duration(out.Until.Sub(at)), human.Name(dash(*out.Reason)))
	} else {
		fmt.Fprintf(a.stdout, "nothing to lift: %s has no cooldown of its own\n", name)
	}
	a.printStill(out.Still, at)
	return nil
}

// printStill says which cooldowns hold all the same, and how to lift each.
func (a *app) printStill(still []cooled, at time.Time) {
	for _, c := range still {
		name, command := "account "+human.Name(c.Account), "--account "+c.Account
		if c.Budget != nil {
			name, command = human.Name(*c.Budget), *c.Budget
		}
		fmt.Fprintf(a.stdout, "still in cooldown: %s until %s (in %s): %s; ration cooldown clear %s lifts that\n",
			name, human.Time(c.Until), human.Duration(c.Until.Sub(at)), human.Name(dash(c.Reason)), command)
	}
}

// clear lifts the cooldown, says what it was, and looks what still holds. A
// budget's own that its account's outlasts is lifted unseen.
func (out *cleared) clear(ctx context.Context, guard *quota.Guard, budget string) (at time.Time, err error) {
	_, before, err := guard.Cooldowns(ctx, out.Account)
	if err != nil {
		return at, err
	}
	if err := guard.Uncool(ctx, out.Account, budget); err != nil {
		return at, err
	}
	if c := cooldownOf(before, budget); c != nil {
		out.Lifted, out.Until, out.Reason = true, human.Instant(c.Until), &c.Reason
		if err := recordNote(ctx, guard, out.Account, "cooldown.clear", 0, jobOf("cooldown", budget)); err != nil {
			return at, fmt.Errorf("the cooldown is lifted, but the log does not say so: %w", err)
		}
	}
	at, all, err := cooldowns(ctx, guard, []string{out.Account})
	for _, c := range all {
		if c.Budget == nil || budget == "" {
			out.Still = append(out.Still, c)
		}
	}
	return at, err
}

func (a *app) cooldownSetCommand() *cobra.Command {
	var account, until, reason string
	var length time.Duration
	cmd := &cobra.Command{
		Use:   "set BUDGET",
		Short: "Stop a budget or a whole account until a given time",
		Long: `Set stops the calls of a budget, or of a whole account with --account alone (or
- for BUDGET), in all processes that share the ledger, and records that in the
log. It never shortens a cooldown. With --until reset it lasts until the
upstream's next reset, which resets: in costs.yaml defines.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration cooldown set youtube --for 10m --reason 'the console is at 9,990'\n  ration cooldown set --account my-project --until 2026-11-21T08:00:00Z\n  ration cooldown set youtube --until reset",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var at time.Time
			var err error
			switch {
			case (length != 0) == (until != ""):
				return &usageError{errors.New("say how long: --for 10m, --until an instant, or --until reset")}
			case until != "" && until != untilReset:
				if at, err = parseTime("--until", until, lastYear); err != nil {
					return &usageError{fmt.Errorf("%w, or reset", err)}
				}
			}
			return a.cooldownSet(cmd.Context(), args, account, at, length, reason)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&account, "account", "", "the budget's account; without a budget, the whole account")
	durationflag.SecondsVar(flags, &length, "for", "how long: 30s, 10m, 1d")
	flags.StringVar(&until, "until", "", "end at this `time` (RFC 3339); reset means the upstream's next reset")
	flags.StringVar(&reason, "reason", "set by hand", "the `reason` that refusals give")
	return cmd
}

// untilReset is what --until takes beside an instant.
const untilReset = "reset"

func (a *app) cooldownSet(ctx context.Context, args []string, account string, until time.Time, length time.Duration, reason string) error {
	table, err := a.prices()
	if err != nil {
		return err
	}
	account, budget, err := chosen(table, args, account)
	if err != nil {
		return err
	}
	var at time.Time
	var held []quota.Cooldown
	err = a.withClient(table, true, func(c *client.Client) (err error) {
		guard := c.Guard()
		cooldown := quota.Cooldown{Account: account, Budget: budget, For: length, Until: until, Reason: reason}
		if length == 0 {
			err = resolveUntil(ctx, guard, table, &cooldown)
		}
		if err == nil {
			err = guard.Cool(ctx, cooldown)
		}
		if err == nil {
			err = recordNote(ctx, guard, account, "cooldown.set", 0, jobOf("cooldown", budget))
		}
		if err == nil {
			at, held, err = guard.Cooldowns(ctx, account)
		}
		return err
	})
	if err != nil {
		return err
	}
	c := cmp.Or(cooldownOf(held, budget), cooldownOf(held, "")) // the account's may outlast it
	if c == nil {
		return fmt.Errorf("%s: the cooldown is over already; give a longer one", whose(account, budget))
	}
	if a.json {
		return a.writeJSON(newCooled(c, at))
	}
	fmt.Fprintf(a.stdout, "%s is in cooldown until %s (in %s): %s\n", whose(account, budget), human.Time(c.Until), human.Duration(c.Until.Sub(at)), human.Name(dash(c.Reason)))
	return nil
}

// resolveUntil sets the end of a cooldown until the upstream's next reset, and
// refuses one that is over.
func resolveUntil(ctx context.Context, guard *quota.Guard, table *costs.Table, cooldown *quota.Cooldown) error {
	at, _, err := guard.Now(ctx, cooldown.Account)
	if err != nil {
		return err
	}
	if cooldown.Until.IsZero() {
		if cooldown.Until = table.NextReset(cooldown.Account, at); cooldown.Until.IsZero() {
			return &usageError{fmt.Errorf("--until reset: costs.yaml does not say when the upstream of account %s resets; add resets: to it, or give an instant", human.Name(cooldown.Account))}
		}
	}
	if !cooldown.Until.After(at) {
		return &usageError{fmt.Errorf("--until %s is over; it is %s", cooldown.Until.Format(time.RFC3339), human.Time(at))}
	}
	return nil
}

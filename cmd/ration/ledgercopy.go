package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/cmd/ration/internal/cmdline"
	"github.com/ration-dev/ration/cmd/ration/internal/durationflag"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/quota/ledgercopy"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// copyFlags are the flags of ledger copy.
type copyFlags struct {
	account string
	dryRun  bool
	grace   time.Duration
}

func (a *app) ledgerCopyCommand() *cobra.Command {
	var f copyFlags
	cmd := &cobra.Command{
		Use:   "copy FROM TO",
		Short: "Move accounts to another ledger while jobs run",
		Long: `Copy moves all accounts of the ledger FROM, or one, to the ledger TO, which must
not hold anything of them: from SQLite to Redis, the other way round, or between
two of a kind. Entries keep their ids, times and kinds, and cooldowns their ends
and reasons. Estimates (counter windows) become notes.

Jobs may run meanwhile. Copy first closes each account in both ledgers, and
opens TO when it holds everything. No call is granted twice. FROM stays closed:
its callers exit with 78 and an error that names TO. Until TO is open, its
callers exit with 75, or wait within --max-wait.

If copy is interrupted, both stay closed: run the same command again. It goes on
where it stopped. Run it again later, too, if calls that FROM had granted were
still in flight when --grace ended: what they settle there is copied then.

RATION_REDIS_PASSWORD is the password of both ledgers, or that of FROM if
RATION_TO_REDIS_PASSWORD is set. RATION_TO_REDIS_SENTINEL_PASSWORD is the same
for the sentinels of TO. With _FILE, each names a file that holds the password.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration ledger copy sqlite:/var/lib/ration/ration.db redis://redis.internal:6379/0 --dry-run\n  ration ledger copy redis://old:6379/0 redis://new:6379/0 --account my-project",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ledgerCopy(cmd.Context(), args[0], args[1], &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.account, "account", "", "move only this account (default all accounts of FROM and of costs.yaml)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what would be moved, and change nothing")
	f.grace = 10 * time.Second
	durationflag.SecondsVar(flags, &f.grace, "grace", "how long to go on copying what calls in flight cost, once TO is open")
	return cmd
}

// copyReport is what copy says.
type copyReport struct {
	From     string               `json:"from"`
	To       string               `json:"to"`
	DryRun   bool                 `json:"dry_run"`
	Accounts []*ledgercopy.Report `json:"accounts"`
}

func (a *app) ledgerCopy(ctx context.Context, from, to string, f *copyFlags) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	old, err := a.setup().OpenNamed(table, from, false, a.getenv)
	if errors.Is(err, sqliteledger.ErrNoLedger) {
		return &client.ConfigError{Err: fmt.Errorf("there is no ledger at %s, so there is nothing to copy; correct the first address", a.setup().NameOf(table, from))}
	}
	if err != nil {
		return err
	}
	defer old.Close()
	c := &ledgercopy.Copy{From: old.Ledger(), FromName: old.LedgerName(), ToName: a.setup().NameOf(table, to), Budgets: table.Budgets(), Progress: a.copyProgress()}
	getenv := a.setup().GetenvOfTarget
	target, err := a.setup().OpenNamed(table, to, false, getenv)
	switch {
	case err == nil:
		defer target.Close()
		c.To = target.Ledger()
	case !errors.Is(err, sqliteledger.ErrNoLedger):
		return err
	}
	names, reserved, err := accountsToCopy(ctx, table, c, f.account)
	if missing := old.CheckMissing(ctx, names); missing != nil {
		return missing
	}
	if err != nil {
		return err
	}
	report := &copyReport{From: c.FromName, To: c.ToName, DryRun: f.dryRun, Accounts: []*ledgercopy.Report{}}
	for _, name := range names {
		planned, err := c.Plan(ctx, name)
		if err != nil {
			return err
		}
		if report.Accounts = append(report.Accounts, planned); !slices.Contains(table.Accounts(), name) {
			a.warn("ledger", fmt.Sprintf("account %s is not in this costs.yaml; if it has budgets with counter windows, they start at zero in %s", human.Name(name), c.ToName))
		}
	}
	if f.dryRun {
		return a.printCopy(report, table, true)
	}
	if c.To == nil {
		if target, err = a.setup().OpenNamed(table, to, true, getenv); err != nil {
			return err
		}
		defer target.Close()
		c.To = target.Ledger()
	}
	err = a.moveAll(ctx, c, names, reserved, f.grace, report)
	if len(report.Accounts) > 0 {
		isComplete := len(report.Accounts) == len(names)
		err = errors.Join(a.printCopy(report, table, isComplete), err)
	}
	return err
}

// moveAll moves accounts, and reports those that have moved.
func (a *app) moveAll(ctx context.Context, c *ledgercopy.Copy, names, reserved []string, grace time.Duration, report *copyReport) error {
	report.Accounts = report.Accounts[:0]
	all, err := c.MoveAll(ctx, names, reserved, func(moved *ledgercopy.Report) {
		a.printCopyProgress("%s: moved to %s, and open there", human.Name(moved.Account), c.ToName)
		report.Accounts = append(report.Accounts, moved)
	})
	if err != nil {
		return err
	}
	if grace > 0 && !a.quiet && !a.json { // off a terminal too: it looks as if it hung
		fmt.Fprintf(a.stderr, "copying what calls in flight still cost, for %s\n", human.Duration(grace))
	}
	return ledgercopy.FollowAll(ctx, all, grace)
}

// accountsToCopy returns the accounts to move, all or the one that is named,
// and those that a guard keeps for itself. If the ledger holds nothing, it
// returns the accounts of costs.yaml and an error: it may have forgotten them.
func accountsToCopy(ctx context.Context, table *costs.Table, c *ledgercopy.Copy, account string) (names, reserved []string, err error) {
	names, reserved, err = c.Accounts(ctx, table.Accounts())
	if errors.Is(err, ledgercopy.ErrEmpty) {
		return table.Accounts(), nil, &client.ConfigError{Err: fmt.Errorf("the ledger %s holds nothing, so there is nothing to copy; correct the first address", c.FromName)}
	}
	if err != nil || account == "" {
		return names, reserved, err
	}
	if !slices.Contains(names, account) {
		return nil, nil, &cmdline.Error{Err: fmt.Errorf("no account %q in %s; %s", account, c.FromName, strictyaml.Advice(account, names))}
	}
	return []string{account}, reserved, nil
}

// printCopyProgress prints on a terminal, or with -v, how far a copy is.
func (a *app) printCopyProgress(format string, args ...any) {
	if a.terminal && !a.json || a.verbose {
		fmt.Fprintf(a.stderr, format+"\n", args...)
	}
}

// copyProgress says how many entries of a large log were read.
func (a *app) copyProgress() func(string, int) {
	const step = 100_000
	return func(account string, entries int) {
		if entries%step == 0 {
			a.printCopyProgress("%s: %d entries read", human.Name(account), entries)
		}
	}
}

func (a *app) printCopy(r *copyReport, table *costs.Table, isComplete bool) error {
	if a.json {
		return a.writeJSON(r)
	}
	t := a.table("account", "entries", "units", "calls", "keys", "cooldowns", "estimates", "oldest", "newest")
	late, stays := 0, 0
	for _, of := range r.Accounts {
		var estimates []string
		for _, e := range of.Estimates {
			estimates = append(estimates, fmt.Sprintf("%s %d", human.Name(e.Budget), e.Used))
		}
		t.Row(human.Name(of.Account), of.Entries, of.Units, of.Calls, of.Keys, len(of.Cooldowns), dash(strings.Join(estimates, ", ")), a.clock(cmdline.TimeOrZero(of.Oldest)), a.clock(cmdline.TimeOrZero(of.Newest)))
		late, stays = late+of.Late, stays+of.Stays
	}
	t.Print()
	if r.DryRun {
		fmt.Fprintf(a.stdout, "\nnothing was changed; without --dry-run these move from %s to %s\n", r.From, r.To)
		return nil
	}
	if late > 0 {
		fmt.Fprintf(a.stdout, "\n%s %s settled or added in the old ledger during the copy, and copied\n", human.Count(late, "entry"), human.Was(late))
	}
	if stays > 0 {
		fmt.Fprintf(a.stdout, "%s %s lowered too late; the units stay charged in the new ledger\n", human.Count(stays, "call"), human.Was(stays))
	}
	if !isComplete { // in the new ledger, nothing is used of the others
		fmt.Fprintf(a.stdout, "\nnot all accounts have moved: run the same command again before a host uses %s\n", r.To)
		return nil
	}
	fmt.Fprintf(a.stdout, "\nname the new ledger on every host, in costs.yaml:\n  ledger: %s\n", r.To)
	fmt.Fprintf(a.stdout, "%s stays closed for what has moved; keep it for %s: calls that are in flight settle there, and the same command copies that again\n",
		r.From, human.Duration(table.LongestWindow()))
	return nil
}

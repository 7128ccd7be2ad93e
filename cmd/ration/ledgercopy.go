package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/replica"
	"github.com/ration-dev/ration/internal/strictyaml"
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
		Long: `Copy moves all accounts of the ledger FROM, or one, to the ledger TO, which
must not hold anything of them. Each may be in SQLite, Redis or Postgres.
Records keep their ids and times. FROM may be a ledger of an earlier release, in
SQLite or Redis; in Redis, TO may then have the same address.

Jobs may run meanwhile. Copy closes each account in TO, and copies its log. Then
it closes FROM, copies the rest, and opens TO. No call is granted twice. FROM
stays closed: its callers exit with 78 and an error that names TO. Until TO is
open, its callers exit with 75, or wait within --max-wait.

If copy is interrupted, TO stays closed, and FROM too if it was: run the same
command again. It goes on where it stopped. Run it again later, too, if calls
that FROM had granted were still in flight when --grace ended: what they settle
there is copied then.

RATION_REDIS_PASSWORD is the password of both ledgers, or that of FROM if
RATION_TO_REDIS_PASSWORD is set. RATION_TO_REDIS_SENTINEL_PASSWORD is the same
for the sentinels of TO. With _FILE, each names a file that holds the password.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration ledger copy sqlite:/var/lib/ration/ration.db redis://redis.internal:6379/0 --dry-run\n" +
			"  ration ledger copy redis://old:6379/0 redis://new:6379/0 --account my-project",
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ledgerCopy(cmd.Context(), args[0], args[1], &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.account, "account", "",
		"move only this account (default all accounts of FROM and of costs.yaml)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what would be moved, and move nothing")
	f.grace = 10 * time.Second
	cli.SecondsVar(flags, &f.grace, "grace",
		"how long to go on copying what calls in flight cost, once TO is open")
	return cmd
}

// copyReport is what copy says.
type copyReport struct {
	From     string            `json:"from"`
	To       string            `json:"to"`
	DryRun   bool              `json:"dry_run"`
	Accounts []*replica.Report `json:"accounts"`
}

func (a *app) ledgerCopy(ctx context.Context, from, to string, f *copyFlags) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	c := &client.LedgerCopy{}
	c.FromName, c.ToName = a.setup().NameOf(table, from), a.setup().NameOf(table, to)
	c.Progress = a.copyProgress()
	c.OpenFrom = func(create bool) (*client.Client, error) { return a.setup().OpenNamed(table, from, create, a.getenv) }
	c.OpenTo = func(create bool) (*client.Client, error) {
		return a.setup().OpenNamed(table, to, create, a.setup().GetenvOfTarget)
	}
	defer c.Close()
	if err := c.Open(ctx); err != nil {
		return err
	}
	names, err := accountsToCopy(ctx, table, c, f.account)
	if err != nil {
		return err
	}
	report := &copyReport{From: c.FromName, To: c.ToName, DryRun: f.dryRun, Accounts: []*replica.Report{}}
	for _, name := range names {
		planned, err := c.Plan(ctx, name)
		if err != nil {
			return err
		}
		report.Accounts = append(report.Accounts, planned)
	}
	if f.dryRun {
		return a.printCopy(report, table, true)
	}
	if err := c.Create(); err != nil {
		return err
	}
	err = a.moveAll(ctx, &c.Copy, names, f.grace, report)
	if len(report.Accounts) > 0 {
		isComplete := len(report.Accounts) == len(names)
		err = errors.Join(a.printCopy(report, table, isComplete), err)
	}
	return err
}

// moveAll moves accounts, and reports those that have moved.
func (a *app) moveAll(ctx context.Context, c *replica.Copy, names []string, grace time.Duration,
	report *copyReport) error {
	report.Accounts = report.Accounts[:0]
	all, err := c.MoveAll(ctx, names, func(moved *replica.Report) {
		a.printCopyProgress("%s: moved to %s, and open there", human.Name(moved.Account), c.ToName)
		report.Accounts = append(report.Accounts, moved)
	})
	if err != nil {
		return err
	}
	if grace > 0 && !a.quiet && !a.json { // off a terminal too: it looks as if it hung
		fmt.Fprintf(a.stderr, "copying what calls in flight still cost, for %s\n", human.Duration(grace))
	}
	return replica.FollowAll(ctx, all, grace)
}

// accountsToCopy returns the accounts to move, all or the one that is named.
func accountsToCopy(ctx context.Context, table *costs.Table, c *client.LedgerCopy, account string) ([]string, error) {
	names, err := c.Accounts(ctx, table.Accounts())
	if err != nil || account == "" {
		return names, err
	}
	if !slices.Contains(names, account) {
		advice := strictyaml.Advice(account, names)
		return nil, &cli.Error{Err: fmt.Errorf("no account %q in %s; %s", account, c.FromName, advice)}
	}
	return []string{account}, nil
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
	t := a.table("account", "entries", "units", "calls", "keys", "cooldowns", "oldest", "newest")
	late := 0
	for _, of := range r.Accounts {
		oldest, newest := a.clock(cli.TimeOrZero(of.Oldest)), a.clock(cli.TimeOrZero(of.Newest))
		t.Row(human.Name(of.Account), of.Entries, of.Units, of.Calls, of.Keys, len(of.Cooldowns), oldest, newest)
		late += of.Late
	}
	t.Print()
	if r.DryRun {
		fmt.Fprintf(a.stdout, "\nnothing was moved; without --dry-run these move from %s to %s\n", r.From, r.To)
		return nil
	}
	if late > 0 {
		fmt.Fprintf(a.stdout, "\n%s %s settled or added in the old ledger during the copy, and copied\n",
			human.Count(late, "entry"), human.Was(late))
	}
	if !isComplete { // in the new ledger, nothing is used of the others
		fmt.Fprintf(a.stdout, "\nnot all accounts have moved: run the same command again before a host uses %s\n", r.To)
		return nil
	}
	fmt.Fprintf(a.stdout, "\nname the new ledger on every host, in costs.yaml:\n  ledger: %s\n", r.To)
	fmt.Fprintf(a.stdout, "%s stays closed for what has moved; keep it for %s: calls that are in flight settle there, "+
		"and the same command copies that again\n",
		r.From, human.Duration(table.LongestWindow()))
	return nil
}

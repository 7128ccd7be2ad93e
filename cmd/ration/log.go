package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// logFlags are the flags of log.
type logFlags struct {
	since, until, account string
	filter                usage.Filter
	cli.LogQuery
	csv bool
}

func (a *app) logCommand() *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Show the entries of the log: who spent what, and when",
		Long: `Log shows the recorded entries, oldest first. With --by it adds them up by an
attribute, largest total first. A run is what one process spent; its name is the
first part of an entry's id. --json prints one entry or one total per line, and
--csv the same for spreadsheets. A filter of - selects entries without that
attribute. Log never creates a ledger, and says so if there is none yet.

With --by day or hour it adds up by time, in UTC, oldest first, and with --by
job,day by a job and by day, of the last 8 days unless --since says otherwise. A
ledger drops old entries. This host's copy keeps those of 8 days, and log reads
them with --since; if some of the range are gone, it says so. --by day shows
whole days, and also those of the last 400 that both have dropped: status, run
and serve keep their sums, with how many calls were refused on this host, which
is all that it knows of refusals. With --run, log asks for entries only.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration log --since 1h --region IN\n  ration log --by job --since 24h --top 5\n  ration log --by " +
			"day --since 30d\n  ration log --csv > spent.csv",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (f.By != "" || f.csv) && !cmd.Flags().Changed("last") {
				f.Last = 0
			}
			if f.csv && a.json {
				return &cli.Error{Err: errors.New("--csv and --json: give one of them")}
			}
			since, until, err := f.check(a.now())
			if err != nil {
				return err
			}
			return a.log(cmd.Context(), &f, since, until)
		},
	}
	f.define(cmd.Flags())
	cmd.Flags().BoolVar(&f.csv, "csv", false,
		"print CSV; text that a spreadsheet would read as a formula is prefixed with '")
	return cmd
}

func (f *logFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.since, "since", "",
		"only entries of the last `period` (24h, 7d), or since yesterday, a day or a time (RFC 3339)")
	flags.StringVar(&f.until, "until", "", "only entries before this time (RFC 3339), or older than a `period`")
	flags.IntVar(&f.Last, "last", 50, "only the newest `n` entries; 0 means all, the default with --by and --csv")
	flags.StringVar(&f.By, "by", "",
		"add up by this `attribute`: run, job, region, lane, method, key or host, each also by day (job,day), or by "+
			"day or hour")
	flags.IntVar(&f.Top, "top", 0, "with --by, only the `n` largest totals; 0 means all")
	flags.StringVar(&f.account, "account", "", "only this account's entries")
	flags.StringVar(&f.filter.Method, "method", "", "only this method's entries")
	flags.StringVar(&f.filter.Region, "region", "", "only this region's entries")
	flags.StringVar(&f.filter.Job, "job", "", "only this job's entries")
	flags.StringVar(&f.filter.Lane, "lane", "", "only this lane's entries")
	flags.StringVar(&f.filter.Key, "key", "", "only this key's entries")
	flags.StringVar(&f.filter.Host, "host", "", "only this host's entries")
	flags.StringVar(&f.filter.Run, "run", "", "only this run's entries")
}

// allDays is how far back totals by day go without --since.
const allDays = "8d"

// isByDay reports whether f adds up by a dimension and by day.
func (f *logFlags) isByDay() bool { return strings.HasSuffix(f.By, usage.AndDay) }

// check checks the command line, and returns the range of time to show.
func (f *logFlags) check(now time.Time) (since, until time.Time, err error) {
	f.filter.Run = strings.ToLower(f.filter.Run)
	switch attributions := append(usage.Dimensions(), cli.Periods()...); {
	case f.Last < 0 || f.Top < 0:
		return since, until, &cli.Error{Err: errors.New("--last and --top: give 0 or more")}
	case f.isByDay() && f.Top > 0:
		return since, until,
			&cli.Error{Err: fmt.Errorf("--top is not for --by %s; give a range with --since and --until", f.By)}
	case f.By != "" && !slices.Contains(attributions, strings.TrimSuffix(f.By, usage.AndDay)):
		return since, until, &cli.Error{Err: fmt.Errorf("--by %q: %s", f.By, strictyaml.Advice(f.By, attributions))}
	case f.ByPeriod() && (f.Last > 0 || f.Top > 0):
		return since, until,
			&cli.Error{Err: fmt.Errorf("--last and --top are not for --by %s; give a range with --since and --until",
				f.By)}
	case f.Top > 0 && f.By == "":
		return since, until, &cli.Error{Err: errors.New("--top is for sums; say of what with --by")}
	}
	if f.since == "" && f.isByDay() {
		f.since = allDays
	}
	if since, err = cli.ParseMoment("--since", f.since, now); err == nil {
		until, err = cli.ParseMoment("--until", f.until, now)
	}
	if err == nil && !until.IsZero() && !since.Before(until) {
		err = &cli.Error{Err: fmt.Errorf("--until %s is not after --since %s", until.Format(time.RFC3339),
			since.Format(time.RFC3339))}
	}
	return since, until, err
}

func (a *app) log(ctx context.Context, f *logFlags, since, until time.Time) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	chosen, err := cli.Accounts(table, f.account)
	if err != nil {
		return err
	}
	f.filter.Region = setup.SpellRegion(f.filter.Region, table)
	source := &usage.LogReader{Accounts: chosen, Since: since, Until: until, Filter: f.filter}
	isOfKeys := func(b quota.Budget) bool { return b.PerKey && slices.Contains(chosen, b.Account) }
	v := &cli.LogView{
		Query: &f.LogQuery, Source: source, Setup: a.setup(), JSON: a.json, CSV: f.csv,
		None: "no entries", HasKeys: slices.ContainsFunc(table.Budgets(), isOfKeys),
		Stdout: a.stdout, Table: a.table, Remark: a.remark, Now: a.now,
	}
	for _, account := range chosen {
		v.Measures = append(v.Measures, table.Measures(account)...)
	}
	slices.Sort(v.Measures)
	v.Measures = slices.Compact(v.Measures)
	err = a.withClient(table, false, func(c *client.Client) error {
		source.Guard = c.Guard()
		a.warnOfSpelling(ctx, c)
		a.warnOfLoss()
		return v.Print(ctx, c)
	})
	if errors.Is(err, setup.ErrNoLedger) {
		if source.Guard, err = quota.NewGuard(memledger.Open(nil), nil, nil); err != nil {
			return err
		}
		v.None = a.ledgerLine(a.setup().LedgerName(), false)
		return v.Print(ctx, nil)
	}
	return err
}

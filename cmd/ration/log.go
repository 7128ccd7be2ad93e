package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ration-dev/ration/cmd/ration/internal/cmdline"
	"github.com/ration-dev/ration/cmd/ration/internal/terminal"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/entries"
	"github.com/ration-dev/ration/jobs/setup"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/usage"
)

// logFlags are the flags of log.
type logFlags struct {
	since, until, account string
	filter                usage.Filter
	entries.Query
	csv bool
}

func (a *app) logCommand() *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Show the entries of the log: who spent what, and when",
		Long: `Log shows the recorded entries, oldest first. With --by it adds them up by run,
job, region, lane or method, largest total first. A run is what one process
spent; its name is the first part of an entry's id. --json prints one entry or
one total per line, and --csv the same for spreadsheets. A filter of - selects
entries without that attribute. Log never creates a ledger, and says so if there
is none yet.

With --by day or hour it adds up by time, in UTC, oldest first. A ledger drops
old entries; if it has dropped some of the range, log says so. --by day shows
whole days, and also those of the last 400 that the ledger has dropped: status,
run and serve keep their sums, with how many calls were refused. With --run, log
asks the ledger only.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration log --since 1h --region IN\n  ration log --by job --since 24h --top 5\n  ration log --by day --since 30d\n  ration log --csv > spent.csv",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (f.By != "" || f.csv) && !cmd.Flags().Changed("last") {
				f.Last = 0
			}
			if f.csv && a.json {
				return &cmdline.Error{Err: errors.New("--csv and --json: give one of them")}
			}
			since, until, err := f.check(a.now())
			if err != nil {
				return err
			}
			return a.log(cmd.Context(), &f, since, until)
		},
	}
	f.define(cmd.Flags())
	cmd.Flags().BoolVar(&f.csv, "csv", false, "print CSV; text that a spreadsheet would read as a formula is prefixed with '")
	return cmd
}

func (f *logFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.since, "since", "", "only entries of the last `period` (24h, 7d), or since a time (RFC 3339)")
	flags.StringVar(&f.until, "until", "", "only entries before this time (RFC 3339), or older than a `period`")
	flags.IntVar(&f.Last, "last", 50, "only the newest `n` entries; 0 means all, the default with --by and --csv")
	flags.StringVar(&f.By, "by", "", "add up by this `attribute`: run, job, region, lane, method, key or host, or by day or hour")
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

// check checks the command line, and returns the range of time to show.
func (f *logFlags) check(now time.Time) (since, until time.Time, err error) {
	f.filter.Run = strings.ToLower(f.filter.Run)
	switch attributions := append(usage.Dimensions(), entries.Periods()...); {
	case f.Last < 0 || f.Top < 0:
		return since, until, &cmdline.Error{Err: errors.New("--last and --top: give 0 or more")}
	case f.By != "" && !slices.Contains(attributions, f.By):
		return since, until, &cmdline.Error{Err: fmt.Errorf("--by %q: %s", f.By, strictyaml.Advice(f.By, attributions))}
	case f.ByPeriod() && (f.Last > 0 || f.Top > 0):
		return since, until, &cmdline.Error{Err: fmt.Errorf("--last and --top are not for --by %s; give a range with --since and --until", f.By)}
	case f.Top > 0 && f.By == "":
		return since, until, &cmdline.Error{Err: errors.New("--top is for sums; say of what with --by")}
	}
	if since, err = cmdline.ParseMoment("--since", f.since, now); err == nil {
		until, err = cmdline.ParseMoment("--until", f.until, now)
	}
	if err == nil && !until.IsZero() && !since.Before(until) {
		err = &cmdline.Error{Err: fmt.Errorf("--until %s is not after --since %s", until.Format(time.RFC3339), since.Format(time.RFC3339))}
	}
	return since, until, err
}

func (a *app) log(ctx context.Context, f *logFlags, since, until time.Time) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	chosen, err := cmdline.Accounts(table, f.account)
	if err != nil {
		return err
	}
	f.filter.Region = setup.SpellRegion(f.filter.Region, table)
	source := &usage.LogReader{Accounts: chosen, Since: since, Until: until, Filter: f.filter}
	isOfKeys := func(b quota.Budget) bool { return b.PerKey && slices.Contains(chosen, b.Account) }
	r := &logReport{app: a, flags: f, source: source, none: "no entries", hasKeys: slices.ContainsFunc(table.Budgets(), isOfKeys)}
	for _, account := range chosen {
		r.measures = append(r.measures, table.Measures(account)...)
	}
	slices.Sort(r.measures)
	r.measures = slices.Compact(r.measures)
	err = a.withClient(table, false, func(c *client.Client) error {
		source.Ledger = c.Log()
		a.warnOfSpelling(ctx, c)
		a.warnOfLoss()
		return r.print(ctx, c)
	})
	if errors.Is(err, setup.ErrNoLedger) {
		source.Ledger, r.none = quota.NewLog(memledger.Open(nil), nil), a.ledgerLine(a.setup().LedgerName(), false)
		return r.print(ctx, nil)
	}
	return err
}

// logReport prints what a log command selects.
type logReport struct {
	*app
	flags   *logFlags
	source  *usage.LogReader
	none    string // what an empty log means
	hasKeys bool   // costs.yaml has budgets that each key has for itself

	measures []quota.Measure // named ones of costs.yaml, sorted
}

// measureNames returns the headings of the named measures.
func (r *logReport) measureNames() (names []string) {
	for _, m := range r.measures {
		names = append(names, m.String())
	}
	return names
}

// print writes what the flags select. Without a ledger, c is nil.
func (r *logReport) print(ctx context.Context, c *client.Client) error {
	found, err := r.flags.Select(ctx, r.setup(), c, r.source)
	switch {
	case err != nil && len(found.Periods) == 0:
		return err
	case r.flags.ByPeriod():
		err = errors.Join(r.printPeriods(ctx, found.Periods), err)
	case r.flags.By != "":
		err = r.printTotals(ctx, found.Totals)
	default:
		err = r.printLines(ctx, found.Lines)
	}
	switch {
	case err != nil || c == nil || r.flags.ByHistory(r.source):
		return err
	case found.More:
		r.remark("log", "older entries are not shown; --last 0 shows all")
		return nil
	}
	return r.noteMissing(ctx, c.Guard())
}

// printNone says that nothing was selected, and which filter is to blame. Only
// CSV has headings nevertheless.
func (r *logReport) printNone(ctx context.Context) error {
	names, err := r.source.Names(ctx)
	if err != nil {
		return err
	}
	said := r.none
	if len(names) > 0 {
		said = "no entry matches"
		if by, asked, unknown := r.flags.filter.Unknown(names); unknown {
			said += fmt.Sprintf("; --%s %q: %s", by, asked, jobs.RegionAdvice(asked, names[by]))
		} else if run := r.flags.filter.Run; run != "" {
			said += fmt.Sprintf("; --run %q: ration log --by run shows the runs", run)
		}
	}
	r.remark("log", "%s", said)
	return nil
}

// printLines prints entries: a table, or as they are read JSON or CSV.
func (r *logReport) printLines(ctx context.Context, lines iter.Seq2[usage.Line, error]) error {
	writer := r.lineWriter()
	none := true
	for line, err := range lines {
		if err != nil {
			return err
		}
		none = false
		if err := writer.write(usage.NewLineReport(&line)); err != nil {
			return err
		}
	}
	if none {
		if err := r.printNone(ctx); err != nil || !r.flags.csv {
			return err
		}
	}
	return writer.end()
}

// lineWriter writes entries one by one, and what is left at the end.
type lineWriter struct {
	write func(*usage.LineReport) error
	end   func() error
}

func (r *logReport) lineWriter() lineWriter {
	switch {
	case r.json:
		encoder := json.NewEncoder(r.stdout)
		return lineWriter{func(e *usage.LineReport) error { return encoder.Encode(e) }, func() error { return nil }}
	case r.flags.csv:
		w := csv.NewWriter(r.stdout)
		headings := []string{"at", "run", "id", "account", "method", "units", "calls", "lane", "job", "region", "kind", "key", "host"}
		_ = w.Write(append(headings, r.measureNames()...)) // Error says it at the end
		write := func(e *usage.LineReport) error {
			return w.Write(append(lineCells(e), e.Amounts.Numbers(r.measures)...))
		}
		return lineWriter{write, func() error { w.Flush(); return w.Error() }}
	}
	var lines []*usage.LineReport
	return lineWriter{func(e *usage.LineReport) error { lines = append(lines, e); return nil },
		func() error { r.lineTable(lines); return nil }}
}

// lineTable shows entries, and their hosts if there are several.
func (r *logReport) lineTable(lines []*usage.LineReport) {
	headings := []string{"at", "run", "method", "units", "lane", "job", "region"}
	hasHosts := slices.ContainsFunc(lines, func(e *usage.LineReport) bool { return e.Host != lines[0].Host })
	if r.hasKeys {
		headings = append(headings, "key")
	}
	if hasHosts {
		headings = append(headings, "host")
	}
	t := r.table(append(headings, "")...)
	for _, e := range lines {
		at := human.Dated(e.At.UTC(), r.now(), "01-02 15:04:05.000Z")
		row := []any{at, e.Run, human.Name(e.Method), e.Units, human.Name(e.Lane), human.Name(e.Job), human.Name(e.Region)}
		if r.hasKeys {
			row = append(row, human.Name(dash(e.Key)))
		}
		if hasHosts {
			row = append(row, human.Name(e.Host))
		}
		t.Row(append(row, e.Remark)...)
	}
	t.Print()
}

// lineCells returns an entry as CSV.
func lineCells(e *usage.LineReport) []string {
	return []string{e.At.UTC().Format(time.RFC3339Nano), e.Run, e.ID, terminal.Cell(e.Account), terminal.Cell(e.Method),
		fmt.Sprint(e.Units), fmt.Sprint(e.Calls), terminal.Cell(e.Lane), terminal.Cell(e.Job), terminal.Cell(e.Region), e.Kind, terminal.Cell(dash(e.Key)), terminal.Cell(e.Host)}
}

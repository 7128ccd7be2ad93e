package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/duration"
	"github.com/ration-dev/ration/quota"
)

// logFlags are what log is asked.
type logFlags struct {
	since                                     string
	account, method, region, job, lane, runID string
	last, top                                 int
	by                                        string
	csv                                       bool

	left map[string][]string // by filter, names of entries that some filter left out
}

func (a *app) logCommand() *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Show the entries: who spent what, and when",
		Long: `Log shows the recorded calls, oldest first; with --by it adds them up by run,
job, region, lane or method, who spent most first. A run is what one process
spent: the first part of an entry's id. --json prints one entry, or one sum, a
line, and --csv the same for spreadsheets. A filter of - selects what is not
attributed. It never makes a ledger, and says so when there is none yet.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration log --since 1h --region IN\n  ration log --by job --since 24h --top 5\n  ration log --csv > spent.csv",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (f.by != "" || f.csv) && !cmd.Flags().Changed("last") {
				f.last = 0
			}
			since, err := f.check(a)
			if err != nil {
				return err
			}
			return a.log(cmd.Context(), &f, since)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "", "only the entries of this long (24h, 7d), or since this `instant` (RFC 3339)")
	flags.IntVar(&f.last, "last", 50, "only so many of the newest; 0 is all, as with --by and --csv")
	flags.StringVar(&f.by, "by", "", "add up by `what`: run, job, region, lane or method")
	flags.IntVar(&f.top, "top", 0, "with --by, only so many who spent most; 0 is all")
	flags.BoolVar(&f.csv, "csv", false, "print CSV, with text that a spreadsheet would run made harmless by a '")
	flags.StringVar(&f.account, "account", "", "only this account's entries")
	flags.StringVar(&f.method, "method", "", "only this method's")
	flags.StringVar(&f.region, "region", "", "only this region's")
	flags.StringVar(&f.job, "job", "", "only this job's")
	flags.StringVar(&f.lane, "lane", "", "only this lane's")
	flags.StringVar(&f.runID, "run", "", "only this run's")
	return cmd
}

// check looks over the command line, and returns since when entries are asked for.
func (f *logFlags) check(a *app) (since time.Time, err error) {
	switch {
	case f.last < 0 || f.top < 0:
		return since, &usageError{errors.New("--last and --top: give 0 or more")}
	case f.by != "" && !slices.Contains(attributions, f.by):
		return since, &usageError{fmt.Errorf("--by %q: %s", f.by, advice(f.by, attributions))}
	case f.top > 0 && f.by == "":
		return since, &usageError{errors.New("--top is for sums; say of what with --by")}
	case f.csv && a.json:
		return since, &usageError{errors.New("--csv and --json: give one of them")}
	case f.since == "":
		return since, nil
	}
	if length, err := duration.Parse(f.since); err == nil {
		if length > 0 { // 0 is all that the ledger keeps
			if since = a.now().Add(-length); since.Unix() < 0 {
				since = time.Unix(0, 0)
			}
		}
		return since, nil
	}
	if _, err := time.Parse(time.RFC3339, f.since); err != nil {
		return since, &usageError{fmt.Errorf("--since %q: write how long, such as 24h or 7d, or an instant such as 2026-11-20T09:00:00Z", f.since)}
	}
	return parseTime("--since", f.since, lastYear)
}

// filters returns the names that were asked for, by the flag that asks.
func (f *logFlags) filters() map[string]string {
	return map[string]string{"method": f.method, "region": regionOf(f.region), "job": f.job, "lane": f.lane, "run": strings.ToLower(f.runID)}
}

// maxLeft is the most names that are kept to suggest one of.
const maxLeft = 50

// keeps reports whether an entry was asked for, and keeps its names if not.
func (f *logFlags) keeps(e *logged) bool {
	kept := true
	for by, name := range f.filters() {
		kept = kept && (name == "" || name == e.of(by))
	}
	if kept {
		return true
	}
	if f.left == nil {
		f.left = map[string][]string{}
	}
	for by := range f.filters() {
		if name := e.of(by); len(f.left[by]) < maxLeft && !slices.Contains(f.left[by], name) {
			f.left[by] = append(f.left[by], name)
		}
	}
	return false
}

// advice says which filter names what no entry has, and what they have.
func (f *logFlags) advice() string {
	filters := f.filters()
	for _, by := range slices.Sorted(maps.Keys(filters)) {
		if name := filters[by]; name != "" && !slices.Contains(f.left[by], name) {
			return fmt.Sprintf("; --%s %q: %s", by, name, regionAdvice(name, f.left[by]))
		}
	}
	return ""
}

// logged is an entry as JSON says it.
type logged struct {
	At      time.Time   `json:"at"`
	ID      string      `json:"id"`
	Account string      `json:"account"`
	Method  string      `json:"method"`
	Units   quota.Units `json:"units"`
	Calls   quota.Units `json:"calls"`
	Lane    string      `json:"lane"`
	Job     string      `json:"job"`
	Region  string      `json:"region"`
	Run     string      `json:"run"`

	note string // what it is, if it is not a call
}

func newLogged(account string, e quota.Entry) logged {
	return logged{e.At, e.ID.String(), account, dash(e.Method), e.Units, e.Calls, dash(e.Caller.Lane), dash(e.Caller.Job), dash(e.Caller.Region), runOf(e.ID), noteOf(&e)}
}

// runOf is the part of an id that all entries of one process share.
func runOf(id quota.ID) string {
	run, _, _ := strings.Cut(id.String(), "-")
	return run
}

func (a *app) log(ctx context.Context, f *logFlags, since time.Time) error {
	table, err := a.prices()
	if err != nil {
		return err
	}
	if known := accounts(table); f.account != "" && !slices.Contains(known, f.account) {
		return &usageError{fmt.Errorf("no account %q in costs.yaml; %s", f.account, advice(f.account, known))}
	}
	s, err := a.openGuard(table, false)
	if errors.Is(err, errNoLedger) {
		fmt.Fprintf(a.stderr, "no ledger at %s yet: nothing was spent\n", s.ledger.name)
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	entries, left, others, err := a.entries(ctx, s, table, f, since)
	if err != nil {
		return fmt.Errorf("%w (ledger %s)", err, s.ledger.name)
	}
	switch {
	case len(entries) == 0 && others:
		fmt.Fprintf(a.stderr, "no entry matches%s\n", f.advice())
	case len(entries) == 0:
		fmt.Fprintln(a.stderr, "no entries")
	}
	switch {
	case f.by != "":
		return a.tellSums(f, entries)
	case a.json:
		return lines(a, entries)
	case f.csv:
		err = a.logCSV(entries)
	case len(entries) > 0:
		a.logTable(entries)
	}
	if left > 0 {
		fmt.Fprintf(a.stderr, "%d older %s not shown; --last 0 shows all\n", left, map[bool]string{true: "entry is", false: "entries are"}[left == 1])
	}
	return err
}

// lines prints JSON, one object a line.
func lines[T any](a *app, all []T) error {
	encoder := json.NewEncoder(a.stdout)
	for _, one := range all {
		if err := encoder.Encode(one); err != nil {
			return err
		}
	}
	return nil
}

// entries reads the logs of all accounts, or of one, oldest first, and says how
// many are left out because only the last are asked for, and whether there are
// others that the filters do not keep.
func (a *app) entries(ctx context.Context, s *spending, table *costs.Table, f *logFlags, since time.Time) (entries []logged, left int, others bool, err error) {
	trim := func(most int) {
		if f.last > 0 && len(entries) > most {
			left += len(entries) - f.last
			entries = append(entries[:0], entries[len(entries)-f.last:]...)
		}
	}
	all := accounts(table)
	if f.account != "" {
		all = []string{f.account}
	}
	for _, account := range all {
		for e, err := range s.ledger.Entries(ctx, quota.Query{Account: account, Since: since}) {
			if err != nil {
				return nil, 0, false, err
			}
			if e := newLogged(account, e); f.keeps(&e) {
				entries = append(entries, e)
			} else {
				others = true
			}
			if len(all) == 1 {
				trim(2*f.last + 1000) // a long log is not held whole
			}
		}
	}
	slices.SortStableFunc(entries, func(x, y logged) int { return x.At.Compare(y.At) })
	trim(f.last)
	return entries, left, others, nil
}

func (a *app) logTable(entries []logged) {
	t := a.table("at", "run", "method", "units", "lane", "job", "region", "")
	for _, e := range entries {
		t.row(dated(e.At.UTC(), a.now(), "01-02 15:04:05.000Z"), e.Run, safe(e.Method), e.Units, safe(e.Lane), safe(e.Job), safe(e.Region), e.note)
	}
	t.print()
}

// noteOf says what an entry is that is not a call.
func noteOf(e *quota.Entry) string {
	if found := driftOf(e); found != "" {
		return "found missing " + found
	}
	switch e.Kind {
	case quota.EntryRefunded:
		return "refunded"
	case quota.EntryAddition:
		return "added to an earlier call"
	case quota.EntryNote, quota.EntryCorrection:
		return "no call, by hand"
	}
	return ""
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs/setup"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/usage"
)

func (a *app) statusCommand() *cobra.Command {
	var at string
	var web, noOpen bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is left, who spent the rest, and when it returns",
		Long: `Status shows the limit of each budget, what is used and what is left, who spent
it, and when the units return: those that return within a minute are shown
together, at the time of the last. It says when a budget runs out: at the pace
of the last hours, and by the schedule of regions.yaml within two days, if there
is one. It also shows cooldowns, the passes that a host has claimed or another
host has done, and the ten fullest keys of accounts with keyed calls. While the
ledger is down, status shows what it knows and exits 69. It never creates a
ledger, and says so if there is none yet.

With --at after now it shows what that time will find if nothing more is spent.
With --at before the newest entry it shows what a clock set back to that time
would find.

With --web it shows this, charts and the log as a page that stays current: it
prints the URL on stderr, opens the browser where it can, and ends on Ctrl-C.
ration serve has the same page.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration status\n  ration status --json\n  ration status --web",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case web && (at != "" || a.json):
				return &usageError{errors.New("--web: leave out --at and --json; the page shows the present, and has links to JSON")}
			case noOpen && !web:
				return &usageError{errors.New("--no-open is for --web")}
			case web:
				return a.statusPage(cmd.Context(), !noOpen)
			}
			if err := a.setNow(at); err != nil {
				return err
			}
			return a.status(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "show the status as of this `time` (RFC 3339)")
	cmd.Flags().BoolVar(&web, "web", false, "show a page in the browser, until Ctrl-C")
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "with --web, only print its URL")
	return cmd
}

type statusReport struct {
	At              time.Time             `json:"at"`
	Ledger          string                `json:"ledger"`
	LedgerExists    bool                  `json:"ledger_exists"`
	UnrecordedUnits quota.Units           `json:"unrecorded_units"`
	Budgets         []*usage.BudgetReport `json:"budgets"`

	Keyed    []usage.KeyReport `json:"keyed"`     // the fullest keyed logs of each account
	MoreKeys []string          `json:"more_keys"` // accounts that have more keys than were looked at
	Waiting  []waitingStep     `json:"waiting"`   // steps that keep failing
	Passes   []passReport      `json:"passes"`    // current passes that a host has or has done
	Repairs  []journal.Repair  `json:"repairs"`   // of the ledger, from this host's journal
}

func (a *app) status(ctx context.Context) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	report := newStatusReport(a.now())
	err = a.withClient(table, false, func(c *client.Client) error {
		if err := report.read(ctx, c.Guard(), table.Accounts()); err != nil {
			return err
		}
		if err := a.addSchedule(ctx, c, report); err != nil && !isLedgerError(err) {
			a.warn("forecast", "status does not forecast by the schedule: "+err.Error())
		}
		if err := a.tryShadows(ctx, c, report); err != nil {
			return err
		}
		a.warnUnfilled(a.fillHistory(ctx, c))
		return nil
	})
	if errors.Is(err, setup.ErrNoLedger) {
		report.LedgerExists, err = false, nil
		report.addUnspent(table)
	}
	if !a.isShowable(err) {
		return err
	}
	report.Ledger = a.setup().LedgerName()
	units, failed := a.setup().Unrecorded()
	if report.UnrecordedUnits = units; failed != nil && err == nil {
		return failed
	}
	if report.Repairs, failed = a.setup().Repairs(); failed != nil && err == nil {
		return failed
	}
	if report.Waiting, failed = a.waitingSteps(ctx); failed != nil {
		a.warn("catalogue", "the catalogue cannot be read, so status does not show which steps wait: "+failed.Error())
	}
	if a.json {
		return errors.Join(a.writeJSON(report), err)
	}
	a.statusTable(report)
	return err
}

func newStatusReport(at time.Time) *statusReport {
	return &statusReport{At: at.UTC(), LedgerExists: true, Budgets: []*usage.BudgetReport{}, Keyed: []usage.KeyReport{}, MoreKeys: []string{}, Waiting: []waitingStep{}, Passes: []passReport{}, Repairs: []journal.Repair{}}
}

// addUnspent adds the budgets of a ledger that does not exist yet.
func (r *statusReport) addUnspent(table *costs.Table) {
	for _, b := range table.Budgets() {
		r.Budgets = append(r.Budgets, usage.NewBudgetReport(&usage.BudgetStatus{Balance: quota.Balance{Budget: b, At: r.At, Remaining: b.Limit}}))
	}
}

// unrecordedNote says what was sent while the ledger could not be asked.
func (a *app) unrecordedNote() string {
	if units := a.setup().LedgerState().Unrecorded; units != nil && *units > 0 {
		return fmt.Sprintf("; meanwhile %s %s sent within the allowance", human.Count(*units, "unit"), human.Was(*units))
	}
	return ""
}

// read reads the budgets and the keys. After an error the report has none.
func (r *statusReport) read(ctx context.Context, guard *quota.Guard, accounts []string) error {
	standings, err := usage.Status(ctx, guard)
	if err != nil {
		return err
	}
	keyed, more, err := usage.FullestKeys(ctx, guard, accounts, fullestKeys)
	if err != nil {
		return err
	}
	for i := range standings {
		r.Budgets, r.At = append(r.Budgets, usage.NewBudgetReport(&standings[i])), standings[i].At
	}
	r.Keyed, r.MoreKeys = keyed, more
	return nil
}

// statusTable is status for people.
func (a *app) statusTable(r *statusReport) {
	fmt.Fprintf(a.stdout, "ledger  %s", r.Ledger)
	if !r.LedgerExists {
		fmt.Fprint(a.stdout, "  (none there yet: nothing was spent)")
	}
	fmt.Fprintf(a.stdout, "\nat      %s\n", human.Time(r.At))
	if down := a.setup().LedgerState().String(); down != "" {
		fmt.Fprintf(a.stdout, "outage  %s\n", down)
	}
	if len(r.Budgets) > 0 {
		fmt.Fprintln(a.stdout)
		a.budgetTable(r)
		a.keyedTable(r)
	}
	a.statusRemarks(r)
	a.passTable(r)
	a.spenderTable(r)
}

// budgetTable shows what the budgets hold.
func (a *app) budgetTable(r *statusReport) {
	t := a.table("budget", "used", "limit", "left", "", "window", "next to return")
	for _, b := range r.Budgets {
		window := b.Window
		if b.Estimate {
			window += " (estimate)"
		}
		if b.Over > 0 {
			window = fmt.Sprintf("%s (estimate, up to %d more)", b.Window, b.Over)
		}
		if b.Shadow {
			window += " (shadow)"
		}
		t.Row(b.Name, b.Used, b.Limit, b.Remaining, b.Measure, window, returnText(b, r.At))
	}
	t.Print()
}

// statusRemarks says what holds beside the budgets.
func (a *app) statusRemarks(r *statusReport) {
	last := ""
	for _, b := range r.Budgets {
		text := cooldownRemark(b, r.At)
		if text != "" && text != last { // that an account has moved is said once
			fmt.Fprintln(a.stdout)
			a.paragraph("", "%s", text)
		}
		last = text
	}
	for _, b := range r.Budgets {
		if b.Shadow {
			fmt.Fprintln(a.stdout)
			a.paragraph("", "%s", a.shadowText(b))
		}
		if text := forecastText(b, r.At); text != "" {
			fmt.Fprintln(a.stdout)
			a.paragraph("", "%s", text)
		}
	}
	for _, b := range r.Budgets {
		if b.LimitUntil != nil {
			fmt.Fprintln(a.stdout)
			a.paragraph("", "%s", stricterLimit(b.Name, b.Limit, b.OwnLimit, *b.LimitUntil))
		}
	}
	for _, step := range r.Waiting {
		fmt.Fprintln(a.stdout)
		a.paragraph("", "%s", step.String())
	}
	said := map[string]bool{}
	sayAhead := func(account, log string, seconds int64) {
		if seconds > 0 && !said[account] {
			said[account] = true
			fmt.Fprintln(a.stdout)
			a.paragraph("", "the newest entry of %s is stamped %s ahead of the ledger's clock, so its budgets free late: correct the clock, then run ration ledger restamp",
				log, human.Duration(time.Duration(seconds)*time.Second))
		}
	}
	for _, b := range r.Budgets {
		sayAhead(b.Account, human.Name(b.Account), b.Ahead)
	}
	for _, k := range r.Keyed {
		sayAhead(k.Account, "key "+human.Name(k.Key), k.Ahead)
	}
	if drift := r.drift(); drift != "" {
		fmt.Fprintln(a.stdout)
		a.paragraph("", "found missing, and entered: %s", drift)
	}
	for i := range r.Repairs {
		if i == 0 {
			fmt.Fprintln(a.stdout)
		}
		a.paragraph("", "%s", describeRepair(&r.Repairs[i], r.At))
	}
	if r.UnrecordedUnits > 0 {
		fmt.Fprintln(a.stdout)
		a.paragraph("", "%s %s sent within the allowance while the ledger was down, not yet in the ledger", human.Count(r.UnrecordedUnits, "unit"), human.Was(r.UnrecordedUnits))
	}
}

// spenderTable shows who spent the budgets.
func (a *app) spenderTable(r *statusReport) {
	if !slices.ContainsFunc(r.Budgets, func(b *usage.BudgetReport) bool { return len(b.ByMethod) > 0 || len(b.Floors) > 0 }) {
		return
	}
	fmt.Fprintln(a.stdout)
	t := a.table("budget", "by", "who spent it")
	for _, b := range r.Budgets {
		name := b.Name
		eachDimension(&b.Attribution, 8, func(by, who string) {
			t.Row(name, by, who)
			name = ""
		})
		if len(b.Floors) > 0 {
			t.Row(name, "floor", floorText(b))
		}
	}
	t.Print()
}

// drift says what of the budgets was missing once, and how that was found.
func (r *statusReport) drift() string {
	var parts []string
	for _, b := range r.Budgets {
		if found := (usage.Drift{Corrected: b.Reconciled, Reported: b.Reported}).Text(b.Measure); found != "" {
			parts = append(parts, b.Name+" "+found)
		}
	}
	return strings.Join(parts, "; ")
}

// ranked lists who spent most first: search.list 800, videos.list 32.
func ranked(sums map[string]quota.Units, most int) string {
	names := slices.SortedFunc(maps.Keys(sums), func(x, y string) int {
		return cmp.Or(cmp.Compare(sums[y], sums[x]), cmp.Compare(x, y))
	})
	var parts []string
	rest := quota.Units(0)
	for i, name := range names {
		if i < most {
			parts = append(parts, fmt.Sprintf("%s %d", human.Name(name), sums[name]))
		} else {
			rest += sums[name]
		}
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%s %d", human.Count(len(names)-most, "other"), rest))
	}
	return strings.Join(parts, ", ")
}

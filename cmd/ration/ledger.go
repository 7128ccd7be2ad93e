package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/cmd/ration/internal/cmdline"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs/setup"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/usage"
)

func (a *app) ledgerCommand() *cobra.Command {
	return cmdline.Group(&cobra.Command{
		Use:   "ledger",
		Short: "Inspect, correct, repair or move the ledger",
		Long: `The ledger records what was spent. Info describes it, reconcile corrects it to
match the upstream's console, restamp repairs it after its clock was wrong, and
accept says that its clock is right where this host's disagrees. Copy moves it
to another file or server.

` + exitCodes(),
		Example: "  ration ledger info\n  ration ledger reconcile youtube-day --used 8700",
	}, a.ledgerInfoCommand(), a.reconcileCommand(), a.restampCommand(), a.acceptCommand(), a.ledgerCopyCommand())
}

func (a *app) ledgerInfoCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "info",
		Short: "Show which ledger is in use, what it holds, and its drift",
		Long: `Info shows which ledger the configuration names, its size, and for each account
the number of entries and the time of the oldest. Drift is what was recorded
late: what reconcile or the upstream's answers found missing, and what was sent
from the allowance while the ledger was down. Info never creates a ledger.

` + exitCodes(exitLedger, exitConfig),
		Example: "  ration ledger info\n  ration ledger info --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.ledgerInfo(cmd.Context()) },
	}
}

// ledgerReport is what info says.
type ledgerReport struct {
	At         time.Time          `json:"at"`
	Ledger     string             `json:"ledger"`
	Exists     bool               `json:"ledger_exists"`
	Size       *int64             `json:"size_bytes"` // of a file; null elsewhere
	Unrecorded quota.Units        `json:"unrecorded_units"`
	Accounts   []*usage.LogReport `json:"accounts"`
}

func (a *app) ledgerInfo(ctx context.Context) error {
	table, err := a.setup().Prices()
	if err != nil {
		return err
	}
	report := &ledgerReport{At: a.now().UTC(), Accounts: []*usage.LogReport{}}
	err = a.withClient(table, false, func(c *client.Client) error {
		report.Exists = true
		return report.read(ctx, c)
	})
	if errors.Is(err, setup.ErrNoLedger) {
		err = nil
	}
	if !a.isShowable(err) {
		return err
	}
	report.Ledger = a.setup().LedgerName()
	units, failed := a.setup().Unrecorded()
	if report.Unrecorded = units; failed != nil && err == nil {
		return failed
	}
	if a.json {
		return errors.Join(a.writeJSON(report), err)
	}
	a.ledgerTable(report)
	return err
}

func (r *ledgerReport) read(ctx context.Context, c *client.Client) error {
	for _, account := range c.Table().Accounts() {
		at, _, err := c.Guard().Now(ctx, account)
		if err != nil {
			return err
		}
		r.At = at
		log, err := usage.Log(ctx, c.Guard(), account)
		if err != nil {
			return err
		}
		r.Accounts = append(r.Accounts, log)
	}
	r.Size = fileSize(c.LedgerName())
	return nil
}

// fileSize returns the size of a ledger that is a file, with its write-ahead log,
// or nil for one that is a server.
func fileSize(ledger string) *int64 {
	path, ok := strings.CutPrefix(ledger, "sqlite:")
	if !ok {
		return nil
	}
	var sum int64
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			sum += info.Size()
		}
	}
	return &sum
}

func (a *app) ledgerTable(r *ledgerReport) {
	fmt.Fprintf(a.stdout, "ledger  %s", r.Ledger)
	if !r.Exists {
		fmt.Fprint(a.stdout, "  (none there yet: nothing was spent)")
	}
	fmt.Fprintln(a.stdout)
	if down := a.setup().LedgerState().String(); down != "" {
		fmt.Fprintf(a.stdout, "outage  %s\n", down)
	}
	if r.Size != nil {
		fmt.Fprintf(a.stdout, "size    %d KB\n", (*r.Size+1023)/1024)
	}
	if len(r.Accounts) > 0 {
		fmt.Fprintln(a.stdout)
		t := a.table("account", "keeps", "entries", "calls", "units", "oldest", "newest")
		for _, l := range r.Accounts {
			t.Row(human.Name(l.Account), keepsText(l.Keeps), l.Entries, l.Calls, l.Units, a.clock(orZero(l.Oldest)), a.clock(orZero(l.Newest)))
		}
		t.Print()
	}
	var drift []string
	for _, l := range r.Accounts {
		units := usage.Drift{Corrected: l.ReconciledUnits, Reported: l.ReportedUnits}.Text("units")
		calls := usage.Drift{Corrected: l.ReconciledCalls, Reported: l.ReportedCalls}.Text("calls")
		for _, found := range []string{units, calls} {
			if found != "" {
				drift = append(drift, fmt.Sprintf("%s: found missing, and entered: %s", human.Name(l.Account), found))
			}
		}
	}
	if r.Unrecorded > 0 {
		drift = append(drift, fmt.Sprintf("%s %s sent within the allowance while the ledger was down", human.Count(r.Unrecorded, "unit"), human.Was(r.Unrecorded)))
	}
	if len(drift) == 0 {
		drift = []string{"none known"}
	}
	fmt.Fprintf(a.stdout, "\ndrift   %s\n", strings.Join(drift, "\n        "))
}

func keepsText(s int64) string {
	if s == 0 {
		return "counts only"
	}
	return human.Duration(time.Duration(s) * time.Second)
}

// orZero returns the time at t, or the zero time for null.
func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

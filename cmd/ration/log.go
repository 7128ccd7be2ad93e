package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

func (a *app) logCommand() *cobra.Command {
	var since time.Duration
	var account, method, region string
	var last int
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Show the entries: who spent what, and when",
		Long: `Log shows the recorded calls, oldest first. With --json it prints one entry a
line. It never makes a ledger, and says so when there is none yet.

` + exitHelp,
		Example: "  ration log --since 1h --region IN\n  ration log --json --last 0 | wc -l",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since < 0 || last < 0 {
				return &usageError{errors.New("--since and --last: give 0 or more")}
			}
			region = regionOf(region)
			keep := func(e quota.Entry) bool {
				return (method == "" || e.Method == method) && (region == "" || e.Caller.Region == region)
			}
			return a.log(cmd.Context(), account, since, last, keep)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&since, "since", 0, "only the entries of this long; 0 is all that the ledger keeps")
	flags.IntVar(&last, "last", 50, "only so many of the newest; 0 is all")
	flags.StringVar(&account, "account", "", "only this account's entries")
	flags.StringVar(&method, "method", "", "only this method's")
	flags.StringVar(&region, "region", "", "only this region's")
	return cmd
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
}

func (a *app) log(ctx context.Context, account string, since time.Duration, last int, keep func(quota.Entry) bool) error {
	table, err := a.prices()
	if err != nil {
		return err
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
	entries, err := a.entries(ctx, s, table, account, since, keep)
	if err != nil {
		return fmt.Errorf("%w (ledger %s)", err, s.ledger.name)
	}
	left := 0
	if last > 0 && len(entries) > last {
		left = len(entries) - last
		entries = entries[left:]
	}
	if a.json {
		encoder := json.NewEncoder(a.stdout)
		for _, e := range entries {
			if err := encoder.Encode(e); err != nil {
				return err
			}
		}
		return nil
	}
	a.logTable(entries)
	if left > 0 {
		fmt.Fprintf(a.stderr, "%d older entries are not shown; --last 0 shows all\n", left)
	}
	return nil
}

// entries reads the logs of all accounts, or of one.
func (a *app) entries(ctx context.Context, s *spending, table *costs.Table, account string, since time.Duration, keep func(quota.Entry) bool) ([]logged, error) {
	var entries []logged
	for _, u := range table.Upstreams() {
		if account != "" && account != u.Account {
			continue
		}
		query := quota.Query{Account: u.Account}
		if since > 0 {
			query.Since = a.now().Add(-since)
		}
		for e, err := range s.ledger.Entries(ctx, query) {
			if err != nil {
				return nil, err
			}
			if keep(e) {
				entries = append(entries, logged{e.At, e.ID.String(), u.Account, e.Method, e.Units, e.Calls, dash(e.Caller.Lane), dash(e.Caller.Job), dash(e.Caller.Region)})
			}
		}
	}
	return entries, nil
}

func (a *app) logTable(entries []logged) {
	t := a.table("at", "method", "units", "lane", "job", "region", "")
	for _, e := range entries {
		note := ""
		if e.Calls == 0 {
			note = "refunded"
			if e.Units > 0 {
				note = "added to an earlier call"
			}
		}
		t.row(e.At.Format("2006-01-02T15:04:05.000Z"), safe(e.Method), e.Units, safe(e.Lane), safe(e.Job), safe(e.Region), note)
	}
	t.print()
}

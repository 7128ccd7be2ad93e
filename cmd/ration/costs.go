package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/quota"
)

func (a *app) costsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "costs [[VERB] URL]",
		Short: "Show the price list, or what a request would cost",
		Long: `Costs shows what each method costs and which budgets pay for it; with a URL,
what that request would cost. It asks no ledger and sends nothing. A request
that would be refused exits 78.

` + exitHelp,
		Example: "  ration costs\n  ration costs GET 'https://www.googleapis.com/youtube/v3/search?q=music'",
		Args:    cobra.MaximumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			table, err := a.prices()
			if err != nil {
				return err
			}
			switch len(args) {
			case 0:
				return a.priceList(table)
			case 1:
				return a.price(table, "GET", args[0])
			}
			return a.price(table, args[0], args[1])
		},
	}
}

func (a *app) priceList(table *costs.Table) error {
	type method struct {
		Account string      `json:"account"`
		Method  string      `json:"method"`
		Units   quota.Units `json:"units"`
		Budgets []string    `json:"budgets"`
	}
	methods := []method{}
	for _, u := range table.Upstreams() {
		for _, c := range u.Costs {
			one := method{Account: u.Account, Method: c.Method, Units: c.Units, Budgets: []string{}}
			for _, b := range u.Budgets {
				if b.Coverage().Covers(c.Method, quota.Caller{}) {
					one.Budgets = append(one.Budgets, b.Name)
				}
			}
			methods = append(methods, one)
		}
	}
	if a.json {
		return json.NewEncoder(a.stdout).Encode(map[string]any{"methods": methods})
	}
	t := a.table("account", "method", "units", "budgets")
	for _, m := range methods {
		t.row(m.Account, m.Method, m.Units, strings.Join(m.Budgets, ", "))
	}
	t.print()
	return nil
}

func (a *app) price(table *costs.Table, verb, url string) error {
	found, err := table.Explain(verb, url)
	if err != nil {
		return err
	}
	out := struct {
		Guarded bool         `json:"guarded"`
		Account *string      `json:"account"`
		Method  *string      `json:"method"`
		Units   *quota.Units `json:"units"`
		Budgets []string     `json:"budgets"`
	}{Guarded: found.Guarded, Budgets: []string{}}
	for _, b := range found.Budgets {
		out.Budgets = append(out.Budgets, b.Name)
	}
	switch {
	case found.Paid:
		out.Units = new(quota.Units)
	case found.Guarded:
		out.Account, out.Method, out.Units = &found.Call.Account, &found.Call.Method, &found.Call.Units
	}
	switch {
	case a.json:
		return json.NewEncoder(a.stdout).Encode(out)
	case !found.Guarded:
		fmt.Fprintln(a.stdout, "not guarded: costs.yaml names no such host, the request would pass uncharged")
	case found.Paid:
		fmt.Fprintln(a.stdout, "0 units: it carries on an upload that was charged when it began")
	default:
		fmt.Fprintf(a.stdout, "%s costs %d units of %s, charged to: %s\n", found.Call.Method, found.Call.Units, found.Call.Account, strings.Join(out.Budgets, ", "))
	}
	return nil
}

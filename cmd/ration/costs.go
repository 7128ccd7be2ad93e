package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

func (a *app) costsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "costs [[VERB] URL | METHOD]",
		Short: "Show the price list, or what a request would cost",
		Long: `Costs shows the cost of each method, the budgets that it is charged to, and the
source of each line: costs.yaml, or a preset and the document behind it. Given a
URL or the name of a method, it shows what that call would cost, and exits 78 if
the request would be refused. It checks the ledger's address, does not use the
ledger and sends nothing.

` + exitCodes(exitConfig),
		Example: "  ration costs\n  ration costs GET 'https://www.googleapis.com/youtube/v3/search?q=music'\n  " +
			"ration costs presets",
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			table, err := a.setup().CheckedPrices()
			if err != nil {
				return err
			}
			switch len(args) {
			case 0:
				return a.priceList(table)
			case 1:
				if !strings.ContainsAny(args[0], "/:.") && strictyaml.Meant(args[0], []string{"presets"}) != "" {
					return cli.UnknownCommand(cmd, args[0])
				}
				if !strings.ContainsAny(args[0], "/:") {
					call, err := cli.Call(table, "", args[0])
					if err != nil {
						return err
					}
					return a.price(costs.Quote{Guarded: true, Call: call, Budgets: table.Covering(call)})
				}
				args = []string{"GET", args[0]}
			}
			found, err := table.Quote(args[0], args[1])
			if err != nil {
				return err
			}
			return a.price(found)
		},
	}
	cmd.AddCommand(a.presetsCommand())
	return cmd
}

func (a *app) priceList(table *costs.Table) error {
	l := table.List()
	if a.json {
		return json.NewEncoder(a.stdout).Encode(l)
	}
	t := a.table("from", "account", "method", "costs", "budgets")
	for _, m := range l.Methods {
		t.Row(m.From, human.Name(m.Account), human.Name(m.Method), human.Name(m.Describe()),
			human.Name(strings.Join(m.Budgets, ", ")))
	}
	t.Print()
	fmt.Fprintln(a.stdout)
	t = a.table("from", "account", "budget", "limit", "counts", "window", "covers")
	for i := range l.Budgets {
		b := &l.Budgets[i]
		t.Row(b.Origins(), human.Name(b.Account), human.Name(b.Name), quota.Measure(b.Measure).Number(b.Limit),
			b.Measure, b.Window, b.Describe())
	}
	t.Print()
	fmt.Fprintln(a.stdout)
	t = a.table("from", "account", "line", "says")
	for _, s := range l.Settings {
		t.Row(s.From, human.Name(s.Account), s.Line, human.Name(s.Value))
	}
	for _, r := range l.Down {
		t.Row(r.Origin, human.Name(r.Account), "when_ledger_down", human.Name(r.String()))
	}
	for _, r := range l.Routes {
		t.Row(r.From, human.Name(r.Account), r.Route, r.Describe())
	}
	t.Print()
	a.sources(l.Presets)
	return nil
}

// sources prints where the figures of the presets in use were read.
func (a *app) sources(presets []costs.UsedPreset) {
	if len(presets) == 0 {
		return
	}
	fmt.Fprintln(a.stdout)
	t := a.table("preset", "variant", "lines", "read", "source")
	for _, p := range presets {
		variant := "-"
		if p.Variant != nil {
			variant = *p.Variant
		}
		for _, s := range p.Sources {
			t.Row(p.Name, variant, s.Lines, s.Read, s.Document)
		}
	}
	t.Print()
}

func (a *app) price(found costs.Quote) error {
	var names []string
	for _, b := range found.Budgets {
		names = append(names, b.Name)
	}
	switch {
	case a.json:
		return json.NewEncoder(a.stdout).Encode(found)
	case !found.Guarded:
		a.paragraph("", "not guarded: costs.yaml names no such host, the request would pass uncharged")
	case found.Paid:
		fmt.Fprintln(a.stdout, "0 units: it carries on an upload that was charged when it began")
	default:
		key := ""
		if found.Call.Key != "" {
			key = ", key " + human.Name(found.Call.Key)
		}
		a.paragraph("", "%s costs %s of %s%s, charged to: %s", found.Call.Method, human.Count(found.Call.Units, "unit"),
			found.Call.Account, key, cmp.Or(strings.Join(names, ", "), "no budget"))
	}
	return nil
}

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/cmd/ration/internal/terminal"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/quota"
)

func (a *app) costsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "costs [[VERB] URL | METHOD]",
		Short: "Show the price list, or what a request would cost",
		Long: `Costs shows the cost of each method, the budgets that it is charged to, and the
source of each line: costs.yaml, or a preset and the document behind it. Given a
URL or the name of a method, it shows what that call would cost, and exits 78 if
the request would be refused. It does not use the ledger and sends nothing.

` + exitCodes(exitConfig),
		Example: "  ration costs\n  ration costs GET 'https://www.googleapis.com/youtube/v3/search?q=music'\n  ration costs presets",
		Args:    cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			table, err := a.prices()
			if err != nil {
				return err
			}
			switch len(args) {
			case 0:
				return a.priceList(table)
			case 1:
				if !strings.ContainsAny(args[0], "/:.") && terminal.Nearest(args[0], []string{"presets"}) != "" {
					return unknownCommand(cmd, args[0])
				}
				if !strings.ContainsAny(args[0], "/:") {
					call, err := table.Call("", args[0])
					if err != nil {
						return err
					}
					return a.price(costs.Explanation{Guarded: true, Call: call, Budgets: table.Covering(call)})
				}
				args = []string{"GET", args[0]}
			}
			found, err := table.Explain(args[0], args[1])
			if err != nil {
				return err
			}
			return a.price(found)
		},
	}
	cmd.AddCommand(a.presetsCommand())
	return cmd
}

// origin is where a line comes from, for programs.
type origin struct {
	File     *string `json:"file"`
	Line     *int    `json:"line"`
	Preset   *string `json:"preset"`
	Document *string `json:"document"`
	Read     *string `json:"read"`
}

func newOrigin(from costs.Origin) origin {
	var o origin
	if from.File != "" {
		o.File, o.Line = &from.File, &from.Line
	}
	if from.Preset != "" {
		o.Preset = &from.Preset
	}
	if from.Source != nil {
		read := day(from.Source.Read)
		o.Document, o.Read = &from.Source.Document, &read
	}
	return o
}

// priced is one method of the price list, and limited one budget.
type (
	priced struct {
		Account          string      `json:"account"`
		Method           string      `json:"method"`
		Units            quota.Units `json:"units"`
		NotModifiedUnits quota.Units `json:"not_modified_units"`
		Budgets          []string    `json:"budgets"`
		From             origin      `json:"from"`

		from string
	}
	limited struct {
		Account    string                 `json:"account"`
		Name       string                 `json:"name"`
		Limit      quota.Units            `json:"limit"`
		Measure    string                 `json:"measure"`
		Window     string                 `json:"window"`
		Methods    []string               `json:"methods"`
		Except     []string               `json:"except"`
		Lanes      []string               `json:"lanes"`
		Regions    []string               `json:"regions"`
		Floor      map[string]quota.Units `json:"floor"`
		FloorUntil *string                `json:"floor_until"`
		From       origin                 `json:"from"`
		WindowFrom origin                 `json:"window_from"`

		from string
	}
	routed struct {
		Account string `json:"account"`
		Route   string `json:"route"`
		Method  string `json:"method"`
		From    origin `json:"from"`

		from string
	}
	setting struct {
		Account string `json:"account"`
		Line    string `json:"line"`
		Value   string `json:"value"`
		From    origin `json:"from"`

		from string
	}
	// downRule is one rule of when_ledger_down; the first that covers a call decides.
	downRule struct {
		Account string      `json:"account"`
		Methods []string    `json:"methods"`
		Lanes   []string    `json:"lanes"`
		Jobs    []string    `json:"jobs"`
		Regions []string    `json:"regions"`
		Allow   quota.Units `json:"allow"` // 0: refused
		From    origin      `json:"from"`

		from, says string
	}
	inUse struct {
		Account string  `json:"account"`
		Variant *string `json:"variant"`
		preset
	}
)

// list is all that costs.yaml and its presets say.
type list struct {
	Methods  []priced   `json:"methods"`
	Budgets  []limited  `json:"budgets"`
	Routes   []routed   `json:"routes"`
	Settings []setting  `json:"settings"`
	Down     []downRule `json:"when_ledger_down"`
	Presets  []inUse    `json:"presets"`
}

func newList(table *costs.Table) *list {
	l := &list{Methods: []priced{}, Budgets: []limited{}, Routes: []routed{}, Settings: []setting{}, Down: []downRule{}, Presets: []inUse{}}
	for _, u := range table.Upstreams() {
		for _, c := range u.Costs {
			from := u.Origin("costs", c.Method)
			one := priced{Account: u.Account, Method: c.Method, Units: c.Units, NotModifiedUnits: u.NotModified(c.Method), Budgets: []string{}, From: newOrigin(from), from: from.String()}
			for _, b := range table.Covering(quota.Call{Account: u.Account, Method: c.Method}) {
				one.Budgets = append(one.Budgets, b.Name)
			}
			l.Methods = append(l.Methods, one)
		}
		for _, b := range u.Budgets {
			l.Budgets = append(l.Budgets, newLimited(&u, &b))
		}
		for _, r := range u.Routes {
			from := u.Origin("routes", r.Pattern)
			l.Routes = append(l.Routes, routed{Account: u.Account, Route: r.Pattern, Method: r.Method, From: newOrigin(from), from: from.String()})
		}
		l.Settings = append(l.Settings, settings(&u)...)
		for _, rule := range u.Down {
			l.Down = append(l.Down, newDownRule(&u, &rule))
		}
		if u.Preset != nil {
			one := inUse{Account: u.Account, preset: newPreset(u.Preset)}
			if u.Variant != "" {
				one.Variant = &u.Variant
			}
			l.Presets = append(l.Presets, one)
		}
	}
	return l
}

func newDownRule(u *costs.Upstream, r *costs.DownRule) downRule {
	list := func(words []string) []string { return append([]string{}, words...) }
	return downRule{Account: u.Account, Methods: list(r.Methods), Lanes: list(r.Lanes), Jobs: list(r.Jobs), Regions: list(r.Regions), Allow: r.Allow,
		From: newOrigin(r.Origin), from: r.Origin.String(), says: r.String()}
}

// settings are what an upstream's lines say that stand alone.
func settings(u *costs.Upstream) []setting {
	var all []setting
	add := func(line, value string) {
		if value != "" {
			from := u.Origin(line)
			all = append(all, setting{Account: u.Account, Line: line, Value: value, From: newOrigin(from), from: from.String()})
		}
	}
	add("api", u.API)
	add("hosts", strings.Join(u.Hosts, ", "))
	add("domains", strings.Join(u.Domains, ", "))
	add("unguarded", strings.Join(u.Unguarded, ", "))
	for i := range u.Batches {
		from := u.Origin("batches", u.Batches[i].Method)
		all = append(all, setting{Account: u.Account, Line: "batches", Value: u.Batches[i].String(), From: newOrigin(from), from: from.String()})
	}
	if u.ResetWindow.Kind() != 0 {
		add("resets", u.ResetWindow.String())
	}
	if u.Origin("reset_margin") != (costs.Origin{}) {
		add("reset_margin", u.ResetMargin.String())
	}
	if u.History > 0 {
		add("history", brief(u.History))
	}
	unlisted := "refuse"
	if u.Unlisted > 0 {
		unlisted = fmt.Sprint(u.Unlisted)
	}
	add("unlisted", unlisted)
	add("feedback", u.Feedback)
	if u.NotModifiedUnits != nil {
		add("not_modified_units", fmt.Sprint(*u.NotModifiedUnits))
	}
	return all
}

func (a *app) priceList(table *costs.Table) error {
	l := newList(table)
	if a.json {
		return json.NewEncoder(a.stdout).Encode(l)
	}
	t := a.table("from", "account", "method", "units", "budgets")
	for _, m := range l.Methods {
		t.Row(m.from, human.Name(m.Account), human.Name(m.Method), m.Units, human.Name(strings.Join(m.Budgets, ", ")))
	}
	t.Print()
	fmt.Fprintln(a.stdout)
	t = a.table("from", "account", "budget", "limit", "counts", "window", "covers")
	for i := range l.Budgets {
		b := &l.Budgets[i]
		t.Row(b.from, human.Name(b.Account), human.Name(b.Name), b.Limit, b.Measure, b.Window, b.covers())
	}
	t.Print()
	fmt.Fprintln(a.stdout)
	t = a.table("from", "account", "line", "says")
	for _, s := range l.Settings {
		t.Row(s.from, human.Name(s.Account), s.Line, human.Name(s.Value))
	}
	for _, r := range l.Down {
		t.Row(r.from, human.Name(r.Account), "when_ledger_down", human.Name(r.says))
	}
	for _, r := range l.Routes {
		t.Row(r.from, human.Name(r.Account), r.Route, r.Method)
	}
	t.Print()
	a.sources(l.Presets)
	return nil
}

func newLimited(u *costs.Upstream, b *quota.Budget) limited {
	limit, window := u.Origin("budgets", b.Name, "limit"), u.Origin("budgets", b.Name, "window")
	list := func(words []string) []string { return append([]string{}, words...) }
	one := limited{Account: b.Account, Name: b.Name, Limit: b.Limit, Measure: b.Measure.String(), Window: b.Window.String(),
		Methods: list(b.Methods), Except: list(b.Except), Lanes: list(b.Lanes), Regions: list(b.Regions), Floor: map[string]quota.Units{},
		From: newOrigin(limit), WindowFrom: newOrigin(window), from: limit.String()}
	maps.Copy(one.Floor, b.Floor)
	if b.FloorUntil > 0 {
		until := human.Duration(b.FloorUntil)
		one.FloorUntil = &until
	}
	if window.Preset != limit.Preset { // a line of one stands over those of the other
		one.from += ", " + window.String()
	}
	return one
}

// covers says which calls a budget is for, and what it keeps.
func (b *limited) covers() string {
	var parts []string
	add := func(before string, words []string) {
		if len(words) > 0 {
			parts = append(parts, before+human.Name(strings.Join(words, ", ")))
		}
	}
	add("", b.Methods)
	add("all but ", b.Except)
	add("lanes ", b.Lanes)
	add("regions ", b.Regions)
	if len(parts) == 0 {
		parts = []string{"all"}
	}
	var kept []string
	for _, region := range slices.Sorted(maps.Keys(b.Floor)) {
		kept = append(kept, fmt.Sprintf("%s %d", region, b.Floor[region]))
	}
	if b.FloorUntil != nil {
		kept[len(kept)-1] += " until " + *b.FloorUntil + " before its end"
	}
	add("keeps ", kept)
	return strings.Join(parts, "; ")
}

// sources prints where the figures of the presets in use were read.
func (a *app) sources(presets []inUse) {
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

func (a *app) price(found costs.Explanation) error {
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
		a.paragraph("", "not guarded: costs.yaml names no such host, the request would pass uncharged")
	case found.Paid:
		fmt.Fprintln(a.stdout, "0 units: it carries on an upload that was charged when it began")
	default:
		a.paragraph("", "%s costs %s of %s, charged to: %s", found.Call.Method, human.Count(found.Call.Units, "unit"), found.Call.Account, cmp.Or(strings.Join(out.Budgets, ", "), "no budget"))
	}
	return nil
}

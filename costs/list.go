package costs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// List is everything that a costs.yaml and its presets say, each line with its
// origin. It is meant to be printed; no slice or map is nil.
type List struct {
	Methods  []ListedMethod `json:"methods"`
	Budgets  []ListedBudget `json:"budgets"`
	Routes   []ListedRoute  `json:"routes"`
	Settings []Setting      `json:"settings"`
	Down     []ListedRule   `json:"when_ledger_down"`
	Presets  []UsedPreset   `json:"presets"`
}

// ListedMethod is the cost of a method, and the budgets that its calls are
// charged to.
type ListedMethod struct {
	Account string      `json:"account"`
	Method  string      `json:"method"`
	Units   quota.Units `json:"units"`
	Amounts []string    `json:"amounts"` // in named measures, as Amount.Describe says
	// the field of the request that says the cost; Units is that of one without
	By               *string     `json:"by"`
	NotModifiedUnits quota.Units `json:"not_modified_units"`
	Budgets          []string    `json:"budgets"`
	From             Origin      `json:"from"`
}

// Describe says in one line what a call costs: 1; tokens or 800 input_tokens.
func (m *ListedMethod) Describe() string {
	units := fmt.Sprint(m.Units)
	if m.By != nil {
		units = *m.By
	}
	return strings.Join(append([]string{units}, m.Amounts...), "; ")
}

// Describe writes the amount of a measure: 500 input_tokens; body max_tokens,
// or 1000 output_tokens; $2.50 per 1000000 input_tokens.
func (a *Amount) Describe(m quota.Measure) string {
	switch {
	case a.By != nil:
		return fmt.Sprintf("%s, or %s", a.By, m.Text(a.Fixed))
	case len(a.Per) == 0:
		return m.Text(a.Fixed)
	}
	var parts []string
	for _, of := range slices.Sorted(maps.Keys(a.Per)) {
		price := quota.USD.Text(a.Per[of])
		if m != quota.USD {
			price = strings.TrimSuffix(quota.USD.Number(a.Per[of]), ".00") + " " + string(m)
		}
		each := ""
		if a.Each > 1 {
			each = fmt.Sprintf("%d ", a.Each)
		}
		parts = append(parts, fmt.Sprintf("%s per %s%s", price, each, of))
	}
	return strings.Join(parts, ", ")
}

// ListedBudget is a budget.
type ListedBudget struct {
	Account    string                 `json:"account"`
	Name       string                 `json:"name"`
	Limit      quota.Units            `json:"limit"`
	Measure    string                 `json:"measure"`
	Window     string                 `json:"window"`
	Methods    []string               `json:"methods"`
	Except     []string               `json:"except"`
	Lanes      []string               `json:"lanes"`
	Regions    []string               `json:"regions"`
	PerKey     bool                   `json:"per_key,omitempty"` // each key has the limit
	Keys       map[string]quota.Units `json:"keys,omitempty"`    // the keys that have another one
	Floor      map[string]quota.Units `json:"floor"`
	FloorUntil *string                `json:"floor_until"`
	From       Origin                 `json:"from"` // of the limit
	WindowFrom Origin                 `json:"window_from"`
	Upstream   *quota.Units           `json:"upstream_limit"` // nil: not known
	Shadow     bool                   `json:"shadow"`         // it refuses nothing
}

// ListedRoute is a route. Its calls are refused if its method has no cost.
type ListedRoute struct {
	Account string  `json:"account"`
	Route   string  `json:"route"`
	When    *string `json:"when"` // nil: whatever the request's fields are
	Method  string  `json:"method"`
	From    Origin  `json:"from"`
	Refused bool    `json:"refused"`
}

// Describe names the method, and says when it is chosen and if its calls are
// refused.
func (r *ListedRoute) Describe() string {
	text := r.Method
	if r.When != nil {
		text = human.Name(*r.When) + ": " + text
	}
	if r.Refused {
		text += ", which has no cost: refused"
	}
	return text
}

// Setting is a line of an upstream that stands alone, such as hosts.
type Setting struct {
	Account string `json:"account"`
	Line    string `json:"line"`
	Value   string `json:"value"`
	From    Origin `json:"from"`
}

// ListedRule is a rule of when_ledger_down; the first that covers a
// call decides.
type ListedRule struct {
	Account string `json:"account"`
	DownRule
}

// UsedPreset is a preset that the file names.
type UsedPreset struct {
	Account string  `json:"account"`
	Variant *string `json:"variant"` // nil if none is chosen
	*Preset
}

// List returns everything that the table says, in the order of the file.
func (t *Table) List() *List {
	l := &List{Methods: []ListedMethod{}, Budgets: []ListedBudget{}, Routes: []ListedRoute{}, Settings: []Setting{},
		Down: []ListedRule{}, Presets: []UsedPreset{}}
	for _, u := range t.upstreams {
		for _, c := range u.Costs {
			one := ListedMethod{Account: u.Account, Method: c.Method, Units: c.Units,
				NotModifiedUnits: u.NotModified(c.Method), Budgets: []string{}, From: u.Origin("costs", c.Method),
				Amounts: []string{}}
			if c.By != nil {
				one.By = new(c.By.String())
			}
			for _, m := range slices.Sorted(maps.Keys(c.Amounts)) {
				amount := c.Amounts[m]
				one.Amounts = append(one.Amounts, amount.Describe(m))
			}
			for _, b := range t.Covering(quota.Call{Account: u.Account, Method: c.Method}) {
				one.Budgets = append(one.Budgets, b.Name)
			}
			l.Methods = append(l.Methods, one)
		}
		for i := range u.Budgets {
			l.Budgets = append(l.Budgets, u.listBudget(&u.Budgets[i]))
		}
		for _, r := range u.Routes {
			refused := u.price(r.Method) == 0 && r.isNamed()
			l.Routes = append(l.Routes, ListedRoute{u.Account, r.Pattern, human.Optional(r.When), r.Method,
				u.Origin("routes", r.Pattern), refused})
		}
		l.Settings = append(l.Settings, u.Settings()...)
		for _, r := range u.Down {
			r.Methods, r.Lanes = notNil(r.Methods), notNil(r.Lanes)
			r.Jobs, r.Regions = notNil(r.Jobs), notNil(r.Regions)
			l.Down = append(l.Down, ListedRule{u.Account, r})
		}
		if u.Preset != nil {
			l.Presets = append(l.Presets, UsedPreset{Account: u.Account, Variant: human.Optional(u.Variant),
				Preset: u.Preset})
		}
	}
	return l
}

func notNil(words []string) []string { return append([]string{}, words...) }

func (u *Upstream) listBudget(b *quota.Budget) ListedBudget {
	one := ListedBudget{Account: b.Account, Name: b.Name, Limit: b.Limit, Measure: b.Measure.String(),
		Window:  b.Window.String(),
		Methods: notNil(b.Methods), Except: notNil(b.Except), Lanes: notNil(b.Lanes), Regions: notNil(b.Regions),
		PerKey: b.PerKey, Keys: map[string]quota.Units{}, Floor: map[string]quota.Units{}, Shadow: b.Shadow,
		From: u.Origin("budgets", b.Name, "limit"), WindowFrom: u.Origin("budgets", b.Name, "window")}
	maps.Copy(one.Floor, b.Floor)
	maps.Copy(one.Keys, b.Keys)
	if b.FloorUntil > 0 {
		one.FloorUntil = new(human.Duration(b.FloorUntil))
	}
	if limit, ok := u.UpstreamLimits[b.Name]; ok {
		one.Upstream = &limit
	}
	return one
}

// Origins names the origin of the limit and, if that is another preset or none,
// the origin of the window.
func (b *ListedBudget) Origins() string {
	if b.WindowFrom.Preset == b.From.Preset {
		return b.From.String()
	}
	return b.From.String() + ", " + b.WindowFrom.String()
}

// Describe says in one line which calls the budget covers, and what it keeps
// for regions.
func (b *ListedBudget) Describe() string {
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
	if b.PerKey {
		parts = append(parts, "each key")
	}
	var own []string
	for _, key := range slices.Sorted(maps.Keys(b.Keys)) {
		own = append(own, fmt.Sprintf("%s %d", human.Name(key), b.Keys[key]))
	}
	add("keys ", own)
	var kept []string
	for _, region := range slices.Sorted(maps.Keys(b.Floor)) {
		kept = append(kept, region+" "+quota.Measure(b.Measure).Number(b.Floor[region]))
	}
	if b.FloorUntil != nil {
		kept[len(kept)-1] += " until " + *b.FloorUntil + " before its end"
	}
	add("keeps ", kept)
	if b.Shadow {
		parts = append(parts, "a shadow, refuses nothing")
	}
	return strings.Join(parts, "; ")
}

// Settings returns the lines that stand alone, and those of batches and lanes.
func (u *Upstream) Settings() []Setting {
	var all []Setting
	add := func(line, value string) {
		if value != "" {
			all = append(all, Setting{u.Account, line, value, u.Origin(line)})
		}
	}
	add("api", u.API)
	add("hosts", strings.Join(u.Hosts, ", "))
	add("domains", strings.Join(u.Domains, ", "))
	add("insecure", strings.Join(u.Insecure, ", "))
	add("unguarded", strings.Join(u.Unguarded, ", "))
	add("key", u.Key.String())
	if u.Credential != nil {
		add("credential", u.Credential.String())
	}
	if u.Alert != nil {
		add("alert", u.Alert.String())
	}
	for i := range u.Batches {
		all = append(all, Setting{u.Account, "batches", u.Batches[i].String(),
			u.Origin("batches", u.Batches[i].Method)})
	}
	for _, lane := range slices.Sorted(maps.Keys(u.Priorities)) {
		value := fmt.Sprintf("%s: priority %d", lane, u.Priorities[lane])
		if u.Paced[lane] {
			value += ", paced"
		}
		all = append(all, Setting{u.Account, "lanes", value, u.Origin("lanes", lane)})
	}
	if u.ResetWindow.Kind() != 0 {
		add("resets", u.ResetWindow.String())
	}
	if u.Origin("reset_margin") != (Origin{}) {
		add("reset_margin", u.ResetMargin.String())
	}
	if len(u.Measures) > 0 {
		add("measures", strings.Join(u.namedMeasures(), ", "))
	}
	if u.Origin("lease") != (Origin{}) {
		add("lease", human.Exactly(u.site.lease))
	}
	if u.History > 0 {
		add("history", human.Exactly(u.History))
	}
	unlisted := "refuse"
	if u.Unlisted > 0 {
		unlisted = fmt.Sprint(u.Unlisted)
	}
	add("unlisted", unlisted)
	add("feedback", u.Feedback)
	if len(u.Answers) > 0 {
		add("answers", human.Count(int64(len(u.Answers)), "rule"))
	}
	if u.NotModifiedUnits != nil {
		add("not_modified_units", fmt.Sprint(*u.NotModifiedUnits))
	}
	return all
}

// MarshalJSON implements json.Marshaler. An unguarded request has null for its
// account, method and units, and one that was paid for before has 0 units.
func (e Quote) MarshalJSON() ([]byte, error) {
	out := struct {
		Guarded bool         `json:"guarded"`
		Account *string      `json:"account"`
		Method  *string      `json:"method"`
		Key     *string      `json:"key,omitempty"`
		Units   *quota.Units `json:"units"`
		Budgets []string     `json:"budgets"`
	}{Guarded: e.Guarded, Budgets: []string{}}
	for _, b := range e.Budgets {
		out.Budgets = append(out.Budgets, b.Name)
	}
	switch {
	case e.Paid:
		out.Units = new(quota.Units)
	case e.Guarded:
		out.Account = &e.Call.Account
		out.Method, out.Key = &e.Call.Method, human.Optional(e.Call.Key)
		out.Units = &e.Call.Units
	}
	return json.Marshal(out)
}

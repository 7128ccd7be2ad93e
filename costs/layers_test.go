package costs

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// over reads the file's lines over those of a preset that does not ship.
func over(t *testing.T, preset, own string) *Table {
	t.Helper()
	d := newDocument(strictyaml.Node{})
	d.preset, d.Preset = true, &Preset{Name: "test"}
	d.reading = d.Preset
	read := func(text string) *strictyaml.File {
		file := strictyaml.Parse("costs.yaml", []byte(text))
		for _, node := range file.Documents() {
			node.Fields(d.lineFields()...)
		}
		d.layer++
		return file
	}
	files := []*strictyaml.File{read(preset)}
	d.reading, d.Account, d.site.account = nil, "a", "a"
	files = append(files, read(own))
	d.checkWhole(files[1].Documents()[0])
	table := newTable([]*document{d})
	for _, file := range files {
		if err := file.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

const lines = `hosts: [api.example.com]
routes: {"/{method}": "{method}"}
unlisted: 7
not_modified_units: 1
costs: {get: 1}
budgets: [{name: all, limit: 10, window: 1h}]
`

// A method without a cost was once still sold at the preset's price.
func TestUnlistedRefusedOverAPresetsNumberIsStillPriced(t *testing.T) {
	for own, want := range map[string]quota.Units{"unlisted: refuse\n": 0, "unlisted: 3\n": 3, "costs: {get: 2}\n": 7} {
		table := over(t, lines, own)
		if u := table.Upstreams()[0]; u.Unlisted != want {
			t.Errorf("%q: Unlisted is %d, want %d", own, u.Unlisted, want)
		}
		call, err := table.Call("", "put")
		if call.Units != want || (err == nil) != (want > 0) {
			t.Errorf("%q: put by name: %+v, %v", own, call, err)
		}
		found, err := table.Explain("GET", "https://api.example.com/put")
		if found.Call.Units != want || (err == nil) != (want > 0) {
			t.Errorf("%q: put by request: %+v, %v", own, found, err)
		}
	}
}

// A limit below a preset's price for unlisted methods is not the file's
// mistake, its own price above a limit is.
func TestUnlistedAboveALimitIsReportedAtTheFilesLine(t *testing.T) {
	if table := over(t, lines, "budgets: [{name: all, limit: 5}]\n"); table.Budgets()[0].Limit != 5 {
		t.Errorf("%+v", table.Budgets())
	}
}

// TestAPathWithoutARouteIsNotUnlisted: unlisted prices methods without a cost, not
// requests without a method.
func TestAPathWithoutARouteIsNotUnlisted(t *testing.T) {
	table := use(t, "hosts: [api.example.com]\nroutes: {GET /a: read, GET /b: write}\nunlisted: 3\ncosts: {read: 1}\nbudgets: [{name: all, limit: 9, window: 24h}, {name: writes, limit: 5, window: 24h, methods: [write]}]")
	if got, err := table.Explain("GET", "https://api.example.com/b"); err != nil || got.Call.Units != 3 || len(got.Budgets) != 2 {
		t.Errorf("%+v, %v; want a write of 3 units", got, err)
	}
	if got, err := table.Explain("GET", "https://api.example.com/c"); !errors.Is(err, costs.ErrNoRoute) || !got.Guarded {
		t.Errorf("%+v, %v; want it guarded, and refused", got, err)
	}
}

// TestHistoryIsTheLongestOfAnAccount looks at what a ledger is told to keep.
func TestHistoryIsTheLongestOfAnAccount(t *testing.T) {
	const document = "version: 1\naccount: %s\nhistory: %s\nname: %s\ncosts: {get: 1}\nbudgets: [{name: %s, limit: 9, window: 24h}]\n"
	var text []string
	for i, d := range [][2]string{{"b", "48h"}, {"a", "2h"}, {"b", "72h"}, {"b", "1h"}} {
		text = append(text, fmt.Sprintf(document, d[0], d[1], fmt.Sprint("u", i), fmt.Sprint("all", i)))
	}
	table := parse(t, strings.Join(text, "---\n"))
	if got := table.Accounts(); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("accounts %q; want each once, in their order", got)
	}
	if got := table.History(); len(got) != 2 || got["b"] != 72*time.Hour || got["a"] != 2*time.Hour {
		t.Errorf("history %v; want the longest of each account", got)
	}
}

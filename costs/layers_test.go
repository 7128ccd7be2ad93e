package costs

import (
	"testing"

	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// over parses lines of a file that override those of a preset made for
// the test.
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

// A method without a cost was once charged at the preset's price.
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
		found, err := table.Quote("GET", "https://api.example.com/put")
		if found.Call.Units != want || (err == nil) != (want > 0) {
			t.Errorf("%q: put by request: %+v, %v", own, found, err)
		}
	}
}

// A limit below a preset's price for unlisted methods is valid; a file's own
// price above a limit is a mistake.
func TestUnlistedAboveALimitIsReportedAtTheFilesLine(t *testing.T) {
	if table := over(t, lines, "budgets: [{name: all, limit: 5}]\n"); table.Budgets()[0].Limit != 5 {
		t.Errorf("%+v", table.Budgets())
	}
}

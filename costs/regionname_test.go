package costs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
)

// TestRegionNamesAreFreeWithoutAnAPI: only an upstream with an api
// has countries.
func TestRegionNamesAreFreeWithoutAnAPI(t *testing.T) {
	const free = "version: 1\nupstream: acme\naccount: a\ncosts: {get: 1}\n" +
		"budgets: [{name: all, limit: 10, window: 1h, floor: {emea: 1, shard-1: 2}}, {name: eu, limit: 5, window: " +
		"1h, regions: [eu, UK, north.2]}]\n" +
		"when_ledger_down: [{regions: [emea], then: {allow: 5}}, {then: refuse}]\n"
	table, err := costs.Parse("costs.yaml", []byte(free))
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(slices.Values(table.Regions())); fmt.Sprint(names) != "[UK emea eu north.2 shard-1]" ||
		!table.HasFreeRegions() {
		t.Errorf("regions %v, free %t; want those of the file, and free", names, table.HasFreeRegions())
	}
	for _, name := range []string{"a b", "-x", "é", "a/b", strings.Repeat("x", 65)} {
		_, err := costs.Parse("costs.yaml", []byte(strings.Replace(free, "[emea]", "["+name+"]", 1)))
		if want := fmt.Sprintf("costs.yaml:6:31: malformed region %q: write at most 64 letters, digits, dots, "+
			"underscores and hyphens, a letter or digit first, such as emea", name); fmt.Sprint(err) != want {
			t.Errorf("got %v; want %s", err, want)
		}
	}
	if table, err = costs.Parse("costs.yaml", []byte(valid)); err != nil || table.HasFreeRegions() {
		t.Errorf("%v, %v; want countries only", table, err)
	}
}

package daemon_test

import (
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/daemon"
	"github.com/ration-dev/ration/jobs"
)

// TestAReloadReportsEachChange: keys about requests, retention and the starts
// of passes were not compared, so that serve applied a change and reported
// none. Without when_ledger_down, each reload was reported as if that key had
// been removed and added.
func TestAReloadReportsEachChange(t *testing.T) {
	const lines = "version: 1\nupstream: u\naccount: a\nhosts: [api.test.example]\nroutes: {\"/{p...}\": m}\ncosts: " +
		"{m: 1}\nbudgets: [{name: b, limit: 100, window: 1h}]\n"
	load := func(more, zone string) *daemon.ConfigDescription {
		t.Helper()
		table, err := costs.Parse("costs.yaml", []byte(lines+more))
		if err != nil {
			t.Fatal(err)
		}
		config, err := jobs.Parse("regions.yaml",
			[]byte("version: 1\ntimezone: "+zone+"\nschedule: \"0 6 * * *\"\nfetch: [categories]\nregions: {US: {}}\n"),
			nil)
		if err != nil {
			t.Fatal(err)
		}
		return daemon.DescribeConfig(table, config)
	}
	for _, c := range []struct{ more, zone, says string }{
		{"", "UTC", ""},
		{"history: 48h\n", "UTC", "upstream u: history none -> 48h"},
		{"unlisted: 5\n", "UTC", "upstream u: unlisted refuse -> 5"},
		{"domains: [other.example]\n", "UTC", "upstream u: domains test.example -> other.example"},
		{"insecure: [api.test.example]\n", "UTC", "upstream u: insecure none -> api.test.example"},
		{"unguarded: [free.test.example]\n", "UTC", "upstream u: unguarded none -> free.test.example"},
		{"batches: {m: {most: 25}}\n", "UTC", "upstream u: batches none -> m: 25 calls each"},
		{"lanes: {cron: {priority: 2}, late: {pace: true}}\n", "UTC",
			"upstream u: lanes none -> cron: priority 2; late: priority 0, paced"},
		{"", "Asia/Tokyo", "region US: timezone UTC -> Asia/Tokyo"},
	} {
		if said := strings.Join(load("", "UTC").Changes(load(c.more, c.zone)), "; "); said != c.says {
			t.Errorf("%s%s: %q; want %q", c.more, c.zone, said, c.says)
		}
	}
}

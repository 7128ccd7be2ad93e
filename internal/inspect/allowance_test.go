package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
)

// TestDoctorFindsAllowancesAboveTheUpstreamsLimit: an outage in which hosts
// used their allowances would end in the upstream's own refusals.
func TestDoctorFindsAllowancesAboveTheUpstreamsLimit(t *testing.T) {
	const head = "version: 1\naccount: a\n"
	const own = head +
		"upstream: u\nhosts: [u.example]\nroutes: {'GET /{method}': '{method}'}\ncosts: {get: 1, search: 100, " +
		"write: 5}\n"
	const down = "when_ledger_down: {search: refuse, default: {allow: 50}}\n"
	for name, test := range map[string]struct{ file, want string }{
		"fits": {own + "budgets: [{name: day, limit: 9500, window: 24h, upstream_limit: 10000}]\n" + down,
			"ok the allowances of up to 10 hosts fit between the limit of day and the upstream's: each may spend 50 " +
				"of 500 units while the ledger is down"},
		"does not fit": {own + "budgets: [{name: day, limit: 9980, window: 24h, upstream_limit: 10000}]\n" + down,
			"warning while the ledger is down, each host may spend 50 units above the limit of day, and the " +
				"upstream allows 20 above it -> lower the limit of day to 10000 less 50 for each host (one host: " +
				"9950), or lower the allowance to at most 20"},
		"no headroom": {own + "budgets: [{name: day, limit: 10000, window: 24h, upstream_limit: 10000}]\n" + down,
			"warning while the ledger is down, each host may spend 50 units above the limit of day, and the " +
				"upstream allows 0 above it -> lower the limit of day to 10000 less 50 for each host (one host: " +
				"9950), or allow nothing in when_ledger_down"},
		"not known": {own + "budgets: [{name: day, limit: 9980, window: 24h}]\n" + down,
			"note while the ledger is down, each host may spend 50 units above the limit of day; whether the " +
				"upstream allows that is not known -> " +
				"write the upstream's own limit as upstream_limit into costs.yaml"},
		"calls of a cost": {own +
			"budgets: [{name: writes, limit: 95, window: 24h, count: calls, methods: [write], upstream_limit: 100}]\n" +
			down,
			"warning while the ledger is down, each host may spend 10 calls above the limit of writes, and the " +
				"upstream allows 5 above it -> lower the limit of writes to 100 less 10 for each host (one host: " +
				"90), or lower the allowance"},
		"refused calls need none": {own +
			"budgets: [{name: searches, limit: 100, window: 24h, methods: [search], upstream_limit: 100}]\n" + down,
			""},
		"a lane's rule counts": {own +
			"budgets: [{name: searches, limit: 100, window: 24h, methods: [search], upstream_limit: " +
			"100}]\nwhen_ledger_down: [{methods: [search], lanes: [cron], then: {allow: 100}}, {then: refuse}]\n",
			"warning while the ledger is down, each host may spend 100 units above the limit of searches"},
		"the preset's limit is the upstream's": {head +
			"preset: youtube/legacy\nbudgets: [{name: youtube-day, limit: 9975}]\nwhen_ledger_down: {default: " +
			"{allow: 20}}\n",
			"ok the allowances of up to 1 host fit"},
		"a limit above the preset's": {head +
			"preset: youtube/legacy\nbudgets: [{name: youtube-day, limit: 50000}]\nwhen_ledger_down: {default: " +
			"{allow: 20}}\n",
			"note while the ledger is down, each host may spend 20 units above the limit of youtube-day; whether"},
		"nothing is allowed": {head + "preset: youtube/legacy\n", ""},
	} {
		table, err := costs.Parse("costs.yaml", []byte(test.file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c := newCheckup(time.Now())
		c.CheckAllowances(table)
		got := ""
		if len(c.Findings) > 0 {
			got = c.last()
		}
		if !strings.HasPrefix(got, test.want) || got != "" && test.want == "" {
			t.Errorf("%s: %q; want %q", name, got, test.want)
		}
	}
}

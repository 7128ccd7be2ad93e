package client_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

// TestEachCallUsesItsOwnAllowance: while the ledger cannot be reached, each
// call gets the allowance of its method, lane and job, the strictest of its
// account's documents. What was sent counts once, however many documents share
// the account.
func TestEachCallUsesItsOwnAllowance(t *testing.T) {
	t.Parallel()
	const budgets = "budgets: [{name: all, limit: 100, window: 24h}]\n"
	granted := func(method string, units quota.Units, c quota.Caller) attempt {
		return attempt{quota.Call{Account: "a", Method: method, Units: units, Caller: c}, true}
	}
	refused := func(method string, units quota.Units, c quota.Caller) attempt {
		return attempt{quota.Call{Account: "a", Method: method, Units: units, Caller: c}, false}
	}
	none := quota.Caller{}
	for name, c := range map[string]struct {
		file     string
		attempts []attempt
		sent     quota.Units
	}{
		"by method": {"version: 1\naccount: a\ncosts: {search.list: 1, videos.list: 1}\n" + budgets +
			"when_ledger_down: {search.list: refuse, default: {allow: 3}}\n",
			[]attempt{granted("videos.list", 2, none), granted("videos.list", 1, none), refused("videos.list", 1, none),
				refused("search.list", 1, none)}, 3},
		"two documents": {"version: 1\nupstream: one\naccount: a\ncosts: {videos.list: 1}\n" + budgets +
			"when_ledger_down: {default: {allow: 40}}\n---\n" +
			"version: 1\nupstream: two\naccount: a\ncosts: {reports.query: 1}\nbudgets: [{name: reports, limit: " +
			"100, window: 24h, methods: [reports.query]}]\nwhen_ledger_down: {default: refuse}\n",
			[]attempt{granted("videos.list", 1, none), refused("reports.query", 1, none)}, 1},
		"rules": {"version: 1\naccount: a\ncosts: {search.list: 1, videos.list: 1}\n" + budgets +
			"when_ledger_down:\n- {methods: [search.list], jobs: [critical], then: {allow: 10}}\n- {lanes: " +
			"[backfill], then: refuse}\n- {jobs: [export], then: refuse}\n- {then: {allow: 5}}\n",
			[]attempt{refused("videos.list", 1, quota.Caller{Lane: "backfill"}),
				granted("videos.list", 1, quota.Caller{Lane: "cron"}),
				refused("videos.list", 1, quota.Caller{Lane: "cron", Job: "export"}),
				granted("search.list", 1, quota.Caller{Lane: "backfill", Job: "critical"})}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table, err := costs.Parse("costs.yaml", []byte(c.file))
			if err != nil {
				t.Fatal(err)
			}
			down, err := client.New(table, &client.Options{Ledger: "redis://127.0.0.1:1/0", State: t.TempDir(),
				Replica: t.TempDir(),
				Getenv:  func(string) string { return "" }, Report: func(quota.Call, error) {}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { down.Close() })
			for i, a := range c.attempts {
				if _, err := down.Guard().Spend(t.Context(), a.call); (err == nil) != a.granted || err != nil &&
					!errors.Is(err, quota.ErrLedgerDown) {
					t.Errorf("call %d, %+v: %v; want it granted: %v", i, a.call, err, a.granted)
				} else if err != nil && !strings.Contains(err.Error(), "allowance in when_ledger_down of costs.yaml") {
					t.Errorf("call %d: %v; want it to name the line of costs.yaml", i, err)
				}
			}
			if units, err := down.Unrecorded(); err != nil || units != c.sent {
				t.Errorf("%d units sent, %v; want %d", units, err, c.sent)
			}
		})
	}
}

// attempt is a call, and whether the allowance is to grant it.
type attempt struct {
	call    quota.Call
	granted bool
}

// TestAnOutageSaysWhatItRefuses: the report of an outage says that calls are
// refused where nothing allows any.
func TestAnOutageSaysWhatItRefuses(t *testing.T) {
	t.Parallel()
	const noAllowance = "search.list has no allowance in "
	for down, want := range map[string]struct{ report, refusal string }{
		"": {"; calls are refused until it is back, since costs.yaml has no when_ledger_down",
			noAllowance + "costs.yaml, which has no when_ledger_down: "},
		"when_ledger_down: {default: refuse}\n": {
			"; calls are refused until it is back, since when_ledger_down of costs.yaml allows none",
			noAllowance + "when_ledger_down of costs.yaml: "},
		"when_ledger_down: {search.list: refuse, default: {allow: 3}}\n": {
			"; calls go out within the allowance of when_ledger_down, and are recorded when it is back",
			noAllowance + "when_ledger_down of costs.yaml: "},
	} {
		t.Run(down, func(t *testing.T) {
			t.Parallel()
			table, err := costs.Parse("costs.yaml",
				[]byte("version: 1\naccount: a\ncosts: {search.list: 1, videos.list: 1}\nbudgets: [{name: all, "+
					"limit: 100, window: 24h}]\n"+down))
			if err != nil {
				t.Fatal(err)
			}
			state, reports := t.TempDir(), []string{}
			options := &client.Options{Ledger: "redis://127.0.0.1:1/0", State: state, Replica: t.TempDir(),
				Getenv: func(string) string { return "" },
				Report: func(_ quota.Call, err error) { reports = append(reports, err.Error()) }}
			c, err := client.New(table, options)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Guard().Spend(t.Context(),
				quota.Call{Account: "a", Method: "search.list", Units: 1}); !errors.Is(err, quota.ErrLedgerDown) ||
				!strings.Contains(err.Error(), want.refusal) {
				t.Errorf("%s: %v; want %s", down, err, want.refusal)
			}
			c.Close()
			other, err := client.New(table, options)
			if err != nil {
				t.Fatal(err)
			}
			if outage := other.Outage(); len(reports) != 1 || !strings.HasSuffix(reports[0], want.report) ||
				outage == nil || !strings.HasSuffix(outage.Error(), want.report) {
				t.Errorf("%s: %q, and another process says %v; want %s", down, reports, outage, want.report)
			}
			other.Close()
		})
	}
}

// TestAnOutagePromisesOnlyWhatIsLeftOfAnAllowance: a new process promised calls
// of an allowance that others of its host had used up.
func TestAnOutagePromisesOnlyWhatIsLeftOfAnAllowance(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a ledger that is down, 3 seconds")
	}
	t.Parallel()
	table, err := costs.Parse("costs.yaml",
		[]byte("version: 1\naccount: a\ncosts: {videos.list: 1}\nbudgets: [{name: all, limit: 100, window: "+
			"24h}]\nwhen_ledger_down: {default: {allow: 3}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	state, folder := t.TempDir(), t.TempDir()
	for i, c := range []struct {
		units   quota.Units
		granted bool
		want    string
	}{{2, true,
		"; calls go out within the allowance of when_ledger_down, and are recorded when it is back (2 units of this " +
			"host not recorded yet)"},
		{1, true,
			"; calls go out within the allowance of when_ledger_down, and are recorded when it is back (3 units of " +
				"this host not recorded yet)"},
		{1, false,
			"; calls are refused until it is back, since the allowance of when_ledger_down is used up (3 units of " +
				"this host not recorded yet)"}} {
		down, err := client.New(table, &client.Options{Ledger: "redis://127.0.0.1:1/0", State: state, Replica: folder,
			Getenv: func(string) string { return "" }, Report: func(quota.Call, error) {}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := down.Guard().Spend(t.Context(),
			quota.Call{Account: "a", Method: "videos.list", Units: c.units}); (err == nil) != c.granted {
			t.Errorf("call %d: %v; want it granted: %v", i, err, c.granted)
		}
		if text := down.DescribeOutage(down.Outage()); !strings.HasSuffix(text, c.want) {
			t.Errorf("call %d: %s; want %s", i, text, c.want)
		}
		down.Close()
	}
}

// TestAnOutageCountsAllCallsAtOnce: the report of the first calls that are
// granted without the ledger counted one of them.
func TestAnOutageCountsAllCallsAtOnce(t *testing.T) {
	t.Parallel()
	table, err := costs.Parse("costs.yaml",
		[]byte("version: 1\naccount: a\ncosts: {videos.list: 1}\nbudgets: [{name: all, limit: 100, window: "+
			"24h}]\nwhen_ledger_down: {default: {allow: 30}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var c *client.Client
	var reports []string
	c, err = client.New(table, &client.Options{Ledger: "redis://127.0.0.1:1/0", State: t.TempDir(),
		Replica: t.TempDir(), Getenv: func(string) string { return "" },
		Report: func(_ quota.Call, err error) {
			if outage, ok := errors.AsType[*client.OutageError](err); ok && outage.Units > 0 {
				reports = append(reports, c.DescribeOutage(outage))
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	call := quota.Call{Account: "a", Method: "videos.list", Units: 1}
	if _, err := c.SpendTogether(t.Context(), call, 10, 0); err != nil {
		t.Fatal(err)
	}
	if len(reports) != 1 || !strings.HasSuffix(reports[0], "(10 units of this host not recorded yet)") {
		t.Errorf("it reports %q; want ten units", reports)
	}
	if _, err := c.SpendTogether(t.Context(), call, 2, 0); err != nil || len(reports) != 1 {
		t.Errorf("%v, %q; want no other report", err, reports)
	}
}

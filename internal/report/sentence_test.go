package report_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// desk is hosts with one ledger, where search costs 100 and items 1.
type desk struct {
	*testing.T
	dir     string
	budgets string
	*client.Client
}

func newDesk(t *testing.T, budgets string) *desk {
	d := &desk{T: t, dir: t.TempDir(), budgets: budgets}
	d.Client = d.host("host-1", budgets)
	return d
}

// host returns a client of a host with budgets.
func (d *desk) host(name, budgets string) *client.Client {
	d.Helper()
	file := filepath.Join(d.TempDir(), "costs.yaml")
	text := "version: 1\nupstream: u\naccount: p\ncosts: {search: 100, items: 1}\nbudgets:\n" + budgets
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		d.Fatal(err)
	}
	table, err := costs.Load(file)
	if err != nil {
		d.Fatal(err)
	}
	getenv := func(variable string) string {
		if variable == client.HostEnv {
			return name
		}
		return ""
	}
	c, err := client.New(table, &client.Options{Ledger: "sqlite:" + filepath.Join(d.dir, "ration.db"),
		State: d.TempDir(), Getenv: getenv})
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { c.Close() })
	return c
}

// spend spends units of a method, or the test fails.
func (d *desk) spend(c *client.Client, method string, units quota.Units, caller quota.Caller, key string) {
	d.Helper()
	_, err := c.Guard().Spend(d.Context(), quota.Call{Account: "p", Method: method, Units: units, Caller: caller,
		Key: key})
	if err != nil {
		d.Fatal(err)
	}
}

// refuse spends units that are refused, or the test fails.
func (d *desk) refuse(c *client.Client, method string, units quota.Units, caller quota.Caller, key string) {
	d.Helper()
	call := quota.Call{Account: "p", Method: method, Units: units, Caller: caller, Key: key}
	if _, err := c.Guard().Spend(d.Context(), call); !errors.Is(err, quota.ErrRefused) {
		d.Fatalf("%v; want a refusal", err)
	}
}

// wants checks the sentences, in which every time is T.
func (d *desk) wants(want ...string) {
	d.Helper()
	found, err := usage.Status(d.Context(), d.Guard())
	if err != nil {
		d.Fatal(err)
	}
	refusing, err := report.Refusing(d.Context(), d.Client, found, found[0].At)
	if err != nil {
		d.Fatal(err)
	}
	var texts []string
	for _, one := range refusing {
		texts = append(texts, times.ReplaceAllString(one.Text, "T"))
	}
	if got := strings.Join(texts, "\n"); got != strings.Join(want, "\n") {
		d.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

var times = regexp.MustCompile(`([0-9-]{5,} )?[0-9]{2}:[0-9]{2}:[0-9]{2}Z`)

const (
	searches = "  - {name: searches, limit: 200, window: 1h, methods: [search]}\n"
	total    = "  - {name: total, limit: 1000, window: 24h}\n"
)

var nobody quota.Caller

// TestARefusalOutlivesItsCause: search was refused by one budget, and nothing
// was said once another one, or a cooldown, refused it for longer.
func TestARefusalOutlivesItsCause(t *testing.T) {
	d := newDesk(t, searches+total)
	d.spend(d.Client, "search", 200, nobody, "")
	d.refuse(d.Client, "search", 100, nobody, "")
	d.wants("p: all search calls refused since T on host-1 (1 so far), until T; 200 of 200 units of searches are " +
		"used; " +
		"sooner with a limit of 300")
	d.spend(d.Client, "items", 800, nobody, "")
	d.wants("p: all search calls refused since T on host-1 (1 so far), until T, though searches has room from T on; " +
		"1000 of 1000 units of total are used; sooner with a limit of 1100")
	cooldown := quota.Cooldown{Account: "p", For: 30 * time.Hour, Reason: "503"}
	if err := d.Guard().Cool(t.Context(), cooldown); err != nil {
		t.Fatal(err)
	}
	d.wants(`p: all search calls refused since T on host-1 (1 so far), until T: a cooldown, "503"; ` +
		"if the upstream serves again, ration cooldown clear --account p ends it")
}

// TestARegionWithAFloorIsNotSaidToBeRefused: all calls were said to be refused,
// and a grant from the floor ended the refusal.
func TestARegionWithAFloorIsNotSaidToBeRefused(t *testing.T) {
	d := newDesk(t, "  - {name: total, limit: 1000, window: 24h, floor: {IN: 300}}\n")
	us, in := quota.Caller{Region: "US"}, quota.Caller{Region: "IN"}
	d.spend(d.Client, "search", 650, us, "")
	d.refuse(d.Client, "search", 100, us, "")
	want := "p: all search calls, except those of region IN, refused since T on host-1 (1 so far), until T; the " +
		"region " +
		"US spent 650 of 1000 units of total (%s reserved for other regions); sooner with a limit of 1050"
	d.wants(strings.Replace(want, "%s", "300", 1))
	d.spend(d.Client, "search", 100, in, "")
	d.wants(strings.Replace(want, "%s", "200", 1))
	d.spend(d.Client, "search", 200, in, "")
	d.refuse(d.host("host-2", d.budgets), "search", 100, in, "")
	d.wants("p: all search calls refused, the first since T on host-1 (2 so far), until T; the region US spent 650 " +
		"of 1000 units of total; sooner with a limit of 1050")
}

// TestABudgetOfALaneRefusesItAlone.
func TestABudgetOfALaneRefusesItAlone(t *testing.T) {
	d := newDesk(t, "  - {name: fill, limit: 200, window: 1h, lanes: [backfill]}\n"+total)
	backfill := quota.Caller{Lane: "backfill"}
	d.spend(d.Client, "search", 200, backfill, "")
	d.refuse(d.Client, "search", 100, backfill, "")
	d.spend(d.Client, "search", 100, quota.Caller{Lane: "cron"}, "")
	d.wants("p: all search calls of lane backfill refused since T on host-1 (1 so far), until T; the lane backfill " +
		"spent " +
		"200 of 200 units of fill; sooner with a limit of 300")
}

// TestAKeyAnswersForItself: what all keys had spent was said of the limit of
// one.
func TestAKeyAnswersForItself(t *testing.T) {
	d := newDesk(t, "  - {name: shop, limit: 100, window: 24h, per: key}\n")
	job := quota.Caller{Job: "j"}
	d.spend(d.Client, "items", 100, job, "one")
	d.spend(d.Client, "items", 100, job, "two")
	d.refuse(d.Client, "items", 1, job, "one")
	d.wants("p: all items calls of key one refused since T on host-1 (1 so far), until T; the job j spent 100 of " +
		"100 units of shop; sooner with a limit of 101")
}

// TestTheLargestCallerMayHaveNoName: a smaller one was named in its place.
func TestTheLargestCallerMayHaveNoName(t *testing.T) {
	d := newDesk(t, "  - {name: total, limit: 199, window: 24h}\n")
	d.spend(d.Client, "search", 100, nobody, "")
	d.refuse(d.Client, "search", 100, nobody, "")
	d.wants("p: all search calls refused since T on host-1 (1 so far), until T; 100 of 199 units of total are used; " +
		"sooner with a limit of 200")
	d.spend(d.Client, "items", 50, quota.Caller{Lane: "manual"}, "")
	d.wants("p: all search calls refused since T on host-1 (1 so far), until T; calls without a name spent 100 of " +
		"199 units of total; sooner with a limit of 250")
}

// TestALimitIsAdvisedThatHelps: one of this configuration alone does not if
// another one's is lower, nor does one that the upstream does not allow.
func TestALimitIsAdvisedThatHelps(t *testing.T) {
	d := newDesk(t, total)
	d.spend(d.host("host-2", "  - {name: total, limit: 300, window: 24h}\n"), "search", 300, nobody, "")
	d.refuse(d.Client, "items", 1, nobody, "")
	d.wants("p: all items calls refused since T on host-1 (1 so far), until T; 300 of 300 units of total are used; " +
		"sooner with a limit of 301 in every configuration: that of 300 is another's, and if that one is no longer " +
		"in use, ration ledger accept ends it")
	d = newDesk(t, "  - {name: total, limit: 950, upstream_limit: 1000, window: 24h}\n")
	d.spend(d.Client, "items", 901, nobody, "")
	d.refuse(d.Client, "search", 100, nobody, "")
	d.wants("p: all search calls refused since T on host-1 (1 so far), until T; 901 of 950 units of total are used")
	kept, err := client.LastRefusal(d.State())
	if err != nil {
		t.Fatal(err)
	}
	e := report.NewWhy(kept, time.Now())
	if err := e.ReadLedger(t.Context(), d.Client); err != nil || e.Limit != nil ||
		strings.Contains(strings.Join(e.Helped, "\n"), "a limit of") {
		t.Errorf("%v, %v, %q; want no limit above the upstream's", err, e.Limit, e.Helped)
	}
}

// TestSinceIsOfTheFirstMethod: it was said of methods that were granted later.
func TestSinceIsOfTheFirstMethod(t *testing.T) {
	d := newDesk(t, total)
	d.spend(d.Client, "search", 901, nobody, "")
	d.refuse(d.Client, "search", 100, nobody, "")
	d.spend(d.Client, "items", 99, nobody, "")
	d.refuse(d.host("host-2", d.budgets), "items", 1, nobody, "")
	d.wants("p: all search and items calls refused, search first, since T on host-1 (2 so far), until T; 1000 of " +
		"1000 units of total are used; sooner with a limit of 1100")
}

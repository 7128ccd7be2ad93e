package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/quota"
)

// world is a ledger in a folder of its own, with a clock that the test sets.
type world struct {
	*testing.T
	place  *setup.Setup
	client *client.Client
	dir    string
	clock  time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir(), clock: time.Date(2026, 11, 19, 22, 10, 0, 0, time.UTC)}
	text := "version: 1\naccount: p\nledger: sqlite:ration.db\ncosts: {search: 100, list: 1}\nbudgets: [{name: all, " +
		"limit: 250, window: 24h}]\n"
	if err := os.WriteFile(filepath.Join(w.dir, "costs.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"RATION_CONFIG": w.dir, "RATION_STATE": filepath.Join(w.dir, "state"),
		"RATION_JOURNAL": filepath.Join(w.dir, "replica")}
	w.place = &setup.Setup{Getenv: func(name string) string { return env[name] },
		Now: func() time.Time { return w.clock }, Fixed: true, Conceal: func(string) {}, ConcealProxies: func() {},
		Redact: func(text string) string { return text }, Clean: func(text string) string { return text },
		Report: func(_ quota.Call, err error) { t.Errorf("reported: %v", err) }}
	w.open()
	t.Cleanup(func() { w.client.Close() })
	return w
}

// open opens the ledger.
func (w *world) open() {
	w.Helper()
	table, err := w.place.Prices()
	if err != nil {
		w.Fatal(err)
	}
	if w.client, err = w.place.Open(table, true); err != nil {
		w.Fatal(err)
	}
}

// spend spends, and reports whether that was granted.
func (w *world) spend(method string, units quota.Units, region, job string) bool {
	w.Helper()
	w.clock = w.clock.Add(time.Second)
	_, err := w.client.Guard().Spend(w.Context(),
		quota.Call{Account: "p", Method: method, Units: units, Caller: quota.Caller{Region: region, Job: job}})
	if err != nil && !errors.Is(err, quota.ErrRefused) {
		w.Fatal(err)
	}
	return err == nil
}

func (w *world) source(filter usage.Filter) *usage.LogReader {
	return &usage.LogReader{Guard: w.client.Guard(), Accounts: []string{"p"}, Filter: filter}
}

// documents returns what a query selects, as JSON, and whether there is more.
func (w *world) documents(q cli.LogQuery, source *usage.LogReader) (lines []string, more bool) {
	w.Helper()
	found, err := q.Select(w.Context(), w.place, w.client, source)
	if err != nil {
		w.Fatal(err)
	}
	for document, err := range q.Documents(&found) {
		if err != nil {
			w.Fatal(err)
		}
		text, err := json.Marshal(document)
		if err != nil {
			w.Fatal(err)
		}
		lines = append(lines, string(text))
	}
	return lines, found.More
}

// TestAQuerySelectsWhatItsFilterSays: the newest entries, their totals, the
// largest totals and the hours are of the entries that the filter selects.
func TestAQuerySelectsWhatItsFilterSays(t *testing.T) {
	w := newWorld(t)
	w.spend("search", 100, "IN", "music")
	w.spend("list", 60, "GB", "news")
	w.spend("list", 1, "", "")
	for name, c := range map[string]struct {
		query  cli.LogQuery
		filter usage.Filter
		want   []string // what each document has
		more   bool
	}{
		"all, oldest first": {cli.LogQuery{}, usage.Filter{}, []string{`"region":"IN"`, `"region":"GB"`, `"units":1`},
			false},
		"of a region":  {cli.LogQuery{}, usage.Filter{Region: "GB"}, []string{`"region":"GB"`}, false},
		"of no region": {cli.LogQuery{}, usage.Filter{Region: "-"}, []string{`"units":1`}, false},
		"the newest":   {cli.LogQuery{Last: 2}, usage.Filter{}, []string{`"region":"GB"`, `"units":1`}, true},
		"as many": {cli.LogQuery{Last: 3}, usage.Filter{},
			[]string{`"region":"IN"`, `"region":"GB"`, `"units":1`}, false},
		"totals": {cli.LogQuery{By: "method"}, usage.Filter{},
			[]string{`"name":"search","account":"p","units":100,"calls":1`,
				`"name":"list","account":"p","units":61,"calls":2`}, false},
		"the largest total": {cli.LogQuery{By: "method", Top: 1}, usage.Filter{}, []string{`"name":"search"`}, false},
		"more than there is": {cli.LogQuery{By: "method", Top: 9}, usage.Filter{},
			[]string{`"name":"search"`, `"name":"list"`}, false},
		"total of the last": {cli.LogQuery{By: "method", Last: 1}, usage.Filter{},
			[]string{`"name":"list","account":"p","units":1,"calls":1,"share":1,`}, false},
		"hours": {cli.LogQuery{By: "hour"}, usage.Filter{},
			[]string{`"name":"2026-11-19T22:00Z","account":"p","from":"2026-11-19T22:00:00Z",` +
				`"to":"2026-11-19T23:00:00Z","units":161,"calls":3`}, false},
		"days": {cli.LogQuery{By: "day"}, usage.Filter{Job: "music"},
			[]string{`"name":"2026-11-19","account":"p","from":"2026-11-19T00:00:00Z","to":"2026-11-20T00:00:00Z",` +
				`"units":100,"calls":1,"refusals":0`}, false},
	} {
		got, more := w.documents(c.query, w.source(c.filter))
		if len(got) != len(c.want) || more != c.more {
			t.Errorf("%s: %q, more: %v; want %q, %v", name, got, more, c.want, c.more)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], c.want[i]) {
				t.Errorf("%s: %s; want %s", name, got[i], c.want[i])
			}
		}
	}
}

// TestDaysOutliveTheLogAndTheLedger: the sums of a day and its refusals are
// known after the log has dropped it, and when the ledger is gone.
func TestDaysOutliveTheLogAndTheLedger(t *testing.T) {
	w := newWorld(t)
	w.spend("search", 100, "IN", "")
	w.spend("search", 100, "BR", "")
	for range 2 {
		if w.spend("search", 100, "BR", "") {
			t.Fatal("granted above the limit")
		}
	}
	w.client.Close() // writes the refusals of the last second
	w.open()
	if err := cli.FillEntries(t.Context(), w.place, w.client); err != nil {
		t.Fatal(err)
	}
	w.clock = w.clock.Add(4 * 24 * time.Hour)
	w.spend("list", 1, "IN", "")
	days := func(filter usage.Filter, c *client.Client) (text string) {
		t.Helper()
		found, err := cli.ReadDays(t.Context(), w.place, c, w.source(filter))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range found {
			if d.Refusals == nil {
				t.Fatalf("%+v has no refusals", d)
			}
			text += fmt.Sprintf("%s %d %d %d;", d.Name[5:], d.Units, d.Calls, *d.Refusals)
		}
		return text
	}
	if got := days(usage.Filter{}, w.client); got != "11-19 200 2 2;11-23 1 1 0;" {
		t.Errorf("all: %s", got)
	}
	if got := days(usage.Filter{Region: "BR"}, w.client); got != "11-19 100 1 2;" {
		t.Errorf("of BR: %s", got)
	}
	if got := days(usage.Filter{}, nil); got != "11-19 200 2 2;11-23 1 1 0;" {
		t.Errorf("without the ledger: %s", got)
	}
	for range 3 {
		w.spend("search", 100, "IN", "")
	}
	w.client.Close()
	w.open()
	if got := days(usage.Filter{}, w.client); got != "11-19 200 2 2;11-23 201 3 1;" {
		t.Errorf("not filled since: %s", got)
	}
}

// TestASearchNeedsALimitAndARealCountry: a limit of 0 and a wrong country code
// are errors. Without a catalogue, search fails and the history is empty.
func TestASearchNeedsALimitAndARealCountry(t *testing.T) {
	for _, c := range []struct {
		query  catalog.Query
		region string
		fail   string
	}{
		{catalog.Query{Limit: 0}, "", "limit: give 1 or more"},
		{catalog.Query{Limit: 1, Region: "uk"}, "UK", "write GB"},
		{catalog.Query{Limit: 1, Region: "gb"}, "GB", ""},
	} {
		err := cli.CheckSearch(&c.query)
		if (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) ||
			c.query.Region != c.region {
			t.Errorf("%+v: %v; want %q", c.query, err, c.fail)
		}
	}
	w := newWorld(t)
	if _, err := cli.Search(t.Context(), w.place, catalog.Query{Text: "a", Limit: 1}); !errors.Is(err,
		catalog.ErrNoCatalog) {
		t.Errorf("%v; want no catalogue", err)
	}
	if days, err := cli.ReadDays(t.Context(), w.place, nil, w.source(usage.Filter{})); err != nil || len(days) > 0 {
		t.Errorf("days %v, %v; want none", days, err)
	}
	store, err := w.place.OpenCatalog()
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	hits, err := cli.Search(t.Context(), w.place, catalog.Query{Text: "a", Limit: 1})
	if text, _ := json.Marshal(hits); err != nil || string(text) != `{"hits":[]}` {
		t.Errorf("%s, %v; want an empty list", text, err)
	}
}

// TestPastDaysHaveTheirLateSettles: of days that the log has dropped, what was
// settled and refunded after midnight, by then in the file of another day, was
// counted as it was reserved.
func TestPastDaysHaveTheirLateSettles(t *testing.T) {
	w := newWorld(t)
	w.clock = time.Date(2026, 11, 19, 23, 59, 0, 0, time.UTC)
	var grants []*quota.Grant
	for _, job := range []string{"settled", "refunded", "kept"} {
		g, err := w.client.Guard().Spend(t.Context(),
			quota.Call{Account: "p", Method: "list", Units: 50, Caller: quota.Caller{Job: job}})
		if err != nil {
			t.Fatal(err)
		}
		grants = append(grants, g)
	}
	w.clock = w.clock.Add(2 * time.Minute)
	if err := errors.Join(grants[0].Settle(t.Context(), 7), grants[1].Refund(t.Context())); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		w.clock = w.clock.Add(24 * time.Hour)
		w.spend("list", 1, "", "later")
	}
	w.client.Close()
	w.open()
	source := w.source(usage.Filter{})
	source.Since, source.Until = w.clock.Add(-8*24*time.Hour), w.clock.Add(-3*24*time.Hour)
	lines, _ := w.documents(cli.LogQuery{By: "job,day"}, source)
	text := strings.Join(lines, "\n")
	for _, want := range []string{`"name":"kept","day":"2026-11-19","account":"p","units":50`,
		`"name":"settled","day":"2026-11-19","account":"p","units":7`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, `"refunded"`) {
		t.Errorf("what was refunded is in\n%s", text)
	}
}

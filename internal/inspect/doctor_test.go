package inspect

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

func newCheckup(now time.Time) *Checkup {
	return &Checkup{Message: error.Error, Now: func() time.Time { return now }}
}

// last returns the grade and the text of the last finding.
func (c *Checkup) last() string {
	f := c.Findings[len(c.Findings)-1]
	if f.Do != nil {
		return f.Grade + " " + f.What + " -> " + *f.Do
	}
	return f.Grade + " " + f.What
}

// TestDoctorFindsAnUpstreamWithoutHosts: nothing said that no request is
// guarded.
func TestDoctorFindsAnUpstreamWithoutHosts(t *testing.T) {
	for hosts, want := range map[string]int{"": 1, "hosts: [api.example]\nroutes: {GET /list: list}\n": 0} {
		table, err := costs.Parse("costs.yaml",
			[]byte("version: 1\nupstream: u\naccount: a\ncosts: {list: 1}\nbudgets: [{name: b, limit: 1, window: "+
				"1h}]\n"+hosts))
		if err != nil {
			t.Fatal(err)
		}
		c := newCheckup(time.Now())
		if c.CheckHosts(table); len(c.Findings) != want {
			t.Errorf("with %q: %v; want %d findings", hosts, c.Findings, want)
		}
	}
}

// TestDoctorFindsARouteWithoutACost: doctor said nothing of routes whose calls
// are refused.
func TestDoctorFindsARouteWithoutACost(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte(`version: 1
upstream: u
account: a
hosts: [api.example]
costs: {items.get: 1}
budgets: [{name: b, limit: 1, window: 1h}]
routes:
  GET /items: items.get
  GET /orders: item.get
  GET /users: users.list
`))
	if err != nil {
		t.Fatal(err)
	}
	github, err := costs.Parse("costs.yaml", []byte("version: 1\nupstream: github\naccount: a\npreset: github-rest\n"))
	if err != nil {
		t.Fatal(err)
	}
	c := newCheckup(time.Now())
	c.CheckRoutes(github) // which refuses POST /graphql on purpose
	c.CheckRoutes(table)
	var found []string
	for _, f := range c.Findings {
		found = append(found, f.Grade+" "+f.What+" -> "+*f.Do)
	}
	want := []string{
		"warning costs.yaml:9: route GET /orders: item.get has no cost, so its calls are refused -> write items.get " +
			"in the route, if that is meant, or add item.get to costs",
		"warning costs.yaml:10: route GET /users: users.list has no cost, so its calls are refused -> add " +
			"users.list to costs, unless its calls are meant to be refused",
	}
	if !slices.Equal(found, want) {
		t.Errorf("%q; want %q", found, want)
	}
}

// TestDoctorFindsRepeatedNames: a name that a list has twice was accepted
// silently.
func TestDoctorFindsRepeatedNames(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte(`version: 1
upstream: u
account: a
costs: {list: 1, get: 1}
budgets:
  - {name: b, limit: 1, window: 1h}
  - {name: c, limit: 1, window: 1h, methods: [list, list, list], lanes: [cron, backfill, cron]}
when_ledger_down:
  - {methods: [get, get], then: {allow: 1}}
`))
	if err != nil {
		t.Fatal(err)
	}
	c := newCheckup(time.Now())
	c.CheckRepeats(table)
	var found []string
	for _, f := range c.Findings {
		found = append(found, f.Grade+" "+f.What)
	}
	want := []string{"warning costs.yaml:7: budget c names list twice",
		"warning costs.yaml:7: budget c names cron twice", "warning costs.yaml:9: when_ledger_down names get twice"}
	if !slices.Equal(found, want) {
		t.Errorf("%q; want %q", found, want)
	}
}

func TestDoctorFindsAStateFolderThatIsWrong(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "a", "b"): "ok state folder " + filepath.Join(dir, "a", "b") +
			": none there yet, the first run makes it",
		file: "problem state folder " + file + " is a file; name a folder with --state",
		open: "warning state folder " + open +
			": others may look into it (mode 0755) -> chmod 700 " + open,
	} {
		c := newCheckup(time.Now())
		c.CheckState(path)
		if c.last() != want {
			t.Errorf("%s; want %s", c.last(), want)
		}
		if _, config := errors.AsType[*client.ConfigError](c.Err); config != strings.HasPrefix(want, Problem) {
			t.Errorf("%s: the error is %v", path, c.Err)
		}
	}
}

const oneBudget = "version: 1\naccount: a\ncosts: {m: 1}\nbudgets: [{name: day, limit: 10, window: 24h}]\n"

// onRealTime is a ledger whose clock is taken for real time.
type onRealTime struct{ quota.Ledger }

// TestDoctorFindsALogThatIsStampedAhead: while the clocks disagree, timestamps
// that are ahead are not corrected, and doctor says so.
func TestDoctorFindsALogThatIsStampedAhead(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte(oneBudget))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	ahead := 48 * time.Hour
	ledger := onRealTime{memledger.Open(&memledger.Options{Now: func() time.Time { return now.Add(ahead) }})}
	opened, err := client.New(table, &client.Options{Opened: ledger, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	if _, err := opened.Guard().Spend(t.Context(), quota.Call{Account: "a", Method: "m", Units: 1}); err != nil {
		t.Fatal(err)
	}
	ahead = -time.Hour
	c := newCheckup(now)
	c.CheckLedger(t.Context(), opened)
	const want = "warning the newest entry of a is stamped 49h ahead of the ledger's clock"
	if !strings.HasPrefix(c.last(), want) {
		t.Errorf("%s; want %s", c.last(), want)
	}
}

// TestDoctorFindsClocksThatDisagree: a difference of more than a minute between
// the clocks of the ledger and this host is a warning.
func TestDoctorFindsClocksThatDisagree(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte(oneBudget))
	if err != nil {
		t.Fatal(err)
	}
	opened, err := client.New(table, &client.Options{State: t.TempDir(), Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	for lead, want := range map[time.Duration]string{0: OK, 2 * time.Minute: Warning, -25 * time.Hour: Warning} {
		c := newCheckup(time.Now().Add(-lead))
		c.CheckLedger(t.Context(), opened)
		if c.Findings[len(c.Findings)-1].Grade != want || c.Err != nil {
			t.Errorf("%s ahead: %s, %v; want %s", lead, c.last(), c.Err, want)
		}
	}
}

// TestDoctorFindsABudgetOfNoMethod: a budget whose except names all methods was
// no finding if another budget covered them.
func TestDoctorFindsABudgetOfNoMethod(t *testing.T) {
	for lines, want := range map[string]int{
		"methods: [list], except: [get]":  0,
		"lanes: [cron], except: [get]":    0,
		"methods: [list], except: [list]": 1,
		"except: [list, get]":             1,
	} {
		table, err := costs.Parse("costs.yaml",
			[]byte("version: 1\nupstream: u\naccount: a\nhosts: [api.example]\nroutes: {GET /list: list, GET /get: "+
				"get}\n"+
				"costs: {list: 1, get: 1}\nbudgets: [{name: all, limit: 9, window: 1d}, {name: some, limit: 5, "+
				"window: "+
				"1h, "+lines+"}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		c := newCheckup(time.Now())
		if c.CheckRepeats(table); len(c.Findings) != want {
			t.Errorf("with %s: %v; want %d findings", lines, c.Findings, want)
		}
	}
}

// TestDoctorFindsAMistypedVariable: a misspelt RATION_LEDGER was no finding,
// and calls were charged to another ledger.
func TestDoctorFindsAMistypedVariable(t *testing.T) {
	c := newCheckup(time.Now())
	c.CheckEnvironment([]string{"RATION_LEDGER=a", "RATION_REGION=", "RATION_HOME=b", "RATION_", "PATH=c",
		"RATION_LEGDER=secret", "ration_state=d"})
	const want = "warning the environment has RATION_LEGDER, which ration does not read -> write RATION_LEDGER, if " +
		"that is meant"
	if len(c.Findings) != 2 || !strings.Contains(c.last(), "write RATION_STATE") {
		t.Fatalf("%v; want 2 findings", c.Findings)
	}
	if c.Findings = c.Findings[:1]; c.last() != want {
		t.Errorf("%s; want %s", c.last(), want)
	}
}

// TestVariablesAreKnown: all variables that the source reads are known to
// CheckEnvironment.
func TestVariablesAreKnown(t *testing.T) {
	read := regexp.MustCompile(`"RATION_([A-Z][A-Z_]*[A-Z])[="]`)
	for _, root := range []string{"cmd", "costs", "jobs", "quota"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, found := range read.FindAllStringSubmatch(string(text), -1) {
				if !slices.Contains(variables, found[1]) {
					t.Errorf("%s reads RATION_%s, which CheckEnvironment does not know", path, found[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestDoctorFindsAnAlertThatCannotBeSent: a missing program or webhook was no
// finding.
func TestDoctorFindsAnAlertThatCannotBeSent(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"page.sh": "#!/bin/sh\n", "hook.url": "https://hooks.example.com/x\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for to, want := range map[string]string{
		"command: ./page.sh":      "",
		"command: [./gone.sh, a]": "gone.sh",
		"webhook_file: hook.url":  "",
		"webhook_file: gone.url":  "gone.url",
	} {
		table, err := costs.Parse(filepath.Join(dir, "costs.yaml"),
			[]byte("version: 1\nupstream: u\naccount: a\npreset: youtube/legacy\nalert: {"+to+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		c := newCheckup(time.Now())
		switch c.CheckAlerts(table); {
		case want == "" && len(c.Findings) == 0:
		case want != "" && len(c.Findings) == 1 && strings.Contains(c.last(), want):
		default:
			t.Errorf("with %s: %v; want a finding of %q", to, c.Findings, want)
		}
	}
}

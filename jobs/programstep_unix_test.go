//go:build unix

package jobs_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// asSpender in the environment makes the test binary a program that spends one
// call through the gateway, as spend METHOD, and ends with 75 if it is refused.
const asSpender = "RATION_TEST_AS_SPENDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asRunner); dir != "" {
		mainRunner(dir)
	}
	if os.Getenv(asSpender) == "" {
		os.Exit(m.Run())
	}
	req, err := http.NewRequest("POST", os.Getenv("RATION_URL")+"/spend/"+os.Args[1], nil)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("RATION_TOKEN"))
	resp, err := http.DefaultClient.Do(req)
	switch {
	case err != nil:
		panic(err)
	case resp.StatusCode == http.StatusTooManyRequests:
		os.Exit(75)
	case resp.StatusCode != http.StatusOK:
		panic(resp.Status)
	}
}

// gateway is a command.Gateway over a guard.
type gateway struct {
	table *costs.Table
	guard *quota.Guard

	mu      sync.Mutex
	callers map[string]quota.Caller // by token
	opened  int
}

// Open implements command.Gateway.
func (g *gateway) Open(_ context.Context, caller quota.Caller) (env []string, end func() error, err error) {
	token := rand.Text()
	g.mu.Lock()
	g.callers[token] = caller
	g.opened++
	g.mu.Unlock()
	server := httptest.NewServer(g)
	return []string{"RATION_URL=" + server.URL, "RATION_TOKEN=" + token}, func() error {
		server.Close()
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.callers, token)
		return nil
	}, nil
}

// ServeHTTP implements http.Handler.
func (g *gateway) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	g.mu.Lock()
	caller, ok := g.callers[strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")]
	g.mu.Unlock()
	if !ok {
		http.Error(w, "unknown token", http.StatusUnauthorized)
		return
	}
	call, err := g.table.Call("", strings.TrimPrefix(req.URL.Path, "/spend/"))
	if err == nil {
		call.Caller = caller
		_, err = g.guard.Spend(req.Context(), call)
	}
	switch {
	case errors.Is(err, quota.ErrRefused):
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// programs is a runner whose regions run shell scripts behind a gateway.
type programs struct {
	*jobs.Runner
	dir     string // of the scripts
	gateway *gateway
	clock   *ledgertest.Clock
	regions []jobs.Region

	mu    sync.Mutex
	lines []string
}

func newPrograms(t *testing.T, budgets, fetch string, regions ...string) *programs {
	t.Helper()
	s := &programs{dir: t.TempDir(), clock: &ledgertest.Clock{}}
	s.clock.Set(noon)
	table, err := costs.Parse("costs.yaml", []byte(acme+budgets))
	if err != nil {
		t.Fatal(err)
	}
	guard, err := quota.NewGuard(memledger.Open(&memledger.Options{Now: s.clock.Now}), table.Budgets(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.gateway = &gateway{table: table, guard: guard, callers: map[string]quota.Caller{}}
	config, err := jobs.Parse(filepath.Join(s.dir, "regions.yaml"),
		[]byte("version: 1\nschedule: 0 11 * * *\nfetch: "+fetch+"\nregions: {"+strings.Join(regions, ": {}, ")+
			": {}}\n"), table.CheckFetched)
	if err != nil {
		t.Fatal(err)
	}
	s.regions = config.Regions
	store, err := catalog.Open(filepath.Join(t.TempDir(), "catalog.db"), &catalog.Options{Now: s.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.Runner = &jobs.Runner{Catalog: store, Meter: &jobs.Meter{}, Now: s.clock.Now, Guard: guard, Table: table,
		Gateway: s.gateway,
		Environ: append(os.Environ(), "SELF="+self), Output: func(l jobs.OutputLine) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.lines = append(s.lines, l.Region+" "+l.Job+": "+l.Text)
		}}
	return s
}

// script writes a script. In it, spend METHOD spends a call.
func (s *programs) script(t *testing.T, name, text string) {
	t.Helper()
	text = "#!/bin/sh\nspend() { " + asSpender + "=1 \"$SELF\" \"$1\"; }\n" + text + "\n"
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// run runs all regions and returns the report of the first.
func (s *programs) run(t *testing.T, ctx context.Context) jobs.RegionReport {
	t.Helper()
	s.lines = nil
	s.Meter = &jobs.Meter{}
	report, err := s.Run(ctx, s.regions)
	if err != nil {
		t.Fatal(err)
	}
	return report.Regions[0]
}

const marketStep = "{command: [./market.sh, '{region}'], job: market, calls: {items.list: 3, items.search: 1}}"

// TestProgramIsAStep: it is attributed, metered, run once for each tick, and
// its output has region and job.
func TestProgramIsAStep(t *testing.T) {
	s := newPrograms(t, "  - {name: all, limit: 100, window: 24h, floor: {emea: 10}}\n", "["+marketStep+"]", "emea",
		"apac")
	s.script(t, "market.sh", `echo "for $1"; spend items.list && spend items.list && spend items.search`)
	report := s.run(t, t.Context())
	if report.Outcome != jobs.Complete || report.Calls != 3 || report.Units != 7 {
		t.Errorf("%+v; want complete, with 3 calls of 7 units", report)
	}
	slices.Sort(s.lines)
	if got := strings.Join(s.lines, ", "); got != "apac market: for apac, emea market: for emea" {
		t.Errorf("the output is %s", got)
	}
	callers := map[quota.Caller]quota.Units{}
	for sum, err := range s.Guard.Sums(t.Context(), quota.Query{Account: "acme"}) {
		if err != nil {
			t.Fatal(err)
		}
		callers[sum.Caller] += sum.Units
	}
	if len(callers) != 2 || callers[quota.Caller{Lane: "cron", Job: "market", Region: "emea"}] != 7 {
		t.Errorf("the ledger has %v; want 7 units of either region", callers)
	}
	if report = s.run(t, t.Context()); report.Outcome != jobs.Skipped || s.gateway.opened != 2 ||
		len(s.gateway.callers) != 0 {
		t.Errorf("again: %s (%v) after %d programs, %d tokens left; want skipped, after two", report.Outcome,
			report.Err, s.gateway.opened, len(s.gateway.callers))
	}
	s.clock.Add(24 * time.Hour)
	s.script(t, "market.sh", "spend items.search && spend items.search")
	if report = s.run(t, t.Context()); report.Outcome != jobs.Complete || s.gateway.opened != 4 {
		t.Errorf("the next tick: %s (%v) after %d programs; want complete", report.Outcome, report.Err,
			s.gateway.opened)
	}
	if !slices.Contains(s.lines, "emea market: made 2 calls of items.search, more than the 1 in regions.yaml") {
		t.Errorf("the output is %q; want a line about the calls", s.lines)
	}
}

// TestUnitsOfAProgramAreUnknownWithoutItsLedger: they were reported as 0 if the
// ledger was down when the program began, or when it ended.
func TestUnitsOfAProgramAreUnknownWithoutItsLedger(t *testing.T) {
	for name, cutBefore := range map[string]bool{"down before": true, "down since": false} {
		s := newPrograms(t, "  - {name: all, limit: 100, window: 24h}\n", "[{command: ./market.sh}]", "emea")
		l := &link{Ledger: s.Guard.Ledger()} // which is a ledger, too
		guard, err := quota.NewGuard(l, s.Table.Budgets(), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.Guard = guard
		s.script(t, "market.sh", "echo begun")
		s.Output = func(jobs.OutputLine) { l.cut.Store(true) }
		l.cut.Store(cutBefore)
		report, err := s.Run(t.Context(), s.regions)
		if err != nil {
			t.Fatal(err)
		}
		document, err := json.Marshal(report.Document(nil, func(error) *string { return nil }))
		calls, units := report.Regions[0].Charges()
		if err != nil || calls != "unknown" || units != "unknown" ||
			strings.Count(string(document), `"units":null`) != 2 {
			t.Errorf("%s: %v calls, %v units, %s, %v; want them unknown", name, calls, units, document, err)
		}
	}
}

// TestResumeRepeatsNoDoneProgram: of a pass that stopped, only the rest is run.
func TestResumeRepeatsNoDoneProgram(t *testing.T) {
	s := newPrograms(t, "  - {name: all, limit: 100, window: 24h}\n",
		"[{command: ./one.sh}, {command: ./two.sh}, {command: ./three.sh}]", "emea")
	s.script(t, "one.sh", "echo ran")
	s.script(t, "two.sh", "echo ran; exit 1")
	s.script(t, "three.sh", "echo ran")
	if report := s.run(t, t.Context()); report.Outcome != jobs.Failed ||
		fmt.Sprint(report.Err) != "two.sh: exit status 1: ran" || len(s.lines) != 2 {
		t.Fatalf("%s (%v) after %q; want two.sh failed, and the rest left", report.Outcome, report.Err, s.lines)
	}
	s.script(t, "two.sh", "echo ran")
	if report := s.run(t, t.Context()); report.Outcome != jobs.Complete ||
		fmt.Sprint(s.lines) != "[emea two.sh: ran emea three.sh: ran]" {
		t.Errorf("%s (%v) after %q; want two and three", report.Outcome, report.Err, s.lines)
	}
}

// TestRegionIsLockedWhileAProgramRuns: a second run skips the region.
func TestRegionIsLockedWhileAProgramRuns(t *testing.T) {
	s := newPrograms(t, "  - {name: all, limit: 100, window: 24h}\n", "["+marketStep+"]", "emea")
	s.script(t, "market.sh", "echo begun")
	second := *s.Runner
	second.Output = nil
	s.Output = func(jobs.OutputLine) {
		report, err := second.Run(t.Context(), s.regions)
		if err != nil || report.Regions[0].Outcome != jobs.Skipped ||
			!errors.Is(report.Regions[0].Err, catalog.ErrLocked) {
			t.Errorf("meanwhile: %+v, %v; want skipped", report, err)
		}
	}
	if report := s.run(t, t.Context()); report.Outcome != jobs.Complete || s.gateway.opened != 1 {
		t.Errorf("%s (%v) after %d programs; want one, complete", report.Outcome, report.Err, s.gateway.opened)
	}
}

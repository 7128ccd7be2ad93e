package jobs_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/youtube"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// host has what the processes of one machine share: the ledger's file, the
// catalogue, the configuration and the upstream.
type host struct {
	dir      string
	clock    *ledgertest.Clock
	upstream *youtubetest.Server
	web      *httptest.Server
}

// run acts as a separate process: it opens everything, runs once, and exits.
func (h *host) run(t *testing.T) *jobs.Report {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	table, err := costs.Parse("costs.yaml", []byte("version: 1\naccount: a\npreset: youtube/2026-06\n"))
	check(err)
	table, err = table.WithEndpoint("", h.web.URL)
	check(err)
	var queries []string
	for i := range 20 {
		queries = append(queries, fmt.Sprint("music ", i))
	}
	config, err := jobs.Parse("regions.yaml",
		[]byte(`{version: 1, schedule: "@monthly", fetch: [search: {queries: [`+strings.Join(queries, ", ")+
			`]}, trending: {pages: 1}], regions: {US: {}, GB: {}, DE: {}, FR: {}, IN: {}, BR: {}, AU: {}, CA: {}}}`),
		table.CheckFetched)
	check(err)
	ledger, err := sqliteledger.Open(filepath.Join(h.dir, "ration.db"),
		&sqliteledger.Options{Now: h.clock.Now, Sync: sqliteledger.Normal})
	check(err)
	defer ledger.Close()
	guard, err := quota.NewGuard(ledger, table.Budgets(), nil)
	check(err)
	store, err := catalog.Open(filepath.Join(h.dir, "catalog.db"), &catalog.Options{Now: h.clock.Now})
	check(err)
	defer store.Close()
	said, err := feedback.New("google", feedback.Options{Zone: table.Upstreams()[0].Resets, Budgets: table.Budgets(),
		Now: h.clock.Now})
	check(err)
	client, err := youtube.New(t.Context(),
		&http.Client{Transport: &quota.Transport{Guard: guard, Price: table.Price, Feedback: said,
			Base: &youtube.KeyTransport{Key: func() (string, error) { return "k", nil },
				Hosts: []string{strings.TrimPrefix(h.web.URL, "http://")}, Base: &http.Transport{}}}}, h.web.URL+"/")
	check(err)
	report, err := (&jobs.Runner{Catalog: store, Client: client, Now: h.clock.Now}).Run(t.Context(), config.Regions)
	check(err)
	return report
}

// calls counts the upstream's arrivals by method, and its refusals.
func (h *host) calls() (searches, charts, refused int) {
	for _, a := range h.upstream.Arrivals() {
		switch {
		case a.Status != http.StatusOK:
			refused++
		case a.Method == "search.list":
			searches++
		case a.Method == "videos.list":
			charts++
		}
	}
	return searches, charts, refused
}

// TestASpentSearchBucketStopsSearchesUntilMidnight: searches have a bucket of a
// hundred a day. When it is spent, here or elsewhere, searches stop, charts
// continue, and the next process makes no search. After midnight in Los Angeles
// the missing searches are made.
func TestASpentSearchBucketStopsSearchesUntilMidnight(t *testing.T) {
	if testing.Short() {
		t.Skip("spends a day of searches twice, 5 seconds")
	}
	for name, elsewhere := range map[string]int64{"spent here": 0, "spent elsewhere": 60} {
		t.Run(name, func(t *testing.T) {
			h := &host{dir: t.TempDir(), clock: &ledgertest.Clock{}}
			h.clock.Set(noon)
			h.upstream = youtubetest.New(&youtubetest.Options{Model: youtubetest.Since2026, Now: h.clock.Now,
				Exact: true})
			h.web = httptest.NewServer(h.upstream)
			defer h.web.Close()
			h.upstream.SpendElsewhere(youtubetest.SearchBucket, elsewhere)
			expect := func(when string, searches, charts int) {
				t.Helper()
				s, c, refused := h.calls()
				if s != searches || c != charts {
					t.Errorf("%s: %d searches and %d charts; want %d and %d", when, s, c, searches, charts)
				}
				// Each of the concurrent searches may get the error of the
				// spent bucket.
				if most := jobs.DefaultParallel; elsewhere == 0 && refused > 0 || refused > most {
					t.Errorf("%s: %d calls refused upstream", when, refused)
				}
			}
			left := 100 - int(elsewhere)

			report := h.run(t)
			refused, ok := errors.AsType[*quota.RefusedError](report.Err)
			opens := time.Date(2026, 11, 21, 8, 0, 30, 0, time.UTC)
			if !ok || report.Outcome != jobs.Stopped || !refused.RetryAt.Equal(opens) ||
				!strings.Contains(refused.Budget, "search") {
				t.Errorf("the first process ended %s: %v; want it stopped until %s", report.Outcome, report.Err, opens)
			}
			expect("the first process", left, 8)

			arrived := len(h.upstream.Arrivals())
			if report = h.run(t); report.Outcome != jobs.Stopped || len(h.upstream.Arrivals()) != arrived {
				t.Errorf("the next process ended %s and made %d calls; want none", report.Outcome,
					len(h.upstream.Arrivals())-arrived)
			}
			h.clock.Set(opens.Add(-time.Microsecond))
			if h.run(t); len(h.upstream.Arrivals()) != arrived {
				t.Errorf("before the day began there: %d calls; want none", len(h.upstream.Arrivals())-arrived)
			}

			h.clock.Set(opens)
			report = h.run(t)
			expect("the new day", min(160, left+100), 8)
			if want := map[bool]jobs.Outcome{true: jobs.Complete,
				false: jobs.Stopped}[left+100 >= 160]; report.Outcome != want {
				t.Errorf("the new day ended %s: %v; want it %s", report.Outcome, report.Err, want)
			}
		})
	}
}

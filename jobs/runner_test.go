package jobs_test

import (
	"context"
	"database/sql"
	"errors"
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
	"github.com/ration-dev/ration/quota/memledger"
)

// noon is the time of the runs, an hour after a tick of the tests' schedules.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// scene is the whole chain: runner, Google's client, guard, ledger, and a local
// YouTube behind real HTTP.
type scene struct {
	*jobs.Runner
	upstream *youtubetest.Server
	guard    *quota.Guard
	clock    *ledgertest.Clock
	regions  []jobs.Region

	ledger    quota.Ledger
	budgets   []quota.Budget
	path      string // of the catalogue
	transport *quota.Transport
}

// pricelist is the costs.yaml of the tests without its budgets.
const pricelist = `
version: 1
upstream: youtube
account: a
api: youtube/v3
hosts: [youtube.googleapis.com]
costs: {search.list: 100, videos.list: 1, channels.list: 1, videoCategories.list: 1}
budgets:
`

func newScene(t testing.TB, budgets, fetch string, o *youtubetest.Options, regions ...string) *scene {
	t.Helper()
	s := &scene{clock: &ledgertest.Clock{}}
	s.clock.Set(noon)
	upstream := youtubetest.Options{}
	if o != nil {
		upstream = *o
	}
	upstream.Now = s.clock.Now // or the upstream's day might end during a test
	s.upstream = youtubetest.New(&upstream)
	web := httptest.NewServer(s.upstream)
	t.Cleanup(web.Close)
	table, err := costs.Parse("costs.yaml", []byte(pricelist+budgets))
	if err != nil {
		t.Fatal(err)
	}
	if table, err = table.WithEndpoint("", web.URL); err != nil {
		t.Fatal(err)
	}
	s.ledger, s.budgets = memledger.Open(&memledger.Options{Now: s.clock.Now}), table.Budgets()
	if s.guard, err = quota.NewGuard(s.ledger, s.budgets, nil); err != nil {
		t.Fatal(err)
	}
	config, err := jobs.Parse("regions.yaml",
		[]byte("version: 1\nschedule: 0 11 * * *\nfetch: "+fetch+"\nregions: {"+strings.Join(regions, ": {}, ")+
			": {}}\n"), table.CheckFetched)
	if err != nil {
		t.Fatal(err)
	}
	s.regions = config.Regions
	s.path = filepath.Join(t.TempDir(), "catalog.db")
	store, err := catalog.Open(s.path, &catalog.Options{Now: s.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	said, err := feedback.New("google", feedback.Options{Zone: time.UTC, Now: s.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	meter := &jobs.Meter{}
	s.transport = &quota.Transport{
		Guard: s.guard, Price: table.Price, Charged: meter.Charged, Feedback: said,
		Base: &youtube.KeyTransport{Key: func() (string, error) { return "k", nil },
			Hosts: []string{strings.TrimPrefix(web.URL, "http://")}, Base: &http.Transport{MaxIdleConnsPerHost: 16}},
	}
	client, err := youtube.New(t.Context(), &http.Client{Transport: s.transport}, web.URL+"/")
	if err != nil {
		t.Fatal(err)
	}
	s.Runner = &jobs.Runner{Catalog: store, Client: client, Meter: meter, Now: s.clock.Now, Parallel: 8}
	return s
}

func (s *scene) run(t testing.TB, ctx context.Context) *jobs.Report {
	t.Helper()
	report, err := s.Run(ctx, s.regions)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// agree checks that the ledger and the upstream count the same units, and
// returns them.
func (s *scene) agree(t testing.TB) quota.Units {
	t.Helper()
	balances, err := s.guard.Balances(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if used := balances[0].Used; int64(used) != s.upstream.Total() {
		t.Fatalf("the ledger holds %d units, the upstream counted %d", used, s.upstream.Total())
	}
	return balances[0].Used
}

// rows counts the rows of a table of the catalogue.
func (s *scene) rows(t testing.TB, table string) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", s.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// pages counts the requests for each page of each region's chart.
func (s *scene) pages() map[string]int {
	pages := map[string]int{}
	for _, a := range s.upstream.Arrivals() {
		if a.Method == "videos.list" {
			pages[a.Region+" "+a.Query.Get("pageToken")]++
		}
	}
	return pages
}

const plenty = "  - {name: all, limit: 9500, window: 24h}\n"

func TestRunFetchesAndCounts(t *testing.T) {
	s := newScene(t, plenty, "[trending, {search: {queries: [music, goal]}}, channels, categories]", nil, "US", "GB",
		"DE", "FR", "IN", "BR", "AU", "CA")
	report := s.run(t, t.Context())
	if report.Outcome != jobs.Complete || report.Units != s.agree(t) {
		t.Fatalf("%s with %d units (%v); want complete, with what the ledger holds", report.Outcome, report.Units,
			report.Err)
	}
	arrived := map[string]int{}
	for _, a := range s.upstream.Arrivals() {
		arrived[a.Method]++
		if a.KeyIn != "header" {
			t.Errorf("%s came with its key in %q; want the header", a.Method, a.KeyIn)
		}
	}
	if arrived["videos.list"] != 29 || arrived["search.list"] != 16 || arrived["videoCategories.list"] != 8 ||
		arrived["channels.list"] == 0 {
		t.Errorf("arrived %v; want 29 chart pages, 16 searches, 8 lists of categories, and channels", arrived)
	}
	for _, table := range []string{"positions", "videos", "channels WHERE NOT missing"} {
		if s.rows(t, table) == 0 {
			t.Errorf("the catalogue holds no %s", table)
		}
	}
	again := s.run(t, t.Context())
	for _, r := range again.Regions {
		if r.Outcome != jobs.Skipped ||
			!strings.Contains(r.Err.Error(), "done 2026-11-20T12:00:00Z; --again fetches anyway") {
			t.Errorf("%s a second time: %s (%v); want skipped", r.Region, r.Outcome, r.Err)
		}
	}
	if again.Outcome != jobs.Complete {
		t.Errorf("a run with nothing to do: %s", again.Outcome)
	}
}

func TestRunStopsAndResumes(t *testing.T) {
	s := newScene(t, "  - {name: all, limit: 12, window: 1m, methods: [videos.list]}\n", "[trending]", nil, "US", "GB",
		"DE", "FR", "IN", "BR", "AU", "CA")
	for run, want := range []struct {
		outcome jobs.Outcome
		units   quota.Units
	}{{jobs.Stopped, 12}, {jobs.Stopped, 12}, {jobs.Complete, 5}} {
		before := s.upstream.Total()
		report := s.run(t, t.Context())
		if report.Outcome != want.outcome || quota.Units(s.upstream.Total()-before) != want.units {
			t.Fatalf("run %d: %s with %d units at the upstream; want %s with %d", run, report.Outcome,
				s.upstream.Total()-before, want.outcome, want.units)
		}
		if want.outcome == jobs.Stopped {
			refused, ok := errors.AsType[*quota.RefusedError](report.Err)
			if !ok || refused.Budget != "all" || refused.Remaining != 0 || !report.RetryAt.Equal(refused.RetryAt) {
				t.Fatalf("run %d: %v, retry at %s; want the refusal and its retry time", run, report.Err,
					report.RetryAt)
			}
		}
		s.clock.Add(time.Minute + time.Second)
	}
	for page, n := range s.pages() {
		if n != 1 {
			t.Errorf("page %q was fetched %d times", page, n)
		}
	}
	if len(s.pages()) != 29 {
		t.Errorf("%d pages; want all 29", len(s.pages()))
	}
}

func TestSpentSearchStopsSearchesOnly(t *testing.T) {
	s := newScene(t, plenty+"  - {name: searches, limit: 150, window: 24h, methods: [search.list]}\n",
		"[{search: {queries: [music]}}, trending]", nil, "US", "IN")
	report := s.run(t, t.Context())
	refused, ok := errors.AsType[*quota.RefusedError](report.Err)
	if report.Outcome != jobs.Stopped || !ok || refused.Budget != "searches" {
		t.Fatalf("%s: %v; want stopped by searches", report.Outcome, report.Err)
	}
	if n := len(s.pages()); n != 8 || s.agree(t) != 108 {
		t.Errorf("%d chart pages and %d units; want all 8, and one search", n, s.agree(t))
	}
}

func TestUpstreamExhaustionSetsACooldown(t *testing.T) {
	s := newScene(t, plenty, "[trending]", &youtubetest.Options{Limit: 3, Exact: true}, "US")
	report := s.run(t, t.Context())
	refused, ok := errors.AsType[*quota.RefusedError](report.Err)
	if report.Outcome != jobs.Stopped || !ok || refused.Reason != quota.ReasonCooldown ||
		!strings.Contains(refused.Detail, "quotaExceeded") {
		t.Fatalf("%s: %v; want stopped by a cooldown that says quotaExceeded", report.Outcome, report.Err)
	}
	if want := time.Date(2026, 11, 21, 0, 0, 30, 0, time.UTC); !report.RetryAt.Equal(want) {
		t.Errorf("retry at %s; want the upstream's reset, %s", report.RetryAt, want)
	}
	before := len(s.upstream.Arrivals())
	if s.run(t, t.Context()); len(s.upstream.Arrivals()) != before {
		t.Error("the next run called an upstream that had said stop")
	}
}

func TestFailureKeepsCommittedPages(t *testing.T) {
	for name, fault := range map[string]youtubetest.Fault{
		"500":       {Status: 500, Skip: 2, Times: 1},
		"html":      {Status: 200, Body: "<html>", Skip: 2, Times: 1},
		"truncated": {Delivery: youtubetest.Halved, Skip: 2, Times: 1},
		"403":       {Status: 403, Reason: "forbidden", Skip: 2, Times: 1},
		"404":       {Status: 404, Skip: 2, Times: 1},
		"html 404":  {Status: 404, Body: "<html>", Skip: 2, Times: 1},
		"no chart":  {Status: 404, Reason: "videoChartNotFound", Skip: 2, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, plenty, "[trending]", nil, "US")
			s.upstream.Fail(fault)
			report := s.run(t, t.Context())
			if report.Outcome != jobs.Failed || strings.Contains(report.Err.Error(), "http://") {
				t.Fatalf("%s: %v; want failed, without a URL", report.Outcome, report.Err)
			}
			if report = s.run(t, t.Context()); report.Outcome != jobs.Complete {
				t.Fatalf("the next run: %s: %v", report.Outcome, report.Err)
			}
			for page, n := range s.pages() {
				if want := map[bool]int{true: 2, false: 1}[strings.HasSuffix(page, "CGQQAA")]; n != want {
					t.Errorf("page %q was fetched %d times; want %d", page, n, want)
				}
			}
		})
	}
}

func TestRegionWithoutAChartIsDone(t *testing.T) {
	s := newScene(t, plenty, "[trending, categories]", nil, "US")
	s.upstream.Fail(youtubetest.Fault{Method: "videos.list", Status: 404, Reason: "videoChartNotFound", Times: 1})
	if report := s.run(t, t.Context()); report.Outcome != jobs.Complete {
		t.Errorf("%s: %v", report.Outcome, report.Err)
	}
}

func TestARegionThatIsRunningIsSkipped(t *testing.T) {
	s := newScene(t, plenty, "[trending]", nil, "US", "IN")
	lock, err := s.Catalog.Lock("region US")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	report := s.run(t, t.Context())
	us, in := report.Regions[0], report.Regions[1]
	if us.Outcome != jobs.Skipped || !strings.Contains(us.Err.Error(), "already running") ||
		in.Outcome != jobs.Complete || us.Calls != 0 {
		t.Errorf("US %s (%v), IN %s; want US skipped, and why", us.Outcome, us.Err, in.Outcome)
	}
}

func TestNextTickEndsARun(t *testing.T) {
	s := newScene(t, plenty, "[trending]", nil, "US")
	s.Progress = func(p jobs.Progress) {
		if p.Pages == 1 {
			s.clock.Set(noon.Add(23 * time.Hour))
		}
	}
	report := s.run(t, t.Context())
	if report.Outcome != jobs.Stopped || !errors.Is(report.Err, jobs.ErrNextTick) || s.agree(t) != 1 {
		t.Fatalf("%s: %v", report.Outcome, report.Err)
	}
	s.Progress = nil
	if report = s.run(t, t.Context()); report.Outcome != jobs.Complete || report.Regions[0].Videos != 200 {
		t.Errorf("the new tick: %s with %d videos; want its whole chart", report.Outcome, report.Regions[0].Videos)
	}
}

// TestNoRegionStarves gives each run units for one region only. The region that
// was fetched longest ago goes first.
func TestNoRegionStarves(t *testing.T) {
	s := newScene(t, "  - {name: all, limit: 4, window: 1m, methods: [videos.list]}\n", "[trending]", nil, "US", "GB",
		"DE")
	s.Parallel = 1
	for range 3 {
		s.run(t, t.Context())
		s.clock.Add(2 * time.Minute)
	}
	served := map[string]int{}
	for page := range s.pages() {
		served[page[:2]]++
	}
	if served["US"] != 4 || served["GB"] != 4 || served["DE"] != 4 {
		t.Errorf("pages by region %v; want 4 each after three runs", served)
	}
}

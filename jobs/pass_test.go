package jobs_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/youtube"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
)

// TestFailedCommitFailsThePass: a page that cannot be stored is not paid for.
func TestFailedCommitFailsThePass(t *testing.T) {
	s := newScene(t, plenty, "[trending, {search: {queries: [music]}}]", nil, "US")
	s.Progress = func(p jobs.Progress) {
		if p.Pages == 1 {
			os.Remove(s.path)
		}
	}
	report := s.run(t, t.Context())
	if us := report.Regions[0]; us.Outcome != jobs.Failed || !errors.Is(us.Err, catalog.ErrReplaced) ||
		us.Videos != 50 {
		t.Errorf("%s (%v) with %d videos; want failed, with ErrReplaced, after the first page", us.Outcome, us.Err,
			us.Videos)
	}
	if report.Outcome != jobs.Failed || s.agree(t) != 1 {
		t.Errorf("%s after %d units; want failed before a page is paid for that cannot be stored", report.Outcome,
			s.agree(t))
	}
}

// TestRetryAtIsTheSoonestOfAllRegions: in any order of the regions.
func TestRetryAtIsTheSoonestOfAllRegions(t *testing.T) {
	for _, order := range [][]string{{"US", "GB", "DE"}, {"GB", "US", "DE"}, {"DE", "GB", "US"}} {
		s := newScene(t,
			"  - {name: us, limit: 1, window: 24h, methods: [videos.list], regions: [US]}\n  - {name: gb, limit: 1, "+
				"window: 1m, methods: [videos.list], regions: [GB]}\n  - {name: de, limit: 9, window: 24h, methods: "+
				"[videos.list], regions: [DE]}\n",
			"[trending]", nil, order...)
		s.Parallel = 1
		report := s.run(t, t.Context())
		soonest := noon.Add(time.Minute)
		if report.Outcome != jobs.Stopped || report.RetryAt.Before(soonest) ||
			report.RetryAt.After(soonest.Add(time.Second)) {
			t.Errorf("%v: %s, retry at %s; want stopped until GB may go on, at %s", order, report.Outcome,
				report.RetryAt, soonest)
		}
		first := report.Regions[slices.IndexFunc(report.Regions,
			func(r jobs.RegionReport) bool { return r.Err != nil })]
		if !errors.Is(report.Err, first.Err) || report.Err.Error() != first.Err.Error() {
			t.Errorf("%v: reason %v; want that of the first region that was stopped, %v", order, report.Err, first.Err)
		}
	}
}

// TestSecondStopIsNotAFailure: a second stop ends the step until the time that
// the upstream names. Both calls are charged.
func TestSecondStopIsNotAFailure(t *testing.T) {
	for name, fault := range map[string]youtubetest.Fault{
		"slow down": {Status: 429, Reason: "rateLimitExceeded", Times: 2,
			Header: map[string][]string{"Retry-After": {"90"}}},
		"exhausted": {Reason: "quotaExceeded", Times: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, plenty, "[trending, categories]", nil, "US")
			s.transport.Feedback = nil // no cooldown is in the way of the second call
			fault.Method = "videos.list"
			s.upstream.Fail(fault)
			report := s.run(t, t.Context())
			upstream, ok := errors.AsType[*jobs.UpstreamError](report.Err)
			if report.Outcome != jobs.Stopped || !ok || !errors.Is(report.Err, quota.ErrRefused) {
				t.Fatalf("%s: %v; want stopped by the upstream", report.Outcome, report.Err)
			}
			if answer, ok := errors.AsType[*youtube.APIError](report.Err); !ok || answer.Method != "videos.list" ||
				report.Err.Error() != answer.Error() {
				t.Errorf("%v; want what the upstream answered", report.Err)
			}
			if name == "slow down" &&
				(!report.RetryAt.Equal(noon.Add(90*time.Second)) || !upstream.RetryAt.Equal(report.RetryAt)) {
				t.Errorf("retry at %s; want in the 90 s that the upstream asks for", report.RetryAt)
			}
			if calls := len(s.upstream.Arrivals()); calls != 3 || s.agree(t) != 3 {
				t.Errorf("%d calls and %d units; want two of the chart, and the categories", calls, s.agree(t))
			}
		})
	}
}

// TestOneStopIsRetried: a single stop costs one call, and the pass completes.
func TestOneStopIsRetried(t *testing.T) {
	s := newScene(t, plenty, "[trending]", nil, "US")
	s.transport.Feedback = nil
	s.upstream.Fail(youtubetest.Fault{Status: 429, Reason: "rateLimitExceeded"})
	if report := s.run(t, t.Context()); report.Outcome != jobs.Complete || s.agree(t) != 5 ||
		report.Regions[0].Videos != 200 {
		t.Errorf("%s (%v) with %d units; want complete with one call too many", report.Outcome, report.Err, s.agree(t))
	}
}

// TestNotModifiedWithoutETagFails: the catalogue has no page to commit instead.
func TestNotModifiedWithoutETagFails(t *testing.T) {
	s := newScene(t, plenty, "[trending]", nil, "US")
	s.upstream.Fail(youtubetest.Fault{Status: 304, Body: " "})
	if report := s.run(t, t.Context()); report.Outcome != jobs.Failed || report.Regions[0].Videos != 0 {
		t.Errorf("%s (%v) with %d videos; want failed without a page", report.Outcome, report.Err,
			report.Regions[0].Videos)
	}
	if report := s.run(t, t.Context()); report.Outcome != jobs.Complete || report.Regions[0].Videos != 200 {
		t.Errorf("the next run: %s (%v) with %d videos; want the whole chart", report.Outcome, report.Err,
			report.Regions[0].Videos)
	}
}

// TestNoQuotaStopsItsMethodInAllRegions: a run calls a method whose bucket has
// limit 0 once, and continues with other methods.
func TestNoQuotaStopsItsMethodInAllRegions(t *testing.T) {
	s := newScene(t, plenty, "[{search: {queries: [music, goal]}}, categories]", nil, "US", "GB")
	s.Parallel = 1
	s.upstream.Fail(youtubetest.Fault{Method: "search.list", Times: -1, Status: 429,
		Body: `{"error":{"code":429,"message":"Quota exceeded","errors":[{"reason":"rateLimitExceeded"}],` +
			`"details":[{"metadata":{"quota_limit":"defaultSearchListPerDayPerProject","quota_unit":"1/d/{project}",` +
			`"quota_metric":"youtube.googleapis.com/search_list","quota_limit_value":"0"}}]}}`})
	report := s.run(t, t.Context())
	for _, region := range report.Regions {
		no, ok := errors.AsType[*jobs.NoQuotaError](region.Err)
		if region.Outcome != jobs.Failed || !ok || !errors.Is(region.Err, jobs.ErrNoQuota) ||
			no.Method != "search.list" || no.Bucket == "" {
			t.Errorf("%s: %s: %v; want failed for want of quota for search.list", region.Region, region.Outcome,
				region.Err)
		}
		progress, err := s.Catalog.Pass(t.Context(), region.Region, region.Tick)
		if _, done := progress.Steps["categories"]; err != nil || !done || len(progress.Steps) != 1 {
			t.Errorf("%s: %+v, %v; want the categories, and no page of a search", region.Region, progress.Steps, err)
		}
	}
	if units := s.agree(t); units != 102 {
		t.Errorf("%d units; want one search, and both lists of categories", units)
	}
}

// downFor is a ledger that is down for one method.
type downFor struct {
	quota.Ledger
	method string
}

func (l downFor) RealTime() bool { return engine.RealTime(l.Ledger) }

func (l downFor) Append(ctx context.Context, account string, a *quota.Append) (*quota.Tail, error) {
	if bytes.Contains(a.Data, []byte(l.method)) {
		return nil, quota.ErrLedgerDown
	}
	return l.Ledger.Append(ctx, account, a)
}

// TestPassFailsAfterOtherStepsWhenLedgerIsDown: when the ledger is down for one
// step, the later steps are fetched and the pass is reported as failed.
func TestPassFailsAfterOtherStepsWhenLedgerIsDown(t *testing.T) {
	s := newScene(t, plenty, "[{search: {queries: [music]}}, trending]", nil, "US")
	guard, err := quota.NewGuard(downFor{s.ledger, "search.list"}, s.budgets, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.transport.Guard = guard
	report := s.run(t, t.Context())
	if report.Outcome != jobs.Failed || !errors.Is(report.Err, quota.ErrLedgerDown) || len(s.pages()) != 4 {
		t.Errorf("%s (%v) with %d chart pages; want failed by the ledger, with the whole chart", report.Outcome,
			report.Err, len(s.pages()))
	}
	if !report.RetryAt.IsZero() {
		t.Errorf("retry at %s; want the zero time", report.RetryAt)
	}
}

// TestFailureTakesPrecedenceOverRefusal: whichever of the two came first.
func TestFailureTakesPrecedenceOverRefusal(t *testing.T) {
	for fetch, want := range map[string]string{
		"[{search: {queries: [music, goal]}}, trending]": "500", // refused, and then it failed
		"[trending, {search: {queries: [music, goal]}}]": "500", // it fails before the search is refused
	} {
		s := newScene(t, plenty+"  - {name: searches, limit: 100, window: 24h, methods: [search.list]}\n", fetch, nil,
			"US")
		s.upstream.Fail(youtubetest.Fault{Method: "videos.list", Status: 500})
		report := s.run(t, t.Context())
		if report.Outcome != jobs.Failed || !strings.Contains(report.Err.Error(), want) {
			t.Errorf("%s: %s: %v; want the failure", fetch, report.Outcome, report.Err)
		}
	}
}

// TestRanksContinueAcrossPages: chart positions are those of the upstream.
func TestRanksContinueAcrossPages(t *testing.T) {
	data := youtubetest.DefaultData()
	s := newScene(t, plenty, "[trending, {search: {queries: [music]}}]", &youtubetest.Options{Data: data}, "CA")
	for range 2 { // once as new pages, and once as pages that have not changed
		if report := s.run(t, t.Context()); report.Outcome != jobs.Complete {
			t.Fatal(report.Err)
		}
		ranks := map[string]int{}
		for i, v := range data.Chart("CA") {
			ranks[v.ID] = i + 1
		}
		found := 0
		for _, word := range []string{"the", "part", "de", "official", "music"} {
			hits, err := s.Catalog.Search(t.Context(), catalog.Query{Text: word, Region: "CA", Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			for _, hit := range hits {
				for _, chart := range hit.Charts {
					if found++; chart.Last != ranks[hit.ID] {
						t.Errorf("%s has rank %d; want %d", hit.ID, chart.Last, ranks[hit.ID])
					}
				}
			}
		}
		if n := s.rows(t, "positions"); n != len(ranks) || found == 0 {
			t.Errorf("%d positions, %d looked at; want the %d of the chart", n, found, len(ranks))
		}
		s.Again = true
	}
}

// TestEveryCallNamesItsCaller checks the lane, job and region of each call.
func TestEveryCallNamesItsCaller(t *testing.T) {
	s := newScene(t, plenty, "[{trending: {pages: 1}}, {search: {queries: [music]}}, categories]", nil, "US", "IN")
	var mu sync.Mutex
	got := map[quota.Caller]string{}
	s.transport.Charged = func(call quota.Call, _ int, _ quota.Units) {
		mu.Lock()
		defer mu.Unlock()
		got[call.Caller] = call.Method
	}
	s.run(t, t.Context())
	for _, region := range []string{"US", "IN"} {
		for job, method := range map[string]string{"trending": "videos.list", "search:music": "search.list",
			"categories": "videoCategories.list"} {
			if caller := (quota.Caller{Lane: jobs.Lane, Job: job, Region: region}); got[caller] != method {
				t.Errorf("%+v was charged for %q; want %s; of %v", caller, got[caller], method, got)
			}
		}
	}
}

// TestProgressCountsPagesOfAllSteps: Progress includes the pages of earlier
// runs, and finally the outcome.
func TestProgressCountsPagesOfAllSteps(t *testing.T) {
	s := newScene(t, plenty+"  - {name: charts, limit: 3, window: 1m, methods: [videos.list]}\n",
		"[{trending: {pages: 4}}, categories]", nil, "US")
	var got []jobs.Progress
	s.Progress = func(p jobs.Progress) { got = append(got, p) }
	s.run(t, t.Context())
	s.clock.Add(2 * time.Minute)
	s.run(t, t.Context())
	page := func(step string, pages int) jobs.Progress {
		return jobs.Progress{Region: "US", Step: step, Pages: pages, Outcome: jobs.Complete}
	}
	end := func(pages int, outcome jobs.Outcome) jobs.Progress {
		return jobs.Progress{Region: "US", Pages: pages, Done: true, Outcome: outcome}
	}
	want := []jobs.Progress{page("trending", 1), page("trending", 2), page("trending", 3), page("categories", 4),
		end(4, jobs.Stopped),
		page("trending", 5), end(5, jobs.Complete)}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestScheduleWithoutTicksFails(t *testing.T) {
	s := newScene(t, plenty, "[trending]", nil, "US")
	s.regions[0].Schedule = jobs.Schedule{}
	report := s.run(t, t.Context())
	if report.Outcome != jobs.Failed || !strings.Contains(report.Err.Error(), "has had no tick in five years") ||
		s.agree(t) != 0 {
		t.Errorf("%s: %v; want failed without a call", report.Outcome, report.Err)
	}
}

// TestChannelsStepStopsAtItsPageLimit: a full page is followed by another one
// up to the step's limit; a partial page is the last.
func TestChannelsStepStopsAtItsPageLimit(t *testing.T) {
	for _, c := range []struct{ channels, pages, calls, committed int }{{0, 4, 0, 1}, {49, 4, 1, 1}, {50, 4, 1, 2},
		{51, 4, 2, 2}, {120, 2, 2, 2}, {120, 4, 3, 3}} {
		s := newScene(t, plenty, "[{channels: {pages: 4}}]", nil, "US")
		s.regions[0].Steps[0].Pages = c.pages
		page := catalog.Page{Region: "US", Tick: noon, Step: "trending"}
		for i := range c.channels {
			id := string(rune('A'+i%26)) + string(rune('a'+i/26))
			page.Videos = append(page.Videos, catalog.Video{ID: "v" + id, ChannelID: "UC" + id})
		}
		if err := s.Catalog.Commit(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		if report := s.run(t, t.Context()); report.Outcome != jobs.Complete || s.agree(t) != quota.Units(c.calls) {
			t.Errorf("%d channels, %d pages: %s (%v) with %d calls; want %d", c.channels, c.pages, report.Outcome,
				report.Err, s.agree(t), c.calls)
		}
		progress, err := s.Catalog.Pass(t.Context(), "US", s.regions[0].Schedule.Tick(noon))
		if step := progress.Steps["channels"]; err != nil || step.Pages != c.committed || !step.Done {
			t.Errorf("%d channels, %d pages: checkpoint %+v, %v; want %d pages, done", c.channels, c.pages, step, err,
				c.committed)
		}
	}
}

// TestMissingChannelsAreRequestedOnce: channels that do not exist are not
// requested again by the next page.
func TestMissingChannelsAreRequestedOnce(t *testing.T) {
	s := newScene(t, plenty, "[channels]", nil, "US")
	page := catalog.Page{Region: "US", Tick: noon, Step: "trending",
		Videos: []catalog.Video{{ID: "a", ChannelID: "UC1"}}}
	if err := s.Catalog.Commit(t.Context(), page); err != nil {
		t.Fatal(err)
	}
	s.upstream.Fail(youtubetest.Fault{Status: 404, Reason: "channelNotFound", Times: -1})
	if report := s.run(t, t.Context()); report.Outcome != jobs.Complete || s.agree(t) != 1 {
		t.Errorf("%s (%v) after %d calls; want complete after one", report.Outcome, report.Err, s.agree(t))
	}
}

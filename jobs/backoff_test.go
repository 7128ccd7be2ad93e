package jobs_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
)

const ticks = 24 * 12 // of cron, every five minutes, in a day

// cronDay runs as cron does, every five minutes of a day.
func (s *scene) cronDay(t *testing.T) {
	for range ticks {
		report := s.run(t, t.Context())
		for _, region := range report.Regions {
			if region.Outcome == jobs.Complete {
				t.Fatalf("%s is complete; want it to fail", region.Region)
			}
		}
		s.clock.Add(5 * time.Minute)
	}
}

func (s *scene) calls(method string) (calls int) {
	for _, a := range s.upstream.Arrivals() {
		if a.Method == method {
			calls++
		}
	}
	return calls
}

// TestAFailingSearchLeavesTheDay: while search answers with 500, with HTML or
// with redirects to itself, or while no video can be stored, a day of cron
// makes at most 13 attempts at a search, over all regions and queries.
func TestAFailingSearchLeavesTheDay(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of calls, 7 seconds")
	}
	loop := http.Header{"Location": {"/youtube/v3/search?part=snippet&type=video&q=again"}}
	for name, c := range map[string]struct {
		fault youtubetest.Fault
		calls int // for one attempt
	}{
		"500":       {youtubetest.Fault{Status: 500}, 2},
		"HTML":      {youtubetest.Fault{Body: "<html>sorry</html>"}, 1},
		"redirects": {youtubetest.Fault{Status: 302, Header: loop}, 2},
		"no commit": {youtubetest.Fault{Region: "none"}, 1},
	} {
		for _, regions := range [][]string{{"US"}, {"US", "GB", "DE", "FR", "IN"}} {
			t.Run(name+" "+strings.Join(regions, " "), func(t *testing.T) {
				s := newScene(t, "  - {name: all, limit: 95000, window: 48h}\n", "[{search: {queries: [music, goal]}}]",
					&youtubetest.Options{Limit: 95000}, regions...)
				s.Parallel, s.transport.Retries, s.transport.MaxWait = 0, 1, time.Second
				c.fault.Method, c.fault.Times = "search.list", -1
				s.upstream.Fail(c.fault)
				if name == "no commit" {
					execSQL(t, s.path,
						"CREATE TRIGGER full BEFORE INSERT ON videos BEGIN SELECT RAISE(ABORT, 'no room'); END")
				}
				s.cronDay(t)
				calls, units := s.calls("search.list"), s.agree(t)
				t.Logf("%d searches, %d units", calls, units)
				if calls == 0 || calls > 13*c.calls || units > quota.Units(1300*c.calls) {
					t.Errorf("%d searches, %d units in a day; want at most %d", calls, units, 13*c.calls)
				}
			})
		}
	}
}

func execSQL(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// TestStepThatFailsWaits: a step that failed twice is stopped until its time,
// and costs nothing; other steps go on, --again tries it, and a success
// resets it.
func TestStepThatFailsWaits(t *testing.T) {
	s := newScene(t, plenty, "[{search: {queries: [music]}}, trending]", nil, "US")
	s.upstream.Fail(youtubetest.Fault{Method: "search.list", Status: 500, Times: 3})
	for range 2 {
		if report := s.run(t, t.Context()); report.Outcome != jobs.Failed {
			t.Fatalf("%s: %v; want failed", report.Outcome, report.Err)
		}
	}
	report := s.run(t, t.Context())
	waits, ok := errors.AsType[*jobs.BackoffError](report.Err)
	if !ok || report.Outcome != jobs.Stopped || waits.Name != "search:music" || waits.Failures != 2 ||
		!report.RetryAt.Equal(noon.Add(5*time.Minute)) {
		t.Fatalf("%s until %s: %v; want stopped for five minutes", report.Outcome, report.RetryAt, report.Err)
	}
	if !strings.Contains(waits.Error(), "500") || !strings.Contains(waits.Error(), "--again") {
		t.Errorf("%v; want the last failure and what to do", waits)
	}
	if s.calls("search.list") != 2 || s.calls("videos.list") != 4 {
		t.Errorf("%d searches, %d chart pages; want two and four", s.calls("search.list"), s.calls("videos.list"))
	}
	s.Again = true
	if report := s.run(t, t.Context()); report.Outcome != jobs.Failed || s.calls("search.list") != 3 {
		t.Errorf("--again: %s with %d searches; want a third that fails", report.Outcome, s.calls("search.list"))
	}
	s.Again = false
	s.clock.Add(10 * time.Minute)
	if report := s.run(t, t.Context()); report.Outcome != jobs.Complete {
		t.Errorf("%s: %v; want complete", report.Outcome, report.Err)
	}
	if left, err := s.Catalog.Failures(t.Context()); len(left) != 0 || err != nil {
		t.Errorf("%+v, %v; want no failures left", left, err)
	}
}

// TestStoppedSearchesLeaveTheDay: a search that gets no answer was paid for by
// each run that was told to end meanwhile, as by timeout(1).
func TestStoppedSearchesLeaveTheDay(t *testing.T) {
	s := newScene(t, plenty, "[{search: {queries: [music]}}]", nil, "US")
	s.Grace = time.Millisecond
	s.upstream.Fail(youtubetest.Fault{Method: "search.list", Delay: -1, Times: -1})
	why := errors.New("stopped by the test")
	for n := range 4 {
		ctx, cancel := context.WithCancelCause(t.Context())
		arrived := s.calls("search.list")
		go func() {
			for ctx.Err() == nil && s.calls("search.list") == arrived {
				runtime.Gosched()
			}
			cancel(why)
		}()
		report := s.run(t, ctx)
		cancel(nil)
		if stopped := errors.Is(report.Err, why); report.Outcome != jobs.Stopped || stopped != (n < 2) {
			t.Fatalf("run %d: %s, %v; want two that are stopped while they wait for the answer, then none that is "+
				"tried", n, report.Outcome, report.Err)
		}
	}
	if calls := s.calls("search.list"); calls != 2 {
		t.Errorf("%d searches; want 2", calls)
	}
}

// TestOneBadQueryWaitsAlone: a query that keeps failing waits alone.
func TestOneBadQueryWaitsAlone(t *testing.T) {
	s := newScene(t, plenty, "[{search: {queries: [music]}}]", nil, "US", "GB", "DE")
	s.Parallel = 1
	s.upstream.Fail(youtubetest.Fault{Method: "search.list", Region: "US", Status: 500, Times: -1})
	for range 24 {
		s.run(t, t.Context())
		s.clock.Add(time.Hour)
	}
	for _, region := range []string{"GB", "DE"} {
		progress, err := s.Catalog.Pass(t.Context(), region, s.regions[0].Schedule.Tick(s.clock.Now()))
		if err != nil || progress.FinishedAt.IsZero() {
			t.Errorf("%s is not fetched (%v); want its pass finished", region, err)
		}
	}
}

// TestARefusalIsNoFailure: what the guard refuses does not make a
// step wait.
func TestARefusalIsNoFailure(t *testing.T) {
	s := newScene(t, "  - {name: all, limit: 150, window: 24h}\n", "[{search: {queries: [music, goal]}}]", nil, "US")
	for range 3 {
		report := s.run(t, t.Context())
		if _, refused := errors.AsType[*quota.RefusedError](report.Err); !refused {
			t.Fatalf("%s: %v; want the budget's refusal", report.Outcome, report.Err)
		}
	}
	if left, err := s.Catalog.Failures(t.Context()); len(left) != 0 || err != nil {
		t.Errorf("%+v, %v; want no failures", left, err)
	}
}

// TestARegionWithoutNewChannelsResetsNoMethod: a channels step that finds no
// channel makes no call. It ended the failures of channels.list, so that the
// other regions went on paying for calls that fail.
func TestARegionWithoutNewChannelsResetsNoMethod(t *testing.T) {
	regions := []string{"US", "GB", "DE", "FR", "IN", "BR"}
	s := newScene(t, plenty, "[channels]", nil, regions...)
	s.Parallel = 1
	schedule, err := jobs.ParseSchedule("*/5 * * * *", time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	for i, region := range regions {
		s.regions[i].Schedule = schedule
		if region == "BR" { // it has seen no video yet
			continue
		}
		page := catalog.Page{Region: region, Tick: noon.Add(-time.Hour), Step: "trending",
			Videos: []catalog.Video{{ID: region, ChannelID: "UC" + region}}}
		if err := s.Catalog.Commit(t.Context(), page); err != nil {
			t.Fatal(err)
		}
	}
	s.upstream.Fail(youtubetest.Fault{Method: "channels.list", Status: 500, Times: -1})
	last := len(s.regions) - 1
	for range ticks { // as serve does, whose jitter lets any region be the first
		for _, some := range [][]jobs.Region{s.regions[last:], s.regions[:last]} {
			if _, err := s.Run(t.Context(), some); err != nil {
				t.Fatal(err)
			}
		}
		s.clock.Add(5 * time.Minute)
	}
	if calls := s.calls("channels.list"); calls == 0 || calls > 13 {
		t.Errorf("%d calls of channels.list in a day; want at most 13", calls)
	}
}

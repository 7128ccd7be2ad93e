package youtubetest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// getDirect sends a GET to a Server without a network.
func getDirect(upstream *youtubetest.Server, path string) (int, string) {
	rec := httptest.NewRecorder()
	upstream.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return rec.Code, rec.Body.String()
}

const (
	aChart    = "/youtube/v3/videos?key=k&part=id&chart=mostPopular&maxResults=1"
	aSearch   = "/youtube/v3/search?key=k&part=id&q=music&maxResults=1"
	defaultBk = youtubetest.DefaultBucket
	searchBk  = youtubetest.SearchBucket
)

// Each kind of request has its cost in both models, and its answer.
func TestEveryRequestHasItsCost(t *testing.T) {
	fiftyOne := strings.TrimSuffix(strings.Repeat("abcdefghijk,", 51), ",")
	for _, c := range []struct {
		path         string
		status       int
		reason       string
		legacy, new_ int64
	}{
		{aChart, 200, "", 1, 1},
		{aChart + "&pageToken=CMgBEAA", 200, "", 1, 1}, // beyond the end
		{aChart + "&regionCode=de", 200, "", 1, 1},
		{aSearch, 200, "", 100, 1},
		{"/youtube/v3/%73earch?key=k&part=id&q=a", 200, "", 100, 1},
		{"/youtube/v3/search?key=k&part=id&type=video&videoCategoryId=10&maxResults=0", 200, "", 100, 1},
		{"/youtube/v3/channels?key=k&part=id&id=UCnobody", 200, "", 1, 1},
		{"/youtube/v3/videoCategories?key=k&part=snippet&regionCode=IN", 200, "", 1, 1},
		{"/youtube/v3/i18nRegions?key=k&part=snippet", 200, "", 1, 1},
		// invalid: one unit of the method's bucket
		{aChart + "&regionCode=XX", 400, "invalidRegionCode", 1, 1},
		{aSearch + "&regionCode=XX", 400, "invalidRegionCode", 1, 1},
		{aChart + "&pageToken=CDIQ", 400, "invalidPageToken", 1, 1},
		{aChart + "&videoCategoryId=19", 404, "videoChartNotFound", 1, 1},
		{aChart + "&regionCode=JP", 404, "videoChartNotFound", 1, 1},
		{strings.Replace(aChart, "maxResults=1", "maxResults=51", 1), 400, "invalidParameter", 1, 1},
		{strings.Replace(aChart, "maxResults=1", "maxResults=0", 1), 400, "invalidParameter", 1, 1},
		{aChart + "&id=abcdefghijk", 400, "incompatibleParameters", 1, 1},
		{"/youtube/v3/videos?key=k&part=id&id=" + fiftyOne, 400, "invalidParameter", 1, 1},
		{"/youtube/v3/videos?key=k&part=id", 400, "missingRequiredParameter", 1, 1},
		{"/youtube/v3/videos?key=k&chart=mostPopular", 400, "required", 1, 1},
		{"/youtube/v3/videos?key=k&part=snipet&chart=mostPopular", 400, "unknownPart", 1, 1},
		{"/youtube/v3/channels?key=k&part=id", 400, "missingRequiredParameter", 1, 1},
		{"/youtube/v3/videoCategories?key=k&part=id", 400, "missingRequiredParameter", 1, 1},
		{aSearch + "&videoCategoryId=10", 400, "invalidSearchFilter", 1, 1},
		{aSearch + "&order=best", 400, "invalidParameter", 1, 1},
		{aSearch + "&publishedAfter=yesterday", 400, "invalidParameter", 1, 1},
		// free: the request names no project
		{strings.Replace(aChart, "key=k", "key=", 1), 403, "forbidden", 0, 0},
		{strings.Replace(aSearch, "key=k", "key=other", 1), 400, "badRequest", 0, 0},
		{"/youtube/v3/comments?key=k", 404, "notFound", 0, 0},
		{"/youtube/v3//search?key=k", 404, "notFound", 0, 0},
	} {
		for model, want := range map[youtubetest.Model]int64{youtubetest.Legacy: c.legacy,
			youtubetest.Since2026: c.new_} {
			upstream := youtubetest.New(&youtubetest.Options{Model: model, Keys: []string{"k"}})
			status, body := getDirect(upstream, c.path)
			if status != c.status || !strings.Contains(body, `"reason": "`+c.reason) && c.reason != "" {
				t.Errorf("%s: %d %s", c.path, status, body)
			}
			a := upstream.Arrivals()[0]
			if upstream.Total() != want || a.Units != want || a.Status != c.status || a.Fault {
				t.Errorf("%s: charged %d, %+v; want %d", c.path, upstream.Total(), a, want)
			}
			if strings.Contains(fmt.Sprint(a), "key:") {
				t.Errorf("%s: the key is on record: %+v", c.path, a)
			}
		}
	}
}

// A call is admitted while anything is left and may exceed the limit, unless
// Exact is set.
func TestCallIsAdmittedWhileAnythingIsLeft(t *testing.T) {
	type limits = youtubetest.Options
	for _, c := range []struct {
		name     string
		opts     limits
		before   map[string]int64 // spent elsewhere
		paths    []string
		statuses []int
		used     map[string]int64
	}{
		{
			"legacy overshoots", limits{}, map[string]int64{defaultBk: 9_999},
			[]string{aSearch, aChart, aSearch}, []int{200, 403, 403}, map[string]int64{defaultBk: 10_099},
		},
		{
			"exact", limits{Exact: true}, map[string]int64{defaultBk: 9_901},
			[]string{aSearch, aChart}, []int{403, 200}, map[string]int64{defaultBk: 9_902},
		},
		{
			"searches have their own bucket", limits{Model: youtubetest.Since2026, SearchLimit: 2}, nil,
			[]string{aSearch, aSearch, aSearch, aChart}, []int{200, 200, 429, 200},
			map[string]int64{defaultBk: 1, searchBk: 2},
		},
		{
			"other methods have the default bucket", limits{Model: youtubetest.Since2026, Limit: 1}, nil,
			[]string{aChart, aChart, aSearch}, []int{200, 403, 200}, map[string]int64{defaultBk: 1, searchBk: 1},
		},
		{
			"a 100th search and no more", limits{Model: youtubetest.Since2026}, map[string]int64{searchBk: 99},
			[]string{aSearch, aSearch}, []int{200, 429}, map[string]int64{defaultBk: 0, searchBk: 100},
		},
		{
			"invalid calls are refused too", limits{Limit: 1}, nil,
			[]string{aChart + "&regionCode=XX", aChart + "&regionCode=XX"}, []int{400, 403},
			map[string]int64{defaultBk: 1},
		},
	} {
		c.opts.Now = atNoon
		upstream := youtubetest.New(&c.opts)
		for bucket, units := range c.before {
			upstream.SpendElsewhere(bucket, units)
		}
		for i, path := range c.paths {
			if status, body := getDirect(upstream, path); status != c.statuses[i] {
				t.Errorf("%s: call %d: %d %s", c.name, i, status, body)
			}
			if a := upstream.Arrivals()[i]; c.statuses[i] != 200 && c.statuses[i] != 400 &&
				(a.Units != 0 || a.Bucket != "") {
				t.Errorf("%s: a refused call was charged: %+v", c.name, a)
			}
		}
		if !maps.Equal(upstream.Used(), c.used) {
			t.Errorf("%s: used %v, want %v", c.name, upstream.Used(), c.used)
		}
	}
}

// atNoon is the clock of tests with a limit, so that no day ends during a test.
func atNoon() time.Time { return time.Date(2026, 11, 20, 20, 0, 0, 0, time.UTC) }

func TestLimitChangesWhileRunning(t *testing.T) {
	upstream := youtubetest.New(&youtubetest.Options{Now: atNoon})
	for _, step := range []struct {
		limit  int64
		status int
	}{{0, 403}, {1, 200}, {1, 403}, {2, 200}, {1, 403}} {
		upstream.SetLimit(defaultBk, step.limit)
		if status, _ := getDirect(upstream, aChart); status != step.status {
			t.Errorf("limit %d: %d, want %d", step.limit, status, step.status)
		}
	}
	upstream.SpendElsewhere(defaultBk, -2)
	if used := upstream.Used()[defaultBk]; used != 0 || upstream.Total() != 2 {
		t.Errorf("used %d after returning units, total %d", used, upstream.Total())
	}
	defer func() {
		if recover() == nil {
			t.Error("a bucket of the other model was accepted")
		}
	}()
	upstream.SetLimit(searchBk, 5)
}

// The day ends exactly at midnight in Los Angeles, also on days of 23 and
// 25 hours.
func TestADayEndsAtPacificMidnight(t *testing.T) {
	for _, c := range []struct{ from, to string }{
		{"2026-11-20T08:00:00Z", "2026-11-21T08:00:00Z"},
		{"2026-07-01T07:00:00Z", "2026-07-02T07:00:00Z"},
		{"2026-11-01T07:00:00Z", "2026-11-02T08:00:00Z"}, // 25 hours
		{"2027-03-14T08:00:00Z", "2027-03-15T07:00:00Z"}, // 23 hours
	} {
		from, _ := time.Parse(time.RFC3339, c.from)
		to, _ := time.Parse(time.RFC3339, c.to)
		now := from
		upstream := youtubetest.New(&youtubetest.Options{Limit: 1, Now: func() time.Time { return now }})
		for _, step := range []struct {
			at     time.Time
			status int
		}{
			{from, 200}, {from.Add(time.Hour), 403}, {to.Add(-time.Nanosecond), 403}, {to, 200},
			{to.Add(-time.Nanosecond), 403}, {to.Add(time.Nanosecond), 403}, // a clock that steps back loses no count
			{from.Add(-time.Nanosecond), 200},
		} {
			now = step.at
			if status, _ := getDirect(upstream, aChart); status != step.status {
				t.Errorf("day of %s: %d at %s, want %d", c.from, status, step.at, step.status)
			}
		}
		if now = from; !upstream.Resets().Equal(to) {
			t.Errorf("day of %s resets at %s", c.from, upstream.Resets())
		}
	}
}

func TestShortWindowsAreFixed(t *testing.T) {
	start := time.Date(2026, 11, 20, 12, 0, 0, 500, time.UTC)
	now := start
	upstream := youtubetest.New(&youtubetest.Options{Limit: 1, Window: 10 * time.Second,
		Now: func() time.Time { return now }})
	for _, step := range []struct {
		after  time.Duration
		status int
	}{{9 * time.Second, 200}, {10*time.Second - 1, 403}, {10 * time.Second, 200}, {19 * time.Second, 403}, {-1, 200},
		{-10 * time.Second, 403}} {
		now = start.Add(step.after)
		if status, _ := getDirect(upstream, aChart); status != step.status {
			t.Errorf("%s: %d, want %d", step.after, status, step.status)
		}
	}
	now = start.Add(25 * time.Second)
	if got := upstream.Resets(); !got.Equal(start.Add(30 * time.Second)) {
		t.Errorf("resets at %s", got)
	}
}

// The meter is exact under concurrent requests, and the record complete.
func TestMeterIsExactUnderConcurrency(t *testing.T) {
	upstream := youtubetest.New(&youtubetest.Options{Limit: 1000, Now: atNoon})
	var ok, refused atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 40 {
				path, units := aChart, int64(1)
				if i%4 == 0 {
					path, units = aSearch, 100
				}
				switch status, _ := getDirect(upstream, path); status {
				case 200:
					ok.Add(units)
				case 403:
					refused.Add(1)
				default:
					t.Errorf("status %d", status)
				}
				upstream.Used()
			}
		})
	}
	all.Wait()
	used := upstream.Used()[defaultBk]
	if used != ok.Load() || used != upstream.Total() || used < 1000 || used >= 1100 {
		t.Errorf("used %d, clients were granted %d, record says %d", used, ok.Load(), upstream.Total())
	}
	if n := len(upstream.Arrivals()); n != 320 || refused.Load() == 0 {
		t.Errorf("%d arrivals, %d refused", n, refused.Load())
	}
}

// refusalBody returns the error of an exhausted bucket, on the day of the
// recorded 429.
func refusalBody(bucket, path string) string {
	now := time.Date(2026, 9, 25, 20, 0, 0, 0, time.UTC)
	upstream := youtubetest.New(&youtubetest.Options{Model: youtubetest.Since2026,
		Now: func() time.Time { return now }})
	upstream.SpendElsewhere(bucket, 10_000)
	_, body := getDirect(upstream, path)
	return body
}

// faultBody returns the answer that a fault breaks.
func faultBody(f youtubetest.Fault) string {
	upstream := youtubetest.New(nil)
	upstream.Fail(f)
	_, body := getDirect(upstream, aChart)
	return body
}

// The bodies of refusals and faults equal the recorded ones, if this machine
// has them.
func TestErrorBodiesAreTheRecordedOnes(t *testing.T) {
	_, badKey := getDirect(youtubetest.New(&youtubetest.Options{Keys: []string{"other"}}), aChart)
	_, noChart := getDirect(youtubetest.New(nil), aChart+"&videoCategoryId=29")
	_, badToken := getDirect(youtubetest.New(nil), aChart+"&pageToken=x")
	bodies := map[string]string{
		"yt-403-quotaExceeded-2021":              refusalBody(defaultBk, aChart),
		"yt-403-quotaExceeded-2019-errors-first": faultBody(youtubetest.Fault{Reason: "quotaExceeded"}),
		"yt-429-search-per-day-2026-09-25":       refusalBody(searchBk, aSearch),
		"yt-403-dailyLimitExceeded-2017":         faultBody(youtubetest.Fault{Reason: "dailyLimitExceeded"}),
		"yt-429-per-minute":                      faultBody(youtubetest.Fault{Status: 429}),
		"yt-403-rateLimitExceeded-legacy":        faultBody(youtubetest.Fault{Reason: "rateLimitExceeded"}),
		"yt-403-userRateLimitExceeded-legacy":    faultBody(youtubetest.Fault{Reason: "userRateLimitExceeded"}),
		"yt-400-keyInvalid-2018":                 faultBody(youtubetest.Fault{Reason: "keyInvalid"}),
		"yt-400-API_KEY_INVALID":                 badKey,
		"yt-403-referer-blocked":                 faultBody(youtubetest.Fault{Status: 403}),
		"yt-503-backendError-2020":               faultBody(youtubetest.Fault{Status: 503}),
		"yt-500-backendError":                    faultBody(youtubetest.Fault{Status: 500}),
		"yt-404-videoChartNotFound":              noChart,
		"yt-400-invalidPageToken":                badToken,
	}
	file, err := os.ReadFile(dataFile("errors.ndjson"))
	if err != nil {
		t.Logf("no recorded errors on this machine (%v): the bodies are not compared with them", err)
	}
	recorded := 0
	for line := range strings.Lines(string(file)) {
		var want struct{ ID, Body string }
		if err := json.Unmarshal([]byte(line), &want); err != nil {
			t.Fatal(err)
		}
		if got, have := bodies[want.ID]; have {
			recorded++
			if !reflect.DeepEqual(plain(t, got), plain(t, want.Body)) {
				t.Errorf("%s:\n got %s\nwant %s", want.ID, got, want.Body)
			}
		}
	}
	if err == nil && recorded != len(bodies) {
		t.Errorf("%d of %d bodies are on record", recorded, len(bodies))
	}
	if body := refusalBody(searchBk, aSearch); !strings.Contains(body, `"window_start_time": "1790319600"`) ||
		!strings.Contains(body, `"RESOURCE_EXHAUSTED"`) {
		t.Error(body)
	}
}

// plain decodes a body, without the project's number and without the location
// of an invalid parameter, which only newer answers have.
func plain(t *testing.T, body string) (v map[string]any) {
	t.Helper()
	for _, number := range []string{"123456789012", "994147049083", "911313852664", "projects/1", "project_number:1"} {
		body = strings.ReplaceAll(body, number, strings.TrimRight(number, "0123456789")+"N")
	}
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, one := range v["error"].(map[string]any)["errors"].([]any) {
		delete(one.(map[string]any), "location")
		delete(one.(map[string]any), "locationType")
	}
	return v
}

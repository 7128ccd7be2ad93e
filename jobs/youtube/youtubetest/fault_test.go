package youtubetest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/api/googleapi"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// A fault chooses requests by method, region, position and count.
func TestAFaultHitsTheRequestsThatItChooses(t *testing.T) {
	inUS, inDE := aChart+"&regionCode=US", aChart+"&regionCode=DE"
	for _, c := range []struct {
		name   string
		faults []youtubetest.Fault
		paths  []string
		want   []int
	}{
		{"once", []youtubetest.Fault{{Status: 503}}, []string{inUS, inUS}, []int{503, 200}},
		{"the third search", []youtubetest.Fault{{Method: "search.list", Skip: 2, Status: 503}},
			[]string{aSearch, inUS, aSearch, aSearch, aSearch}, []int{200, 200, 200, 503, 200}},
		{"twice in one region", []youtubetest.Fault{{Region: "DE", Times: 2, Status: 500}},
			[]string{inUS, inDE, inDE, inDE}, []int{200, 500, 500, 200}},
		{"every other one for good", []youtubetest.Fault{{Every: 2, Times: -1, Status: 502}},
			[]string{inUS, inUS, inUS, inUS}, []int{502, 200, 502, 200}},
		{"one after the other", []youtubetest.Fault{{Status: 500}, {Status: 503}}, []string{inUS, inUS, inUS},
			[]int{500, 503, 200}},
		{"unknown paths too", []youtubetest.Fault{{Status: 503}}, []string{"/else?key=k", "/else?key=k"},
			[]int{503, 404}},
	} {
		upstream := youtubetest.New(nil)
		upstream.Fail(c.faults...)
		var got []int
		for _, path := range c.paths {
			status, _ := getDirect(upstream, path)
			got = append(got, status)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	upstream := youtubetest.New(nil)
	upstream.Fail(youtubetest.Fault{Times: -1, Status: 503})
	upstream.ClearFaults()
	if status, _ := getDirect(upstream, aChart); status != 200 {
		t.Errorf("after ClearFaults: %d", status)
	}
}

// A fault replaces the status, the body and header fields.
func TestAFaultReplacesTheAnswer(t *testing.T) {
	for _, c := range []struct {
		fault  youtubetest.Fault
		status int
		body   string // part of it
		kind   string // its Content-Type
	}{
		{youtubetest.Fault{Status: 429, Header: http.Header{"Retry-After": {"60", "120"}}}, 429, "per minute",
			"application/json; charset=UTF-8"},
		{youtubetest.Fault{Status: 502, Body: "<html>Bad Gateway</html>"}, 502, "<html>Bad Gateway</html>",
			"text/html; charset=UTF-8"},
		{youtubetest.Fault{Body: `{"items":[`}, 200, `{"items":[`, "application/json; charset=UTF-8"},
		{youtubetest.Fault{Status: 200, Reason: "quotaExceeded"}, 200, `"code": 403`,
			"application/json; charset=UTF-8"},
		{youtubetest.Fault{Status: 410, Body: `{"error":{"code":503}}`}, 410, "503", "application/json; charset=UTF-8"},
		{youtubetest.Fault{Status: 302, Header: http.Header{"Location": {"/elsewhere"}}}, 302, "",
			"application/json; charset=UTF-8"},
		{youtubetest.Fault{Status: 204}, 204, "", "application/json; charset=UTF-8"},
		{youtubetest.Fault{Header: http.Header{"Retry-After": {"NaN"}}}, 200, "youtube#video",
			"application/json; charset=UTF-8"},
		{youtubetest.Fault{Reason: "accessNotConfigured"}, 403, "then retry", "application/json; charset=UTF-8"},
		{youtubetest.Fault{Status: 401}, 401, "authError", "application/json; charset=UTF-8"},
		{youtubetest.Fault{Status: 400, Reason: "oddReason"}, 400, "oddReason", "application/json; charset=UTF-8"},
	} {
		upstream, _, srv := start(t, nil)
		srv.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		upstream.Fail(c.fault)
		status, header, body := get(t, srv, aChart)
		if status != c.status || !strings.Contains(body, c.body) || (c.body == "") != (body == "") ||
			header.Get("Content-Type") != c.kind {
			t.Errorf("%+v: %d %q %s", c.fault, status, header, body)
		}
		for name, lines := range c.fault.Header {
			if !slices.Equal(header[name], lines) {
				t.Errorf("%+v: %s: %q", c.fault, name, header[name])
			}
		}
		if a := upstream.Arrivals()[0]; a.Status != c.status || a.Units != 1 || !a.Fault {
			t.Errorf("%+v: recorded as %+v", c.fault, a)
		}
	}
}

// A faulty answer is charged unless Free is set, and an exhausted quota still
// refuses it.
func TestFaultsAreMetered(t *testing.T) {
	upstream := youtubetest.New(&youtubetest.Options{Limit: 100, Now: atNoon})
	upstream.Fail(
		youtubetest.Fault{Method: "search.list", Status: 500, Free: true},
		youtubetest.Fault{Method: "search.list", Status: 500},
		youtubetest.Fault{Method: "videos.list", Header: http.Header{"X-Extra": {"1"}}},
		youtubetest.Fault{Method: "videos.list", Status: 503},
	)
	for i, want := range []struct {
		path   string
		status int
		units  int64
	}{{aSearch, 500, 0}, {aSearch, 500, 100}, {aChart, 403, 0}, {aChart, 503, 0}} {
		status, _ := getDirect(upstream, want.path)
		if a := upstream.Arrivals()[i]; status != want.status || a.Units != want.units || a.Status != want.status {
			t.Errorf("call %d: %d, %+v", i, status, a)
		}
	}
}

// A dropped connection is an error for the client or, if net/http resends the
// request itself, two arrivals, both charged.
func TestADroppedConnectionIsAnErrorAndCharged(t *testing.T) {
	upstream, svc, _ := start(t, nil)
	upstream.Fail(youtubetest.Fault{Delivery: youtubetest.Dropped})
	list := svc.Search.List([]string{"id"}).Q("music")
	if _, err := list.Do(); err == nil {
		t.Error("a new connection, dropped: no error")
	}
	if a := upstream.Arrivals(); len(a) != 1 || a[0].Status != 0 || a[0].Units != 100 {
		t.Errorf("%+v", a)
	}
	if _, err := list.Do(); err != nil { // leaves a connection to reuse
		t.Fatal(err)
	}
	upstream.Fail(youtubetest.Fault{Delivery: youtubetest.Dropped})
	if _, err := list.Do(); err != nil {
		t.Errorf("a reused connection, dropped: %v", err)
	}
	if n, total := len(upstream.Arrivals()), upstream.Total(); n != 4 || total != 400 {
		t.Errorf("%d arrivals, %d units for three calls", n, total)
	}
}

// Half an answer is an error of the connection, or broken JSON in a
// complete answer.
func TestHalfAnAnswerIsAnError(t *testing.T) {
	var syntax *json.SyntaxError
	for delivery, want := range map[youtubetest.Delivery]func(error) bool{
		youtubetest.CutShort: func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) },
		youtubetest.Halved: func(err error) bool {
			return errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF)
		},
	} {
		upstream, svc, srv := start(t, nil)
		upstream.Fail(youtubetest.Fault{Method: "videos.list", Delivery: delivery, Times: 2})
		if _, err := svc.Videos.List([]string{"snippet"}).Chart("mostPopular").MaxResults(50).Do(); !want(err) {
			t.Errorf("delivery %d: %v", delivery, err)
		}
		res, err := srv.Client().Get(srv.URL + aChart)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if len(body) == 0 || json.Valid(body) || (err == nil) != (delivery == youtubetest.Halved) {
			t.Errorf("delivery %d: %d bytes, %v", delivery, len(body), err)
		}
		if upstream.Total() != 2 {
			t.Errorf("delivery %d: %d units", delivery, upstream.Total())
		}
	}
}

// An upstream that hangs before or during its answer charges for it; the
// client's deadline ends the wait.
func TestHangingUpstreamCharges(t *testing.T) {
	for _, f := range []youtubetest.Fault{{Delay: -1}, {Delay: time.Hour}, {Delivery: youtubetest.Stalled}} {
		arrived := make(chan struct{}, 4)
		upstream, _, srv := start(t, &youtubetest.Options{Now: func() time.Time {
			arrived <- struct{}{} // once when the server is made, then once per request
			return time.Now()
		}})
		<-arrived
		upstream.Fail(f)
		ctx, leave := context.WithCancelCause(t.Context())
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+aChart, nil)
		gone := errors.New("left")
		if f.Delivery == youtubetest.Stalled {
			res, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			first, err := bufio.NewReader(res.Body).ReadString('{')
			leave(gone)
			_, err2 := io.ReadAll(res.Body)
			if first != "{" || err != nil || !errors.Is(err2, gone) {
				t.Errorf("%+v: %q, %v, %v", f, first, err, err2)
			}
			_ = res.Body.Close()
		} else {
			result := make(chan error)
			go func() {
				_, err := srv.Client().Do(req) //nolint:bodyclose // there is no response
				result <- err
			}()
			<-arrived
			leave(gone)
			if err := <-result; !errors.Is(err, gone) {
				t.Errorf("%+v: %v", f, err)
			}
		}
		if a := upstream.Arrivals()[0]; a.Units != 1 {
			t.Errorf("%+v: %+v", f, a)
		}
		srv.Close() // returns only when the handler has returned
	}
}

// Latency and delays pass in real time, after the charge.
func TestLatencyPassesAfterTheCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := youtubetest.New(&youtubetest.Options{Latency: 80 * time.Millisecond})
		upstream.Fail(youtubetest.Fault{Delay: time.Second})
		begin := time.Now()
		getDirect(upstream, aChart)
		getDirect(upstream, aChart)
		if took := time.Since(begin); took != 1160*time.Millisecond {
			t.Errorf("took %s", took)
		}
		if a := upstream.Arrivals(); !a[0].At.Equal(begin) || a[1].At.Sub(begin) != 1080*time.Millisecond {
			t.Errorf("arrived at %s and %s, began %s", a[0].At, a[1].At, begin)
		}
	})
}

// Google's client decodes errors like real ones, with the server's time.
func TestGooglesClientDecodesTheErrors(t *testing.T) {
	now := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	upstream, svc, srv := start(t, &youtubetest.Options{Keys: []string{"good"}, Model: youtubetest.Since2026,
		SearchLimit: 1, Now: func() time.Time { return now }})
	list := svc.Search.List([]string{"id"}).Q("music")
	if _, err := list.Do(); err != nil {
		t.Fatal(err)
	}
	_, err := list.Do()
	no := apiError(t, err)
	if no.Code != 429 || no.Errors[0].Reason != "rateLimitExceeded" || len(no.Details) != 1 ||
		no.Header.Get("Date") != "Mon, 03 Feb 2031 04:05:06 GMT" {
		t.Errorf("%+v", no)
	}
	details := no.Details[0].(map[string]any)["metadata"].(map[string]any)
	if details["quota_limit"] != "defaultSearchListPerDayPerProject" || details["quota_limit_value"] != "1" ||
		no.Header.Get("Retry-After") != "" {
		t.Errorf("%v, Retry-After %q", details, no.Header.Get("Retry-After"))
	}
	_, err = svc.Videos.List([]string{"id"}).Chart("mostPopular").Do(googleapi.QueryParameter("key", "bad"))
	if no := apiError(t, err); no.Code != 400 || !strings.Contains(no.Body, "API_KEY_INVALID") {
		t.Errorf("%+v", no)
	}
	if status, _, _ := get(t, srv, strings.Replace(aChart, "key=k&", "", 1)); status != 403 {
		t.Errorf("no key at all: %d", status)
	}
	var in []string
	for _, a := range upstream.Arrivals() {
		in = append(in, a.KeyIn)
		if a.Query.Has("key") || !a.At.Equal(now) {
			t.Errorf("%+v", a)
		}
	}
	if !slices.Equal(in, []string{"header", "header", "query", ""}) {
		t.Errorf("keys in %q", in)
	}
}

// Changes that callers make to the arrivals do not change the server's record.
func TestArrivalsAreCopies(t *testing.T) {
	upstream := youtubetest.New(nil)
	getDirect(upstream, aChart+"&regionCode=br")
	upstream.Arrivals()[0].Query.Set("chart", "none")
	upstream.Arrivals()[0].Units = 7
	want := url.Values{"part": {"id"}, "chart": {"mostPopular"}, "maxResults": {"1"}, "regionCode": {"br"}}
	if a := upstream.Arrivals()[0]; fmt.Sprint(a.Query) != fmt.Sprint(want) || a.Units != 1 || a.Region != "BR" ||
		a.Path != "/youtube/v3/videos" || a.Bucket != defaultBk {
		t.Errorf("%+v", a)
	}
	// Other verbs are unknown methods.
	rec := httptest.NewRecorder()
	upstream.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, aChart, nil))
	if rec.Code != 404 || upstream.Total() != 1 {
		t.Errorf("POST: %d, %d units", rec.Code, upstream.Total())
	}
}

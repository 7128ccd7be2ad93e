package jobs_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/youtube"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
)

// channelCalls counts the requests for each channel.
func channelCalls(upstream *youtubetest.Server) map[string]int {
	asked := map[string]int{}
	for _, a := range upstream.Arrivals() {
		if a.Method == "channels.list" {
			for _, ids := range a.Query["id"] {
				for id := range strings.SplitSeq(ids, ",") {
					asked[id]++
				}
			}
		}
	}
	return asked
}

// chartChannels returns the channels of regions' charts.
func chartChannels(data *youtubetest.Data, regions ...string) map[string]bool {
	channels := map[string]bool{}
	for _, region := range regions {
		for _, v := range data.Chart(region) {
			channels[v.ChannelID] = true
		}
	}
	return channels
}

// TestFailedChannelsCallReleasesItsClaims: the next run fetches the channels of
// a failed call, and no other region fetches them in the meantime.
func TestFailedChannelsCallReleasesItsClaims(t *testing.T) {
	data := youtubetest.DefaultData()
	s := newScene(t, plenty, "[trending, channels]", &youtubetest.Options{Data: data}, "US", "GB")
	s.upstream.Fail(youtubetest.Fault{Method: "channels.list", Status: 500, Times: 1})
	if report := s.run(t, t.Context()); report.Outcome != jobs.Failed {
		t.Fatalf("%s: %v; want failed by the 500", report.Outcome, report.Err)
	}
	if report := s.run(t, t.Context()); report.Outcome != jobs.Complete {
		t.Fatalf("the next run: %s: %v", report.Outcome, report.Err)
	}
	if n, want := s.rows(t, "channels WHERE NOT missing"), len(chartChannels(data, "US", "GB")); n != want {
		t.Errorf("%d channels in the catalogue; want the %d of both charts", n, want)
	}
}

// TestRefusedChannelsCallReleasesItsClaims: a region that is stopped by a
// budget leaves its channels to other regions.
func TestRefusedChannelsCallReleasesItsClaims(t *testing.T) {
	s := newScene(t, plenty+"  - {name: us, limit: 1, window: 24h, methods: [channels.list], regions: [US]}\n",
		"[channels]", nil, "US", "GB")
	s.Parallel = 1
	for _, region := range []string{"US", "GB"} {
		page := catalog.Page{Region: region, Tick: noon, Step: "trending",
			Videos: []catalog.Video{{ID: "a", ChannelID: "UC1"}}}
		if err := s.Catalog.Commit(t.Context(), page); err != nil {
			t.Fatal(err)
		}
	}
	spent := quota.Call{Account: "a", Method: "channels.list", Units: 1, Caller: quota.Caller{Region: "US"}}
	if _, err := s.guard.Spend(t.Context(), spent); err != nil {
		t.Fatal(err)
	}
	report := s.run(t, t.Context())
	if us, gb := report.Regions[0], report.Regions[1]; us.Outcome != jobs.Stopped || gb.Outcome != jobs.Complete ||
		gb.Calls != 1 {
		t.Fatalf("US %s (%v), GB %s with %d calls; want US stopped and GB to fetch the channel", us.Outcome, us.Err,
			gb.Outcome, gb.Calls)
	}
}

// TestLongChannelsCallKeepsItsClaims: a call that takes longer than a claim
// lasts renews it, and no other region requests its channels.
func TestLongChannelsCallKeepsItsClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		upstream := youtubetest.New(nil)
		store, err := catalog.Open(filepath.Join(t.TempDir(), "catalog.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		page := catalog.Page{Tick: time.Now(), Step: "trending", Videos: []catalog.Video{{ID: "a", ChannelID: "UC1"}}}
		for _, page.Region = range []string{"US", "GB"} {
			if err := store.Commit(t.Context(), page); err != nil {
				t.Fatal(err)
			}
		}
		long := roundTripper(func(req *http.Request) (*http.Response, error) {
			for range 10 {
				time.Sleep(catalog.ClaimTime)
				if ids, err := store.ClaimChannels(t.Context(), "GB", 50); err != nil || len(ids) != 0 {
					t.Errorf("GB claims %v, %v, while US asks for it", ids, err)
				}
			}
			answer := httptest.NewRecorder()
			upstream.ServeHTTP(answer, req)
			return answer.Result(), nil
		})
		client, err := youtube.New(t.Context(),
			&http.Client{Transport: &youtube.KeyTransport{Key: func() (string, error) { return "k", nil },
				Hosts: []string{"youtube.test"}, Base: long}}, "https://youtube.test/")
		if err != nil {
			t.Fatal(err)
		}
		config, err := jobs.Parse("regions.yaml",
			[]byte("version: 1\nschedule: '@monthly'\nfetch: [channels]\nregions: {US: {}}\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		report, err := (&jobs.Runner{Catalog: store, Client: client}).Run(t.Context(), config.Regions)
		if err != nil || report.Outcome != jobs.Complete || len(channelCalls(upstream)) != 1 {
			t.Errorf("%+v, %v after %d channels; want complete after one", report, errors.Join(err, report.Err),
				len(channelCalls(upstream)))
		}
		if tick := report.Regions[0].Tick; !tick.Equal(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("the pass of %s; want that of the month by the system's clock", tick)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

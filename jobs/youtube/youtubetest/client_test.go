package youtubetest_test

import (
	"encoding/json"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/youtube/v3"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// keyed sends the key in a header, as a careful client does.
type keyed struct{ base http.RoundTripper }

func (k keyed) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("X-Goog-Api-Key", "good")
	return k.base.RoundTrip(req)
}

// start serves a new Server over HTTP and returns Google's own client for it.
func start(t *testing.T, opts *youtubetest.Options) (*youtubetest.Server, *youtube.Service, *httptest.Server) {
	t.Helper()
	upstream := youtubetest.New(opts)
	srv := httptest.NewServer(upstream)
	t.Cleanup(srv.Close)
	client := &http.Client{Transport: keyed{srv.Client().Transport}}
	svc, err := youtube.NewService(t.Context(), option.WithHTTPClient(client), option.WithEndpoint(srv.URL+"/"))
	if err != nil {
		t.Fatal(err)
	}
	return upstream, svc, srv
}

// get sends a GET as another client would; path may contain a key.
func get(t *testing.T, srv *httptest.Server, path string, header ...string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(body)
}

func apiError(t *testing.T, err error) *googleapi.Error {
	t.Helper()
	no, ok := errors.AsType[*googleapi.Error](err)
	if !ok {
		t.Fatalf("got %v, want an error of the API", err)
	}
	return no
}

// Google's client fetches exactly the data's charts, for one unit a page.
func TestGooglesClientFetchesTheDatasCharts(t *testing.T) {
	upstream, svc, _ := start(t, nil)
	data := youtubetest.DefaultData()
	pages := map[string]int64{}
	for _, region := range data.Regions() {
		want := data.Chart(region)
		var got []*youtube.Video
		err := svc.Videos.List([]string{"snippet", "statistics", "contentDetails",
			"status"}).Chart("mostPopular").RegionCode(region).MaxResults(50).
			Pages(t.Context(), func(page *youtube.VideoListResponse) error {
				if page.PageInfo.TotalResults != int64(len(want)) || page.PageInfo.ResultsPerPage != 50 ||
					page.Etag == "" {
					t.Errorf("%s: pageInfo %+v etag %q", region, page.PageInfo, page.Etag)
				}
				got = append(got, page.Items...)
				pages[region]++
				return nil
			})
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %d videos of %d, %v", region, len(got), len(want), err)
		}
		for i, v := range got {
			compare(t, v, want[i])
		}
	}
	byRegion := upstream.Sum(func(a youtubetest.Arrival) string { return a.Region })
	for region, n := range pages {
		if byRegion[region] != n {
			t.Errorf("%s: %d units for %d pages", region, byRegion[region], n)
		}
	}
	if upstream.Total() != 29 { // 6 regions of 4 pages, AU 3, CA 2
		t.Errorf("all charts cost %d", upstream.Total())
	}
}

func compare(t *testing.T, got *youtube.Video, want youtubetest.Video) {
	t.Helper()
	if got.Id != want.ID || got.Snippet.Title != want.Title || got.Snippet.ChannelId != want.ChannelID ||
		got.Snippet.CategoryId != want.CategoryID || !slices.Equal(got.Snippet.Tags, want.Tags) ||
		got.Snippet.Description != want.Description ||
		got.Snippet.PublishedAt != want.PublishedAt.UTC().Format("2006-01-02T15:04:05Z") ||
		got.Snippet.Thumbnails.High == nil ||
		got.Statistics.ViewCount != uint64(want.Views) || got.ContentDetails.Duration == "" ||
		got.Status.PrivacyStatus != "public" {
		t.Errorf("got %+v %+v, want %+v", got.Snippet, got.Statistics, want)
	}
	if want.Likes != nil && got.Statistics.LikeCount != uint64(*want.Likes) || want.Likes == nil &&
		got.Statistics.LikeCount != 0 {
		t.Errorf("%s: %d likes, want %v", want.ID, got.Statistics.LikeCount, want.Likes)
	}
}

// Bodies have details that clients hide: numbers are strings, hidden numbers
// and parts not requested are absent. Several parts may be joined or repeated.
func TestVideosHaveTheDetailsOfTheWire(t *testing.T) {
	_, _, srv := start(t, nil)
	var hidden, shown youtubetest.Video
	for _, v := range youtubetest.DefaultData().Chart("US") {
		if v.Likes == nil {
			hidden = v
		} else if v.Comments != nil && len(v.Tags) == 0 {
			shown = v
		}
	}
	joined := "/youtube/v3/videos?key=k&prettyPrint=false&part=statistics,snippet&id=" + hidden.ID + "%2Cnosuchvideo," +
		shown.ID + "," + shown.ID
	repeated := "/youtube/v3/videos?key=k&prettyPrint=false&part=statistics&part=snippet&id=" + hidden.ID +
		"&id=nosuchvideo&id=" + shown.ID
	_, _, body := get(t, srv, joined)
	if _, _, other := get(t, srv, repeated); other != body {
		t.Errorf("joined and repeated differ:\n%s\n%s", body, other)
	}
	var list struct {
		PageInfo struct{ TotalResults, ResultsPerPage int }
		Items    []struct {
			ID             string
			Snippet        map[string]any
			Statistics     map[string]any
			Status         any
			ContentDetails any
		}
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Items) != 2 ||
		list.PageInfo.TotalResults != 2 {
		t.Fatalf("%v in %s", err, body)
	}
	without, with := list.Items[0], list.Items[1]
	if _, has := without.Statistics["likeCount"]; has || without.ID != hidden.ID {
		t.Errorf("hidden likes: %v", without.Statistics)
	}
	if _, text := with.Statistics["likeCount"].(string); !text || with.Statistics["favoriteCount"] != "0" {
		t.Errorf("shown likes: %v", with.Statistics)
	}
	if _, has := with.Snippet["tags"]; has || with.Status != nil || with.ContentDetails != nil {
		t.Errorf("%v has tags, or parts that were not requested", with)
	}
	if _, _, body := get(t, srv, "/youtube/v3/videos?key=k&part=id&chart=mostPopular"); strings.Contains(body,
		"snippet") || strings.Count(body, "youtube#video\"") != 5 {
		t.Errorf("part=id: %s", body)
	}
}

// A search escapes titles only, and claims far more results than it has.
func TestASearchHasTheTraitsOfARealOne(t *testing.T) {
	upstream, svc, _ := start(t, nil)
	escaped, got, last := 0, map[string]bool{}, 0
	err := svc.Search.List([]string{"snippet"}).Q("a").Type("video").MaxResults(50).Pages(t.Context(),
		func(page *youtube.SearchListResponse) error {
			if last++; page.PageInfo.TotalResults != 1_000_000 || page.RegionCode != "US" {
				t.Errorf("page %d: %+v", last, page.PageInfo)
			}
			var ids []string
			for _, hit := range page.Items {
				got[hit.Id.VideoId] = true
				ids = append(ids, hit.Id.VideoId)
			}
			full, err := svc.Videos.List([]string{"snippet"}).Id(ids...).Do()
			if err != nil || len(full.Items) != len(page.Items) {
				t.Fatalf("%d of %d videos, %v", len(full.Items), len(page.Items), err)
			}
			for i, v := range full.Items {
				title := page.Items[i].Snippet.Title
				if html.UnescapeString(title) != v.Snippet.Title || strings.ContainsAny(title, `"'<>`) ||
					page.Items[i].Snippet.ChannelTitle != v.Snippet.ChannelTitle {
					t.Errorf("%q in search, %q in videos", title, v.Snippet.Title)
				}
				if title != v.Snippet.Title {
					escaped++
				}
			}
			return nil
		})
	if err != nil || len(got) != 500 || last != 10 || escaped == 0 {
		t.Errorf("%d videos on %d pages, %d escaped, %v", len(got), last, escaped, err)
	}
	if total := upstream.Total(); total != 10*100+10 {
		t.Errorf("10 searches and 10 lists cost %d", total)
	}
	found, err := svc.Search.List([]string{"snippet"}).Q("LANTERN street").Order("viewCount").Do()
	if err != nil || found.Items[0].Id.Kind != "youtube#channel" || found.Items[1].Id.Kind != "youtube#video" {
		t.Fatalf("%v %+v", err, found)
	}
	none, err := svc.Search.List([]string{"id"}).Q("nothing like this").Do()
	if err != nil || len(none.Items) != 0 || none.NextPageToken != "" {
		t.Errorf("%v %+v", err, none)
	}
	channel := found.Items[0].Id.ChannelId
	of,
		err := svc.Search.List([]string{"snippet"}).ChannelId(channel).Type("video").Order("date").PublishedAfter(
		"2026-11-10T00:00:00Z").MaxResults(50).Do()
	if err != nil || len(of.Items) == 0 || !slices.IsSortedFunc(of.Items, func(a, b *youtube.SearchResult) int {
		return strings.Compare(b.Snippet.PublishedAt, a.Snippet.PublishedAt)
	}) {
		t.Errorf("newest of one channel: %v, %d", err, len(of.Items))
	}
	for _, hit := range of.Items {
		if hit.Snippet.ChannelId != channel || hit.Snippet.PublishedAt < "2026-11-10" {
			t.Errorf("%+v", hit.Snippet)
		}
	}
}

func TestOtherListsHaveTheTraitsOfRealOnes(t *testing.T) {
	_, svc, _ := start(t, nil)
	var ids []string
	hidden := 0
	for _, v := range youtubetest.DefaultData().Chart("US") {
		if !slices.Contains(ids, v.ChannelID) && len(ids) < 49 {
			ids = append(ids, v.ChannelID)
		}
	}
	five, err := svc.Channels.List([]string{"id"}).Id(ids...).Do()
	if err != nil || len(five.Items) != 5 || five.NextPageToken == "" {
		t.Fatalf("without maxResults: %v, %d", err, len(five.Items))
	}
	all, err := svc.Channels.List([]string{"snippet", "statistics", "contentDetails"}).Id(append(slices.Clone(ids),
		"UCnobody")...).MaxResults(50).Do()
	if err != nil || len(all.Items) != len(ids) || all.PageInfo.TotalResults != int64(len(ids)) {
		t.Fatalf("%v, %d of %d", err, len(all.Items), len(ids))
	}
	inOrder := true
	for i, c := range all.Items {
		inOrder = inOrder && c.Id == ids[i]
		if c.Statistics.HiddenSubscriberCount != (c.Statistics.SubscriberCount == 0) || c.Snippet.Title == "" ||
			c.ContentDetails.RelatedPlaylists.Uploads[:2] != "UU" {
			t.Errorf("%+v", c.Statistics)
		}
		if c.Statistics.HiddenSubscriberCount {
			hidden++
		}
	}
	if inOrder || hidden == 0 {
		t.Errorf("order of the ids kept: %t; %d hide their subscribers", inOrder, hidden)
	}
	us, err := svc.VideoCategories.List([]string{"snippet"}).RegionCode("US").Do()
	if err != nil || len(us.Items) != 32 || us.Items[0].Snippet.Title != "Film & Animation" {
		t.Errorf("US categories: %v, %d", err, len(us.Items))
	}
	gb, err := svc.VideoCategories.List([]string{"snippet"}).RegionCode("gb").Do()
	if err != nil || len(gb.Items) != 31 {
		t.Errorf("GB categories: %v, %d", err, len(gb.Items))
	}
	some, err := svc.VideoCategories.List([]string{"snippet"}).Id("10", "29").Do()
	if err != nil || len(some.Items) != 2 {
		t.Errorf("categories by id: %v, %d", err, len(some.Items))
	}
	regions, err := svc.I18nRegions.List([]string{"snippet"}).Do()
	if err != nil || len(regions.Items) < 100 || regions.Items[0].Snippet.Gl != regions.Items[0].Id {
		t.Errorf("regions: %v, %d", err, len(regions.Items))
	}
}

// An etag depends on the content only, and a match is a 304 without a body.
func TestNotModified(t *testing.T) {
	for _, c := range []struct {
		free bool
		want int64
	}{{false, 100 + 1 + 100 + 1 + 1}, {true, 100 + 1 + 1}} {
		upstream, svc, srv := start(t, &youtubetest.Options{NotModifiedFree: c.free})
		found, err := svc.Search.List([]string{"id"}).Q("music").Do()
		if err != nil {
			t.Fatal(err)
		}
		list, err := svc.Videos.List([]string{"id"}).Chart("mostPopular").Do()
		if err != nil {
			t.Fatal(err)
		}
		if _,
			err = svc.Search.List([]string{"id"}).Q("music").IfNoneMatch(found.Etag).Do(); !googleapi.IsNotModified(
			err) {
			t.Errorf("search again: %v", err)
		}
		status, _, body := get(t, srv, "/youtube/v3/videos?key=k&part=id&chart=mostPopular", "If-None-Match",
			`W/"other", "`+list.Etag+`"`)
		if status != 304 || body != "" {
			t.Errorf("chart again: %d %q", status, body)
		}
		if _,
			err = svc.Videos.List([]string{"id"}).Chart("mostPopular").MaxResults(6).IfNoneMatch(
			list.Etag).Do(); err != nil {
			t.Errorf("another page with the same etag: %v", err)
		}
		if upstream.Total() != c.want {
			t.Errorf("free=%t: %d units, want %d", c.free, upstream.Total(), c.want)
		}
	}
}

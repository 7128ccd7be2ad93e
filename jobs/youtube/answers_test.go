package youtube_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/api/googleapi"

	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/jobs/youtube"
)

// says is an upstream that gives one answer to every request.
func says(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}

// calls are those of a client, by method.
func calls(t *testing.T, client *youtube.Client) map[string]func() (catalog.Page, error) {
	ctx := t.Context()
	return map[string]func() (catalog.Page, error){
		"videos.list":          func() (catalog.Page, error) { return client.Trending(ctx, "US", "token") },
		"search.list":          func() (catalog.Page, error) { return client.Search(ctx, "US", "music", "token") },
		"channels.list":        func() (catalog.Page, error) { return client.Channels(ctx, []string{"UC1", "UC2"}) },
		"videoCategories.list": func() (catalog.Page, error) { return client.Categories(ctx, "US") },
	}
}

// TestMalformedAnswersDoNotPanic: items that are null or lack what they should
// have are left out, or kept with what they have.
func TestMalformedAnswersDoNotPanic(t *testing.T) {
	for method, c := range map[string]struct {
		items string
		want  catalog.Page
	}{
		"videos.list": {`null, {}, {"id": ""}, {"id": "a"}, {"id": "b", "snippet": {"title": "B", "publishedAt": ` +
			`"soon"}, "statistics": {}}`,
			catalog.Page{Videos: []catalog.Video{{ID: "a"}, {ID: "b", Title: "B", Views: new(int64(0))}}}},
		"search.list": {`null, {}, {"id": {}}, {"id": {"videoId": ""}, "snippet": {}}, {"id": {"videoId": "a"}}, ` +
			`{"id": {"videoId": "b"}, "snippet": {"title": "B"}}`,
			catalog.Page{Snippets: true, Videos: []catalog.Video{{ID: "b", Title: "B"}}}},
		"channels.list": {`null, {}, {"id": ""}, {"id": "UC2", "statistics": {"hiddenSubscriberCount": true, ` +
			`"subscriberCount": "7", "viewCount": "9"}}`,
			catalog.Page{Channels: []catalog.Channel{{ID: "UC2", Views: new(int64(9)), Videos: new(int64(0))}},
				MissingChannels: []string{"UC1"}}},
		"videoCategories.list": {`null, {"id": "1"}, {"id": "2", "snippet": {"title": "Music"}}`,
			catalog.Page{Categories: []catalog.Category{{ID: "2", Title: "Music"}}}},
	} {
		client := newClient(t, says(200, `{"kind": "list", "etag": "e", "nextPageToken": "n", "items": [`+c.items+`]}`),
			nil)
		page, err := calls(t, client)[method]()
		if c.want.Next, c.want.ETag = "n", "e"; method == "channels.list" {
			c.want.Next, c.want.ETag = "", ""
		} else if method == "videoCategories.list" {
			c.want.Next = ""
		}
		if diff := cmp.Diff(c.want, page); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", method, err, diff)
		}
	}
}

// TestAPageHasAllThatTheCatalogueKeeps: all that the catalogue keeps of an
// item.
func TestAPageHasAllThatTheCatalogueKeeps(t *testing.T) {
	published := time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC)
	for method, c := range map[string]struct {
		item string
		want catalog.Page
	}{
		"videos.list": {`{"id": "a", "snippet": {"title": "T", "description": "D", "tags": ["x", "y"], "channelId": "UC1", "channelTitle": "C", "categoryId": "10", "publishedAt": "2026-11-20T08:00:00+02:00"},
			"statistics": {"viewCount": "5", "likeCount": "4", "commentCount": "3"}}`,
			catalog.Page{Videos: []catalog.Video{{ID: "a", Title: "T", Description: "D", Tags: []string{"x", "y"},
				ChannelID: "UC1", ChannelTitle: "C", CategoryID: "10", PublishedAt: published,
				Views: new(int64(5)), Likes: new(int64(4)), Comments: new(int64(3))}}}},
		"search.list": {`{"id": {"videoId": "a"}, "snippet": {"title": "T", "description": "D", "channelId": "UC1", ` +
			`"channelTitle": "C", "publishedAt": "2026-11-20T06:00:00Z"}}`,
			catalog.Page{Snippets: true,
				Videos: []catalog.Video{{ID: "a", Title: "T", Description: "D", ChannelID: "UC1", ChannelTitle: "C",
					PublishedAt: published}}}},
		"channels.list": {`{"id": "UC1", "snippet": {"title": "T"}, "statistics": {"subscriberCount": "7", ` +
			`"viewCount": "9", "videoCount": "2"}}`,
			catalog.Page{Channels: []catalog.Channel{{ID: "UC1", Title: "T", Subscribers: new(int64(7)),
				Views: new(int64(9)), Videos: new(int64(2))}}, MissingChannels: []string{"UC2"}}},
	} {
		page, err := calls(t, newClient(t, says(200, `{"kind": "list", "items": [`+c.item+`]}`), nil))[method]()
		if diff := cmp.Diff(c.want, page); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", method, err, diff)
		}
	}
}

// TestAnswerWithoutAListIsAnError: it is not taken for an empty page.
func TestAnswerWithoutAListIsAnError(t *testing.T) {
	for _, body := range []string{"{}", `{"items": []}`, "null"} {
		for method, call := range calls(t, newClient(t, says(200, body), nil)) {
			if page, err := call(); err == nil ||
				!strings.HasPrefix(err.Error(), method+": the upstream's answer is not a list") ||
				!cmp.Equal(page, catalog.Page{}) {
				t.Errorf("%s, %s: %+v, %v; want that it is not a list", method, body, page, err)
			}
		}
	}
}

// TestEveryMethodNamesItsFailure with status, reason and message, and no page.
func TestEveryMethodNamesItsFailure(t *testing.T) {
	long := strings.Repeat("é", 101)
	body := `{"error": {"code": 400, "message": "` + long + `", "errors": [{"reason": "badRequest", "message": "` +
		long + `"}]}}`
	for method, call := range calls(t, newClient(t, says(400, body), nil)) {
		page, err := call()
		want := method + `: the upstream answered 400, "badRequest": "` + strings.Repeat("é", 100) + `…"`
		answer, ok := errors.AsType[*youtube.APIError](err)
		cause, google := errors.AsType[*googleapi.Error](err)
		if !ok || err.Error() != want || answer.Method != method || !google || cause.Code != 400 ||
			!cmp.Equal(page, catalog.Page{}) {
			t.Errorf("%+v, %v; want %s", page, err, want)
		}
	}
	short := strings.Repeat("x", 200)
	if text := (&youtube.APIError{Method: "m", Status: 400, Message: short}).Error(); !strings.HasSuffix(text,
		short+`"`) {
		t.Errorf("%s; want the whole message of 200 bytes", text)
	}
}

// TestNotModified: only a client that has an etag asks whether a page
// has changed.
func TestNotModified(t *testing.T) {
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == "e" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		says(200, `{"kind": "list", "etag": "e"}`).ServeHTTP(w, r)
	})
	client := newClient(t, upstream, nil)
	for method, call := range calls(t, client) {
		if _, err := call(); err != nil {
			t.Errorf("%s without an etag: %v", method, err)
		}
	}
	for method, call := range calls(t, client.IfNoneMatch("e")) {
		if _, err := call(); errors.Is(err, youtube.ErrNotModified) != (method != "channels.list") {
			t.Errorf("%s with the page's etag: %v", method, err)
		}
	}
}

// TestARefusedKeyIsToldFromWhatIsNotFound: what ends a run, and what ends a
// step.
func TestARefusedKeyIsToldFromWhatIsNotFound(t *testing.T) {
	for _, c := range []struct {
		status        int
		body          string
		key, notFound bool
	}{
		{399, `{"error": {"errors": [{"reason": "keyInvalid"}]}}`, false, false},
		{400, `{"error": {"errors": [{"reason": "keyInvalid"}]}}`, true, false},
		{403, `{"error": {"errors": [{"reason": "accessNotConfigured"}]}}`, true, false},
		{499, `{"error": {"errors": [{"reason": "keyExpired"}]}}`, true, false},
		{500, `{"error": {"errors": [{"reason": "keyInvalid"}]}}`, false, false},
		{403, `{"error": {"errors": [{"reason": "forbidden"}]}}`, false, false},
		{404, `{"error": {"errors": [{"reason": "notFound"}]}}`, false, false},
		{404, `{"error": {"errors": [{"reason": "channelNotFound"}]}}`, false, false},
		{404, `<html>videoChartNotFound</html>`, false, false},
		{404, "", false, false},
		{404, `{"error": {"errors": [{"reason": "videoChartNotFound"}]}}`, false, true},
		{400, `{"error": {"errors": [{"reason": "videoChartNotFound"}]}}`, false, true},
	} {
		_, err := newClient(t, says(c.status, c.body), nil).Trending(t.Context(), "US", "")
		answer, ok := errors.AsType[*youtube.APIError](err)
		if !ok || answer.KeyRefused() != c.key || answer.NotFound() != c.notFound {
			t.Errorf("%d %s: %v; want key refused %t, not found %t", c.status, c.body, err, c.key, c.notFound)
		}
	}
	if (&youtube.APIError{Status: 400, Err: errors.New(`"keyInvalid"`)}).KeyRefused() {
		t.Error("an error that is not an answer of Google refuses the key")
	}
}

package youtube_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs/youtube"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
	"github.com/ration-dev/ration/quota/memledger"
)

const secret = "AIzaSECRET"

// newClient returns a client of a local YouTube, with the key in place.
func newClient(t *testing.T, upstream http.Handler, wrap func(http.RoundTripper) http.RoundTripper) *youtube.Client {
	t.Helper()
	web := httptest.NewServer(upstream)
	t.Cleanup(web.Close)
	var transport http.RoundTripper = &youtube.KeyTransport{Key: func() (string, error) { return secret, nil },
		Hosts: []string{strings.TrimPrefix(web.URL, "http://")}, Base: &http.Transport{}}
	if wrap != nil {
		transport = wrap(transport)
	}
	client, err := youtube.New(t.Context(), &http.Client{Transport: transport}, web.URL+"/")
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestPages(t *testing.T) {
	data := youtubetest.DefaultData()
	client := newClient(t, youtubetest.New(&youtubetest.Options{Keys: []string{secret}}), nil)
	ctx := t.Context()

	var ranks []string
	token := ""
	for {
		page, err := client.Trending(ctx, "CA", token)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range page.Videos {
			ranks = append(ranks, v.ID)
			if v.Title == "" || v.ChannelID == "" || v.PublishedAt.IsZero() || v.Views == nil {
				t.Errorf("video %+v lacks what every video has", v)
			}
		}
		if token = page.Next; token == "" {
			break
		}
	}
	chart := data.Chart("CA")
	if len(ranks) != len(chart) {
		t.Fatalf("%d videos; want the whole chart, %d", len(ranks), len(chart))
	}
	for i, v := range chart {
		if v.ID != ranks[i] {
			t.Fatalf("rank %d is %s; want %s", i+1, ranks[i], v.ID)
		}
	}

	found, err := client.Search(ctx, "IN", "music", "")
	if err != nil || len(found.Videos) == 0 || !found.Snippets || found.Videos[0].Views != nil {
		t.Errorf("search: %d videos, snippets %t, %v", len(found.Videos), found.Snippets, err)
	}
	channels, err := client.Channels(ctx, []string{chart[0].ChannelID, "UCnobody"})
	if err != nil || len(channels.Channels) != 1 || channels.Channels[0].ID != chart[0].ChannelID ||
		len(channels.MissingChannels) != 1 {
		t.Errorf("channels: %+v, %v; want the one there is, and the other missing", channels, err)
	}
	categories, err := client.Categories(ctx, "DE")
	if err != nil || len(categories.Categories) < 10 {
		t.Errorf("categories: %+v, %v", categories, err)
	}
}

// TestErrorsHoldNoURL fails calls in every way: no message may hold the
// key, a URL or a body.
func TestErrorsHoldNoURL(t *testing.T) {
	for name, c := range map[string]struct {
		fault youtubetest.Fault
		want  string
		class feedback.Class
	}{
		"forbidden": {youtubetest.Fault{Status: 403, Reason: "forbidden"},
			`videos.list: the upstream answered 403, "forbidden"`, feedback.Permanent},
		"exhausted": {youtubetest.Fault{Status: 403, Reason: "quotaExceeded"},
			`videos.list: the upstream answered 403, "quotaExceeded"`, feedback.Exhausted},
		"broken": {youtubetest.Fault{Status: 500}, `videos.list: the upstream answered 500`, feedback.Transient},
		"a web page": {youtubetest.Fault{Status: 502, Body: "<html>\x1b[2Jkey=" + secret + "</html>"},
			`videos.list: the upstream answered 502, an answer without a reason`, feedback.Transient},
		"half a page": {youtubetest.Fault{Delivery: youtubetest.Halved},
			`videos.list: the upstream's answer is malformed or truncated JSON`, 0},
		"no answer": {youtubetest.Fault{Delivery: youtubetest.Dropped}, `videos.list: `, 0},
	} {
		t.Run(name, func(t *testing.T) {
			upstream := youtubetest.New(nil)
			upstream.Fail(c.fault)
			_, err := newClient(t, upstream, nil).Trending(t.Context(), "US", "")
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("got %v; want %s…", err, c.want)
			}
			if text := err.Error(); strings.Contains(text, secret) || strings.Contains(text, "http://") ||
				strings.ContainsAny(text, "\x1b\n") {
				t.Errorf("not fit to be shown: %q", text)
			}
			if answer, ok := errors.AsType[*youtube.APIError](err); ok && answer.Class != c.class {
				t.Errorf("class %v; want %v", answer.Class, c.class)
			}
		})
	}
}

func TestRefusalsAreReturnedUnwrapped(t *testing.T) {
	guard, err := quota.NewGuard(memledger.Open(nil),
		[]quota.Budget{{Account: "a", Name: "all", Limit: 5, Window: quota.Sliding(time.Hour)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Spend(context.Background(), quota.Call{Account: "a", Method: "m", Units: 4}); err != nil {
		t.Fatal(err)
	}
	for units, want := range map[quota.Units]error{2: quota.ErrRefused, 6: quota.ErrNeverFits} {
		client := newClient(t, youtubetest.New(nil), func(base http.RoundTripper) http.RoundTripper {
			return &quota.Transport{Guard: guard, Base: base, Price: func(*http.Request) (quota.Call, error) {
				return quota.Call{Account: "a", Method: "videos.list", Units: units}, nil
			}}
		})
		_, err := client.Trending(t.Context(), "US", "")
		if !errors.Is(err, want) || strings.Contains(err.Error(), "http") {
			t.Errorf("%d units: %v; want %v, without a URL", units, err, want)
		}
	}
}

// TestAKeyIsSentToItsHostsOnly follows a redirect to another host, which must
// not see the key, and checks that the caller's request is left as it was.
func TestAKeyIsSentToItsHostsOnly(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]string{}
	note := func(name string, then http.HandlerFunc) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen[name] = r.Header.Get(youtube.KeyHeader)
			mu.Unlock()
			if then != nil {
				then(w, r)
			}
		}))
	}
	elsewhere := note("elsewhere", nil)
	defer elsewhere.Close()
	home := note("home", func(w http.ResponseWriter,
		r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	})
	defer home.Close()
	client := &http.Client{Transport: &youtube.KeyTransport{Key: func() (string, error) { return secret, nil },
		Hosts: []string{strings.TrimPrefix(home.URL, "http://")}, Base: &http.Transport{}}}
	req, err := http.NewRequestWithContext(t.Context(), "GET", home.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if seen["home"] != secret || seen["elsewhere"] != "" {
		t.Errorf("the key was seen at %v; want at home only", seen)
	}
	if len(req.Header) != 0 {
		t.Errorf("the caller's request has headers %v now", req.Header)
	}
}

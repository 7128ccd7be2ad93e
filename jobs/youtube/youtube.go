// Package youtube fetches catalogue pages from the YouTube Data API v3 with
// Google's client.
package youtube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/api/option"
	yt "google.golang.org/api/youtube/v3"

	"github.com/ration-dev/ration/internal/catalog"
)

// PageSize is the number of videos or channels that a call requests, the
// largest that the API accepts.
const PageSize = 50

// ErrNotModified is returned by a client of IfNoneMatch if the page still has
// the given ETag.
var ErrNotModified = errors.New("youtube: the page has not changed")

// Client fetches pages. It is safe for concurrent use.
type Client struct {
	service *yt.Service
	etag    string
}

// New returns a client that sends its calls through httpClient. endpoint is a
// base URL to use instead of the API's own; "" means the API. httpClient must
// add the API key, for example with a KeyTransport, because Google's library
// ignores option.WithAPIKey together with an http.Client. Unless httpClient
// has a CheckRedirect, only one redirect is followed, since each costs
// another call.
func New(ctx context.Context, httpClient *http.Client, endpoint string) (*Client, error) {
	if httpClient.CheckRedirect == nil {
		limited := *httpClient
		limited.CheckRedirect = checkRedirect
		httpClient = &limited
	}
	options := []option.ClientOption{option.WithHTTPClient(httpClient)}
	if endpoint != "" {
		options = append(options, option.WithEndpoint(endpoint))
	}
	service, err := yt.NewService(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("youtube: new client: %w", err)
	}
	return &Client{service: service}, nil
}

func checkRedirect(_ *http.Request, via []*http.Request) error {
	if len(via) > 1 {
		return errors.New("the upstream redirects again and again; check the endpoint and any proxy before the API")
	}
	return nil
}

// BaseURL returns the base URL of the client's calls.
func (c *Client) BaseURL() string { return c.service.BasePath }

// IfNoneMatch returns a client that returns ErrNotModified for a page that
// still has the given ETag. An empty etag matches no page.
func (c *Client) IfNoneMatch(etag string) *Client { return &Client{service: c.service, etag: etag} }

// Trending fetches a page of a region's chart. token is the Next of the page
// before it, or "" for the first page. Next is "" on the last page.
func (c *Client) Trending(ctx context.Context, region, token string) (catalog.Page, error) {
	call := c.service.Videos.List([]string{"snippet",
		"statistics"}).Chart("mostPopular").RegionCode(region).MaxResults(PageSize).Context(ctx)
	if token != "" {
		call.PageToken(token)
	}
	answer, err := call.IfNoneMatch(c.etag).Do()
	if err := checkList("videos.list", answer != nil && answer.Kind != "", err); err != nil {
		return catalog.Page{}, err
	}
	page := catalog.Page{Next: answer.NextPageToken, ETag: answer.Etag}
	for _, item := range answer.Items {
		if item != nil && item.Id != "" {
			page.Videos = append(page.Videos, newVideo(item))
		}
	}
	return page, nil
}

// isVideo reports whether a result of a search is a video, with its snippet.
func isVideo(item *yt.SearchResult) bool {
	if item == nil || item.Id == nil {
		return false
	}
	return item.Id.VideoId != "" && item.Snippet != nil
}

// Search fetches a page of the videos that match a query in a region, as
// snippets; see catalog.Page.Snippets. token is as for Trending.
func (c *Client) Search(ctx context.Context, region, query, token string) (catalog.Page, error) {
	call := c.service.Search.List([]string{"snippet"}).Type("video").Q(query).RegionCode(region).MaxResults(
		PageSize).Context(ctx)
	if token != "" {
		call.PageToken(token)
	}
	answer, err := call.IfNoneMatch(c.etag).Do()
	if err := checkList("search.list", answer != nil && answer.Kind != "", err); err != nil {
		return catalog.Page{}, err
	}
	page := catalog.Page{Next: answer.NextPageToken, ETag: answer.Etag, Snippets: true}
	for _, item := range answer.Items {
		if !isVideo(item) {
			continue
		}
		page.Videos = append(page.Videos, catalog.Video{
			ID: item.Id.VideoId, Title: item.Snippet.Title, Description: item.Snippet.Description,
			ChannelID: item.Snippet.ChannelId, ChannelTitle: item.Snippet.ChannelTitle,
			PublishedAt: parseTime(item.Snippet.PublishedAt),
		})
	}
	return page, nil
}

// Channels fetches up to PageSize channels. Ids that the API does not know are
// in the page's MissingChannels.
func (c *Client) Channels(ctx context.Context, ids []string) (catalog.Page, error) {
	answer, err := c.service.Channels.List([]string{"snippet",
		"statistics"}).Id(ids...).MaxResults(PageSize).Context(ctx).Do()
	if err := checkList("channels.list", answer != nil && answer.Kind != "", err); err != nil {
		return catalog.Page{}, err
	}
	var page catalog.Page
	found := map[string]bool{}
	for _, item := range answer.Items {
		if item == nil || item.Id == "" {
			continue
		}
		channel := catalog.Channel{ID: item.Id}
		if item.Snippet != nil {
			channel.Title = item.Snippet.Title
		}
		if s := item.Statistics; s != nil {
			channel.Views, channel.Videos = countOf(s.ViewCount), countOf(s.VideoCount)
			if !s.HiddenSubscriberCount {
				channel.Subscribers = countOf(s.SubscriberCount)
			}
		}
		found[item.Id] = true
		page.Channels = append(page.Channels, channel)
	}
	for _, id := range ids {
		if !found[id] {
			page.MissingChannels = append(page.MissingChannels, id)
		}
	}
	return page, nil
}

// Categories fetches a region's video categories.
func (c *Client) Categories(ctx context.Context, region string) (catalog.Page, error) {
	call := c.service.VideoCategories.List([]string{"snippet"}).RegionCode(region).Context(ctx)
	answer, err := call.IfNoneMatch(c.etag).Do()
	if err := checkList("videoCategories.list", answer != nil && answer.Kind != "", err); err != nil {
		return catalog.Page{}, err
	}
	page := catalog.Page{ETag: answer.Etag}
	for _, item := range answer.Items {
		if item != nil && item.Snippet != nil {
			page.Categories = append(page.Categories, catalog.Category{ID: item.Id, Title: item.Snippet.Title})
		}
	}
	return page, nil
}

func newVideo(item *yt.Video) catalog.Video {
	v := catalog.Video{ID: item.Id}
	if s := item.Snippet; s != nil {
		v.Title = s.Title
		v.Description = s.Description
		v.Tags = s.Tags
		v.ChannelID, v.ChannelTitle = s.ChannelId, s.ChannelTitle
		v.CategoryID = s.CategoryId
		v.PublishedAt = parseTime(s.PublishedAt)
	}
	if s := item.Statistics; s != nil {
		v.Views = countOf(s.ViewCount)
		v.Likes, v.Comments = visibleCount(s.LikeCount), visibleCount(s.CommentCount)
	}
	return v
}

func countOf(n uint64) *int64 { return new(int64(n)) }

// visibleCount returns nil for 0: the API omits a count that its owner hides,
// and Google's client decodes that as 0.
func visibleCount(n uint64) *int64 {
	if n == 0 {
		return nil
	}
	return countOf(n)
}

// parseTime parses an RFC 3339 time. It returns the zero time if s
// is malformed.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

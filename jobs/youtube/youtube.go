// Package youtube fetches from the YouTube Data API v3, with Google's client,
// what the catalogue stores.
package youtube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/api/option"
	yt "google.golang.org/api/youtube/v3"

	"github.com/ration-dev/ration/jobs/catalog"
)

// PageSize is how many videos or channels one call asks for: the most that
// the API gives (discovery document, revision 20261019).
const PageSize = 50

// ErrNotModified is what a client answers that was told of an etag, when the page
// is still the one that had it.
var ErrNotModified = errors.New("youtube: the page has not changed")

// Client fetches. It is safe for concurrent use.
type Client struct {
	service *yt.Service
	etag    string
}

// New returns a client that sends its calls through httpClient, to the API or, when it is not
// empty, to another endpoint (a base URL). The key is the business of
// httpClient: Google's library ignores option.WithAPIKey beside a client of
// one's own (google.golang.org/api v0.310.0), see KeyTransport.
func New(ctx context.Context, httpClient *http.Client, endpoint string) (*Client, error) {
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

// BaseURL returns where the client sends its calls.
func (c *Client) BaseURL() string { return c.service.BasePath }

// IfNoneMatch returns a client for which a page that still has an etag is
// ErrNotModified. An empty etag is none.
func (c *Client) IfNoneMatch(etag string) *Client { return &Client{service: c.service, etag: etag} }

// Trending fetches the page of a region's chart that token leads to, "" for
// the first. The page's Next is empty at the chart's end.
func (c *Client) Trending(ctx context.Context, region, token string) (catalog.Page, error) {
	call := c.service.Videos.List([]string{"snippet", "statistics"}).Chart("mostPopular").RegionCode(region).MaxResults(PageSize).Context(ctx)
	if token != "" {
		call.PageToken(token)
	}
	if c.etag != "" {
		call.IfNoneMatch(c.etag)
	}
	answer, err := call.Do()
	if err != nil {
		return catalog.Page{}, explain("videos.list", err)
	}
	if answer == nil || answer.Kind == "" {
		return catalog.Page{}, empty("videos.list")
	}
	page := catalog.Page{Next: answer.NextPageToken, ETag: answer.Etag}
	for _, item := range answer.Items {
		if item != nil && item.Id != "" {
			page.Videos = append(page.Videos, video(item))
		}
	}
	return page, nil
}

// Search fetches a page of the videos that a query finds in a region. Its
// rows are snippets: titles escaped, without counts.
func (c *Client) Search(ctx context.Context, region, query, token string) (catalog.Page, error) {
	call := c.service.Search.List([]string{"snippet"}).Type("video").Q(query).RegionCode(region).MaxResults(PageSize).Context(ctx)
	if token != "" {
		call.PageToken(token)
	}
	if c.etag != "" {
		call.IfNoneMatch(c.etag)
	}
	answer, err := call.Do()
	if err != nil {
		return catalog.Page{}, explain("search.list", err)
	}
	if answer == nil || answer.Kind == "" {
		return catalog.Page{}, empty("search.list")
	}
	page := catalog.Page{Next: answer.NextPageToken, ETag: answer.Etag, Snippets: true}
	for _, item := range answer.Items {
		if item == nil || item.Id == nil || item.Id.VideoId == "" || item.Snippet == nil {
			continue
		}
		page.Videos = append(page.Videos, catalog.Video{
			ID: item.Id.VideoId, Title: item.Snippet.Title, Description: item.Snippet.Description,
			ChannelID: item.Snippet.ChannelId, ChannelTitle: item.Snippet.ChannelTitle, PublishedAt: instant(item.Snippet.PublishedAt),
		})
	}
	return page, nil
}

// Channels fetches up to PageSize channels. Those that the API does not know
// any more are in the page's MissingChannels.
func (c *Client) Channels(ctx context.Context, ids []string) (catalog.Page, error) {
	answer, err := c.service.Channels.List([]string{"snippet", "statistics"}).Id(ids...).MaxResults(PageSize).Context(ctx).Do()
	if err != nil {
		return catalog.Page{}, explain("channels.list", err)
	}
	if answer == nil || answer.Kind == "" {
		return catalog.Page{}, empty("channels.list")
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
			channel.Views, channel.Videos = count(s.ViewCount), count(s.VideoCount)
			if !s.HiddenSubscriberCount {
				channel.Subscribers = count(s.SubscriberCount)
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
	if c.etag != "" {
		call.IfNoneMatch(c.etag)
	}
	answer, err := call.Do()
	if err != nil {
		return catalog.Page{}, explain("videoCategories.list", err)
	}
	if answer == nil || answer.Kind == "" {
		return catalog.Page{}, empty("videoCategories.list")
	}
	page := catalog.Page{ETag: answer.Etag}
	for _, item := range answer.Items {
		if item != nil && item.Snippet != nil {
			page.Categories = append(page.Categories, catalog.Category{ID: item.Id, Title: item.Snippet.Title})
		}
	}
	return page, nil
}

func video(item *yt.Video) catalog.Video {
	v := catalog.Video{ID: item.Id}
	if s := item.Snippet; s != nil {
		v.Title, v.Description, v.Tags = s.Title, s.Description, s.Tags
		v.ChannelID, v.ChannelTitle, v.CategoryID, v.PublishedAt = s.ChannelId, s.ChannelTitle, s.CategoryId, instant(s.PublishedAt)
	}
	if s := item.Statistics; s != nil {
		v.Views = count(s.ViewCount)
		v.Likes, v.Comments = shown(s.LikeCount), shown(s.CommentCount)
	}
	return v
}

func count(n uint64) *int64 { return new(int64(n)) }

// shown returns a count that the API leaves out when its owner hides it;
// Google's client cannot tell that from 0.
func shown(n uint64) *int64 {
	if n == 0 {
		return nil
	}
	return count(n)
}

// instant reads an RFC 3339 time, and returns the zero time for what is none.
func instant(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

package youtubetest

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

type searchID struct {
	Kind      string `json:"kind"`
	VideoID   string `json:"videoId,omitempty"`
	ChannelID string `json:"channelId,omitempty"`
}

type searchSnippet struct {
	PublishedAt          string               `json:"publishedAt"`
	ChannelID            string               `json:"channelId"`
	Title                string               `json:"title"`
	Description          string               `json:"description"`
	Thumbnails           map[string]thumbnail `json:"thumbnails"`
	ChannelTitle         string               `json:"channelTitle"`
	LiveBroadcastContent string               `json:"liveBroadcastContent"`
	PublishTime          string               `json:"publishTime"`
}

const (
	searchDepth = 500       // results that pages can reach
	searchClaim = 1_000_000 // the largest totalResults
)

// search answers search.list, over all regions: the channels whose name
// contains every word of q, then the videos whose title or channel does.
func (s *Server) search(r *request, parts map[string]bool) (*listing, *apiError) {
	region := cmp.Or(r.region, "US")
	if _, charted := s.opts.Data.charts[region]; !charted && !knownRegion(region) {
		return nil, errRegion()
	}
	found, bad := s.opts.Data.find(r)
	if bad != nil {
		return nil, bad
	}
	reachable := found[:min(len(found), searchDepth)]
	l, bad := pageOf(r, "youtube#searchListResponse", reachable, 0, func(hit resource) resource {
		if !parts["snippet"] {
			hit.Snippet = nil
		}
		return hit
	})
	if bad != nil {
		return nil, bad
	}
	l.RegionCode, l.PageInfo.TotalResults = region, estimate(len(found))
	return l, nil
}

// estimate returns the totalResults of a search with n results. Like the real
// one, it is correct for few results and far too high for many, so that a
// client that pages by it fails.
func estimate(n int) int {
	if n <= 20 {
		return n
	}
	return min(n*4099, searchClaim)
}

// find returns all results of a search, in order.
func (d *Data) find(r *request) ([]resource, *apiError) {
	kinds := r.list("type")
	if len(kinds) == 0 {
		kinds = []string{"video", "channel", "playlist"}
	}
	for _, kind := range kinds {
		if kind != "video" && kind != "channel" && kind != "playlist" {
			return nil, errInvalid("type", "Invalid value '"+kind+"'. Allowed values: [video, channel, playlist]")
		}
	}
	good, bad := r.filter(kinds)
	if bad != nil {
		return nil, bad
	}
	words := strings.Fields(strings.ToLower(r.query.Get("q")))
	var hits []resource
	if slices.Contains(kinds, "channel") {
		for _, c := range d.channels {
			if (r.query.Get("channelId") == "" || r.query.Get("channelId") == c.id) &&
				holds(strings.ToLower(c.title), words) {
				hits = append(hits, c.hit())
			}
		}
	}
	if slices.Contains(kinds, "video") {
		videos := filtered(d.videos, func(v *Video) bool { return holds(v.text, words) && good(v) })
		if bad := sortBy(r.query.Get("order"), videos); bad != nil {
			return nil, bad
		}
		for _, v := range videos {
			hits = append(hits, v.hit())
		}
	}
	return hits, nil
}

func holds(text string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
}

// filter reads the parameters that narrow a search for videos.
func (r *request) filter(kinds []string) (func(*Video) bool, *apiError) {
	for name := range r.query {
		if strings.HasPrefix(name, "video") && !slices.Equal(kinds, []string{"video"}) {
			return nil, newError(400, "youtube.search", "invalidSearchFilter",
				"The request contains an invalid combination of search filters and/or restrictions.").at("parameters.")
		}
	}
	var after, before time.Time
	for name, t := range map[string]*time.Time{"publishedAfter": &after, "publishedBefore": &before} {
		text := r.query.Get(name)
		var err error
		if *t, err = time.Parse(time.RFC3339, text); err != nil && text != "" {
			return nil, errInvalid(name, "Invalid value '"+text+"'. Expected an RFC 3339 timestamp")
		}
	}
	channel, category := r.query.Get("channelId"), r.query.Get("videoCategoryId")
	return func(v *Video) bool {
		isInChannel := channel == "" || v.ChannelID == channel
		isInCategory := category == "" || v.CategoryID == category
		isTooLate := !before.IsZero() && !v.PublishedAt.Before(before)
		isInTime := !isTooLate && !v.PublishedAt.Before(after)
		return isInChannel && isInCategory && isInTime
	}, nil
}

// sortBy sorts videos; relevance is the order of the data.
func sortBy(order string, videos []*Video) *apiError {
	var less func(a, b *Video) int
	switch order {
	case "", "relevance", "videoCount", "searchSortUnspecified":
		return nil
	case "date":
		less = func(a, b *Video) int { return b.PublishedAt.Compare(a.PublishedAt) }
	case "viewCount":
		less = func(a, b *Video) int { return cmp.Compare(b.Views, a.Views) }
	case "rating":
		less = func(a, b *Video) int { return cmp.Compare(or0(b.Likes), or0(a.Likes)) }
	case "title":
		less = func(a, b *Video) int { return cmp.Compare(a.Title, b.Title) }
	default:
		return errInvalid("order",
			"Invalid value '"+order+"'. Allowed values: [date, rating, relevance, title, videoCount, viewCount]")
	}
	slices.SortStableFunc(videos, less)
	return nil
}

func or0(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

func (v *Video) hit() resource {
	return resource{
		Kind: "youtube#searchResult", ID: searchID{Kind: "youtube#video", VideoID: v.ID},
		Snippet: searchSnippet{
			PublishedAt: stamp(v.PublishedAt), PublishTime: stamp(v.PublishedAt), ChannelID: v.ChannelID,
			Title: escape(v.Title), Description: shorten(v.Description),
			Thumbnails:   v.thumbnails("default", "medium", "high"),
			ChannelTitle: v.ChannelTitle, LiveBroadcastContent: "none",
		},
	}
}

func (c *channel) hit() resource {
	return resource{
		Kind: "youtube#searchResult", ID: searchID{Kind: "youtube#channel", ChannelID: c.id},
		Snippet: searchSnippet{
			PublishedAt: stamp(c.publishedAt), PublishTime: stamp(c.publishedAt), ChannelID: c.id,
			Title: escape(c.title), Thumbnails: c.thumbnails(), ChannelTitle: c.title, LiveBroadcastContent: "none",
		},
	}
}

// escape adds the HTML entities of search.list. Recorded answers have them in
// titles only, not in channelTitle or description.
func escape(title string) string {
	return strings.NewReplacer("&", "&amp;", `"`, "&quot;", "'", "&#39;", "<", "&lt;", ">", "&gt;").Replace(title)
}

// shorten cuts a description to one line, as search.list does.
func shorten(text string) string {
	words := []rune(strings.Join(strings.Fields(text), " "))
	if len(words) <= 150 {
		return string(words)
	}
	return string(words[:150]) + " ..."
}

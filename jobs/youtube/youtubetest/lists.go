package youtubetest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

type channelSnippet struct {
	Title       string               `json:"title"`
	Description string               `json:"description"`
	CustomURL   string               `json:"customUrl"`
	PublishedAt string               `json:"publishedAt"`
	Thumbnails  map[string]thumbnail `json:"thumbnails"`
	Localized   localized            `json:"localized"`
}

type channelStatistics struct {
	ViewCount             string `json:"viewCount"`
	SubscriberCount       string `json:"subscriberCount,omitempty"`
	HiddenSubscriberCount bool   `json:"hiddenSubscriberCount"`
	VideoCount            string `json:"videoCount"`
}

type channelContent struct {
	RelatedPlaylists struct {
		Likes   string `json:"likes"`
		Uploads string `json:"uploads"`
	} `json:"relatedPlaylists"`
}

const channelParts = "snippet contentDetails statistics status brandingSettings topicDetails localizations"

// channels answers channels.list. The real API promises no order, so the
// channels are sorted by hash: a client that relies on the order of the
// ids fails.
func (s *Server) channels(r *request, parts map[string]bool) (*listing, *apiError) {
	ids, bad := r.ids()
	if bad != nil {
		return nil, bad
	}
	if len(ids) == 0 {
		return nil, errNoFilter("forUsername, managedByMe, categoryId, mine, mySubscribers, id, idParam")
	}
	found := filtered(s.opts.Data.channels, func(c *channel) bool { return slices.Contains(ids, c.id) })
	slices.SortFunc(found, func(a, b *channel) int { return cmp.Compare(hash(a.id), hash(b.id)) })
	return pageOf(r, "youtube#channelListResponse", found, 0, func(c *channel) resource { return c.resource(parts) })
}

func (c *channel) resource(parts map[string]bool) resource {
	r := resource{Kind: "youtube#channel", ID: c.id}
	if parts["snippet"] {
		about := "Official channel of " + c.title
		r.Snippet = channelSnippet{
			Title: c.title, Description: about, CustomURL: "@" + strings.ToLower(c.id[max(0, len(c.id)-8):]),
			PublishedAt: stamp(c.publishedAt), Thumbnails: c.thumbnails(), Localized: localized{c.title, about},
		}
	}
	if parts["contentDetails"] {
		var content channelContent
		content.RelatedPlaylists.Uploads = "UU" + strings.TrimPrefix(c.id, "UC")
		r.ContentDetails = content
	}
	if parts["statistics"] {
		n := hash(c.id)
		stats := channelStatistics{
			ViewCount:             strconv.FormatUint(1_000_000+n%3_000_000_000, 10),
			VideoCount:            strconv.FormatUint(10+n%4000, 10),
			HiddenSubscriberCount: n%12 == 0,
		}
		if !stats.HiddenSubscriberCount {
			stats.SubscriberCount = strconv.FormatUint(1000*(1+n%20_000), 10)
		}
		r.Statistics = stats
	}
	return r
}

func (c *channel) thumbnails() map[string]thumbnail {
	url := "https://yt3.ggpht.com/ytc/" + c.id + "=s"
	return map[string]thumbnail{
		"default": {url + "88-c-k", 88, 88}, "medium": {url + "240-c-k", 240, 240}, "high": {url + "800-c-k", 800, 800},
	}
}

type categorySnippet struct {
	Title      string `json:"title"`
	Assignable bool   `json:"assignable"`
	ChannelID  string `json:"channelId"`
}

// videoCategories answers videoCategories.list, by region or id.
func (s *Server) videoCategories(r *request, parts map[string]bool) (*listing, *apiError) {
	ids, bad := r.ids()
	if bad != nil {
		return nil, bad
	}
	if r.region == "" && len(ids) == 0 {
		return nil, errNoFilter("id, regionCode")
	}
	if r.region != "" && !knownRegion(r.region) {
		return nil, errRegion()
	}
	l := &listing{Kind: "youtube#videoCategoryListResponse"}
	for _, c := range categories() {
		isListed := slices.Contains(ids, c.id)
		if len(ids) == 0 {
			isListed = !c.usOnly || r.region == "US"
		}
		if !isListed {
			continue
		}
		item := resource{Kind: "youtube#videoCategory", ID: c.id}
		if parts["snippet"] {
			item.Snippet = categorySnippet{Title: c.title, Assignable: c.assignable,
				ChannelID: "UCBR8-60-B28hp2BmDPdntcQ"}
		}
		l.Items = append(l.Items, item)
	}
	return l, nil
}

type category struct {
	id, title          string
	assignable, usOnly bool
}

// categories returns the categories of recorded answers for seven regions,
// 2020: 31 each, and one more in the US.
func categories() []category {
	return []category{
		{"1", "Film & Animation", true, false}, {"2", "Autos & Vehicles", true, false}, {"10", "Music", true, false},
		{"15", "Pets & Animals", true, false}, {"17", "Sports", true, false}, {"18", "Short Movies", false, false},
		{"19", "Travel & Events", true, false}, {"20", "Gaming", true, false}, {"21", "Videoblogging", false, false},
		{"22", "People & Blogs", true, false}, {"23", "Comedy", true, false}, {"24", "Entertainment", true, false},
		{"25", "News & Politics", true, false}, {"26", "Howto & Style", true, false}, {"27", "Education", true, false},
		{"28", "Science & Technology", true, false}, {"29", "Nonprofits & Activism", true, true},
		{"30", "Movies", false, false},
		{"31", "Anime/Animation", false, false}, {"32", "Action/Adventure", false, false},
		{"33", "Classics", false, false},
		{"34", "Comedy", false, false}, {"35", "Documentary", false, false}, {"36", "Drama", false, false},
		{"37", "Family", false, false}, {"38", "Foreign", false, false}, {"39", "Horror", false, false},
		{"40", "Sci-Fi/Fantasy", false, false}, {"41", "Thriller", false, false}, {"42", "Shorts", false, false},
		{"43", "Shows", false, false}, {"44", "Trailers", false, false},
	}
}

type regionSnippet struct {
	GL   string `json:"gl"`
	Name string `json:"name"`
}

// i18nRegions answers i18nRegions.list.
func (s *Server) i18nRegions(_ *request, parts map[string]bool) (*listing, *apiError) {
	l := &listing{Kind: "youtube#i18nRegionListResponse"}
	for code, name := range regions() {
		item := resource{Kind: "youtube#i18nRegion", ID: code}
		if parts["snippet"] {
			item.Snippet = regionSnippet{GL: code, Name: name}
		}
		l.Items = append(l.Items, item)
	}
	return l, nil
}

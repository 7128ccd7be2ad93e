package youtubetest

import (
	"cmp"
	"fmt"
	"strconv"
	"time"
)

type thumbnail struct {
	URL    string `json:"url"`
	Width  int    `json:"width"`
	Height int    `json:"height"`
}

type localized struct {
	Title       string `json:"title"`
	Description string `json:"description"`
}

type videoSnippet struct {
	PublishedAt          string               `json:"publishedAt"`
	ChannelID            string               `json:"channelId"`
	Title                string               `json:"title"`
	Description          string               `json:"description"`
	Thumbnails           map[string]thumbnail `json:"thumbnails"`
	ChannelTitle         string               `json:"channelTitle"`
	Tags                 []string             `json:"tags,omitempty"`
	CategoryID           string               `json:"categoryId"`
	LiveBroadcastContent string               `json:"liveBroadcastContent"`
	Localized            localized            `json:"localized"`
}

type videoStatistics struct {
	ViewCount     string `json:"viewCount"`
	LikeCount     string `json:"likeCount,omitempty"`
	FavoriteCount string `json:"favoriteCount"`
	CommentCount  string `json:"commentCount,omitempty"`
}

type contentDetails struct {
	Duration        string   `json:"duration"`
	Dimension       string   `json:"dimension"`
	Definition      string   `json:"definition"`
	Caption         string   `json:"caption"`
	LicensedContent bool     `json:"licensedContent"`
	ContentRating   struct{} `json:"contentRating"`
	Projection      string   `json:"projection"`
}

type videoStatus struct {
	UploadStatus        string `json:"uploadStatus"`
	PrivacyStatus       string `json:"privacyStatus"`
	License             string `json:"license"`
	Embeddable          bool   `json:"embeddable"`
	PublicStatsViewable bool   `json:"publicStatsViewable"`
	MadeForKids         bool   `json:"madeForKids"`
}

const videoParts = "snippet contentDetails status statistics player topicDetails recordingDetails " +
	"liveStreamingDetails localizations paidProductPlacementDetails brandPartner"

// videos answers videos.list.
func (s *Server) videos(r *request, parts map[string]bool) (*listing, *apiError) {
	ids, bad := r.ids()
	chart := r.query.Get("chart")
	switch {
	case bad != nil:
		return nil, bad
	case chart != "" && len(ids) > 0:
		return nil, newError(400, "youtube.parameter", "incompatibleParameters",
			"Incompatible parameters specified in the request: chart, id")
	case len(ids) > 0:
		return s.videosByID(ids, parts), nil
	case chart == "mostPopular":
		return s.chart(r, parts)
	case chart != "":
		return nil, errInvalid("chart", "Invalid value '"+chart+"'. Allowed values: [mostPopular]")
	}
	return nil, errNoFilter("chart, id, myRating")
}

// videosByID returns the videos in the order of the ids, without unknown ones.
func (s *Server) videosByID(ids []string, parts map[string]bool) *listing {
	l := &listing{Kind: "youtube#videoListResponse"}
	for _, id := range ids {
		if v := s.opts.Data.byID[id]; v != nil {
			l.Items = append(l.Items, v.resource(parts))
		}
	}
	l.PageInfo = &pageInfo{TotalResults: len(l.Items), ResultsPerPage: len(l.Items)}
	return l
}

func (s *Server) chart(r *request, parts map[string]bool) (*listing, *apiError) {
	region := cmp.Or(r.region, "US")
	all, charted := s.opts.Data.charts[region]
	if !charted && !knownRegion(region) {
		return nil, errRegion()
	}
	if category := r.query.Get("videoCategoryId"); category != "" && category != "0" {
		all = filtered(all, func(v *Video) bool { return v.CategoryID == category })
	}
	if len(all) == 0 {
		return nil, errNoChart()
	}
	return pageOf(r, "youtube#videoListResponse", all, 1, func(v *Video) resource { return v.resource(parts) })
}

func filtered[T any](all []T, good func(T) bool) []T {
	var kept []T
	for _, v := range all {
		if good(v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// resource returns the video as videos.list shows it.
func (v *Video) resource(parts map[string]bool) resource {
	r := resource{Kind: "youtube#video", ID: v.ID}
	if parts["snippet"] {
		r.Snippet = videoSnippet{
			PublishedAt: stamp(v.PublishedAt), ChannelID: v.ChannelID, Title: v.Title, Description: v.Description,
			Thumbnails: v.thumbnails("default", "medium", "high", "standard", "maxres"), ChannelTitle: v.ChannelTitle,
			Tags:       v.Tags,
			CategoryID: v.CategoryID, LiveBroadcastContent: "none", Localized: localized{v.Title, v.Description},
		}
	}
	if parts["contentDetails"] {
		seconds := 20 + hash(v.ID)%3000
		r.ContentDetails = contentDetails{
			Duration: fmt.Sprintf("PT%dM%dS", seconds/60, seconds%60), Dimension: "2d", Definition: "hd",
			Caption: strconv.FormatBool(seconds%3 == 0), LicensedContent: seconds%2 == 0, Projection: "rectangular",
		}
	}
	if parts["status"] {
		r.Status = videoStatus{"processed", "public", "youtube", true, true, false}
	}
	if parts["statistics"] {
		r.Statistics = videoStatistics{
			ViewCount: strconv.FormatInt(v.Views, 10), LikeCount: count(v.Likes), FavoriteCount: "0",
			CommentCount: count(v.Comments),
		}
	}
	return r
}

func (v *Video) thumbnails(sizes ...string) map[string]thumbnail {
	all := map[string]thumbnail{
		"default": {"default", 120, 90}, "medium": {"mqdefault", 320, 180}, "high": {"hqdefault", 480, 360},
		"standard": {"sddefault", 640, 480}, "maxres": {"maxresdefault", 1280, 720},
	}
	chosen := map[string]thumbnail{}
	for _, size := range sizes {
		t := all[size]
		t.URL = "https://i.ytimg.com/vi/" + v.ID + "/" + t.URL + ".jpg"
		chosen[size] = t
	}
	return chosen
}

func count(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

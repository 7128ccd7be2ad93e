package youtubetest

import (
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"
)

// Video is one video, with the same statistics in every chart. The JSON names
// are those of the files that Load reads.
type Video struct {
	ID           string    `json:"id"`
	Title        string    `json:"title"`
	Description  string    `json:"description"`
	ChannelID    string    `json:"channelId"`
	ChannelTitle string    `json:"channelTitle"`
	CategoryID   string    `json:"categoryId"`
	PublishedAt  time.Time `json:"publishedAt"`
	Tags         []string  `json:"tags"` // may be empty
	Views        int64     `json:"viewCount"`
	Likes        *int64    `json:"likeCount"`    // nil: hidden
	Comments     *int64    `json:"commentCount"` // nil: turned off

	text string // that a search matches
}

// Data holds what a server serves: charts, the videos in them and their
// channels. It never changes, so servers may share it. Make it with
// DefaultData, Load or LoadFile.
type Data struct {
	charts   map[string][]*Video // by region, first place first
	videos   []*Video            // each once
	byID     map[string]*Video
	channels []*channel // each once
}

type channel struct {
	id, title   string
	publishedAt time.Time
}

// Regions returns the regions that have a chart, sorted.
func (d *Data) Regions() []string { return slices.Sorted(maps.Keys(d.charts)) }

// Chart returns copies of the videos in a region's chart, first place first:
// what a complete fetch of the chart returns. It is empty for a region
// without one.
func (d *Data) Chart(region string) []Video {
	chart := make([]Video, len(d.charts[region]))
	for i, v := range d.charts[region] {
		chart[i] = *v
		chart[i].Tags = slices.Clone(v.Tags)
	}
	return chart
}

// newData indexes the videos; charts lists video ids by region.
func newData(videos []*Video, charts map[string][]string) *Data {
	d := &Data{charts: map[string][]*Video{}, videos: videos, byID: map[string]*Video{}}
	seen := map[string]bool{}
	for _, v := range videos {
		d.byID[v.ID] = v
		v.text = strings.ToLower(v.Title + " " + v.ChannelTitle)
		if !seen[v.ChannelID] {
			seen[v.ChannelID] = true
			days := time.Duration(30+hash(v.ChannelID)%4000) * 24 * time.Hour
			d.channels = append(d.channels, &channel{v.ChannelID, v.ChannelTitle, v.PublishedAt.Add(-days)})
		}
	}
	for region, ids := range charts {
		for _, id := range ids {
			d.charts[region] = append(d.charts[region], d.byID[id])
		}
	}
	return d
}

// hash derives the numbers that the data does not have from an id.
func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64() >> 8
}

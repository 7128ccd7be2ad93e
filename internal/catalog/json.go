package catalog

import (
	"encoding/json"
	"time"
)

// MarshalJSON implements json.Marshaler. What the catalogue does not know is
// null.
func (h Hit) MarshalJSON() ([]byte, error) {
	out := struct {
		ID        string     `json:"id"`
		URL       string     `json:"url"`
		Title     string     `json:"title"`
		Channel   string     `json:"channel"`
		Category  *string    `json:"category"`
		Views     *int64     `json:"views"`
		Likes     *int64     `json:"likes"`
		Comments  *int64     `json:"comments"`
		Published *time.Time `json:"published"`
		FetchedAt time.Time  `json:"fetched_at"`
		Charts    []Chart    `json:"charts"`
	}{ID: h.ID, URL: h.URL(), Title: h.Title,
		Channel: h.ChannelTitle, Views: h.Views, Likes: h.Likes,
		Comments:  h.Comments,
		FetchedAt: h.FetchedAt.UTC(), Charts: []Chart{}}
	if h.Category != "" {
		out.Category = &h.Category
	}
	if !h.PublishedAt.IsZero() {
		out.Published = new(h.PublishedAt.UTC())
	}
	for _, c := range h.Charts {
		c.LastAt = c.LastAt.UTC()
		out.Charts = append(out.Charts, c)
	}
	return json.Marshal(out)
}

package catalog

import "time"

// Video is a video as the API describes it. Only ID is required. A zero
// PublishedAt is unknown; a nil count is hidden or was not requested.
type Video struct {
	ID           string
	Title        string
	Description  string
	ChannelID    string
	ChannelTitle string
	CategoryID   string
	PublishedAt  time.Time
	Tags         []string
	Views        *int64
	Likes        *int64
	Comments     *int64
}

// Channel is a channel as channels.list describes it. A nil count is hidden.
type Channel struct {
	ID          string
	Title       string
	Subscribers *int64
	Views       *int64
	Videos      *int64
}

// Category is a video category of one region. Its ID is unique in the
// region only.
type Category struct {
	ID    string
	Title string
}

// Page is the result of one call and the progress of its step.
type Page struct {
	Region string
	Tick   time.Time // tick of the pass
	Step   string    // name of the step, such as "trending" or "search:music"
	Method string    `json:"-"` // of the call, whose failures end with this page; "" if none was made
	Number int       // number of pages of this step committed before: Checkpoint.Pages

	Videos []Video
	// Snippets reports that Videos come from search.list: titles are
	// HTML-escaped, descriptions truncated, tags and counts missing. They do
	// not overwrite the fields of complete rows.
	Snippets bool
	// FirstRank is the chart position of Videos[0], which the others follow, or
	// 0 if the videos are not a chart.
	FirstRank int

	Channels        []Channel
	MissingChannels []string // ids requested but not found: deleted or terminated
	Categories      []Category

	Token string // token of this page; "" for the first
	Next  string // token of the next page
	Done  bool   // the step has no further page
	ETag  string // if set, KnownPage returns the page
}

// Checkpoint says how far a step of a pass has come. The zero value means that
// it has not begun.
type Checkpoint struct {
	Next   string // token of the next page to fetch
	Pages  int    // number of pages committed
	Videos int    // number of videos on them; a video on two pages counts twice
	Done   bool   // there is no further page
}

// PassState says how far a pass has come. The zero value means that it has
// not begun.
type PassState struct {
	FinishedAt time.Time // zero if it is not finished
	Steps      map[string]Checkpoint
}

// PassSummary says how far a pass has come, and when. Pages and Videos are 0
// for a pass that a newer one of its region has replaced.
type PassSummary struct {
	Region     string
	Tick       time.Time
	StartedAt  time.Time
	FetchedAt  time.Time // time of the last commit
	FinishedAt time.Time // zero if it is not finished
}

// Region says when a region was last fetched.
type Region struct {
	Tick       time.Time // newest tick whose pass has begun
	FetchedAt  time.Time // time of the last commit
	FinishedAt time.Time // when a pass was last finished; zero if never
}

// Query is a query for Search.
type Query struct {
	// Text is a list of words, all of which must occur. "Quoted words" must
	// occur next to each other, and a word that ends in * matches every word
	// with that prefix. There are no other operators. Words are stemmed before
	// they are compared, so cats finds cat. Scripts without spaces are indexed
	// as runs between punctuation, and a word matches the beginning of a run
	// only. Words after the first 32 are ignored.
	Text   string
	Region string        // only videos that this region's passes have met; "" means all
	MaxAge time.Duration // only videos published at most this long ago; 0 means all
	Limit  int           // the most hits; 0 means 20
}

// Hit is a video that matches a query.
type Hit struct {
	Video
	Category  string // title of its category; "" if unknown
	FetchedAt time.Time
	Charts    []Chart // one for each region, in the order of their names
}

// Chart is a video's performance on a region's charts within the retention.
type Chart struct {
	Region string    `json:"region"`
	Best   int       `json:"best"`    // best rank; 1 is the top
	Last   int       `json:"last"`    // latest rank
	LastAt time.Time `json:"last_at"` // time of the latest rank
}

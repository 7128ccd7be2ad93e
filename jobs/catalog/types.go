package catalog

import "time"

// Video is a video as the API tells it. Only ID is required; a zero
// PublishedAt is unknown, a nil count is hidden or was not asked for.
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

// Channel is a channel as channels.list tells it; a nil count is hidden.
type Channel struct {
	ID          string
	Title       string
	Subscribers *int64
	Views       *int64
	Videos      *int64
}

// Category is a video category of one region. Ids are the region's own.
type Category struct {
	ID    string
	Title string
}

// Page is what one call brought, and where its step stands after it.
type Page struct {
	Region string
	Tick   time.Time // of the pass
	Step   string    // of the pass, such as "trending" or "search:music"
	Number int       // how many pages of this step were committed before it: Checkpoint.Pages

	Videos []Video
	// Snippets says that Videos come from search.list: titles are HTML-escaped,
	// descriptions cut, tags and counts absent. They never replace a fuller row.
	Snippets bool
	// FirstRank is the chart position of Videos[0]; the others follow it. 0 is
	// no chart.
	FirstRank int

	Channels        []Channel
	MissingChannels []string // asked for and not answered: deleted or terminated
	Categories      []Category

	Token string // that led to this page
	Next  string // token of the page after this one
	Done  bool   // the step has no further page
	ETag  string // with one, the page is kept for KnownPage
}

// Checkpoint is where a step of a pass stands. The zero value has not begun.
type Checkpoint struct {
	Next      string // token of the page to fetch next
	Pages     int
	Videos    int // rows of all pages; a video on two pages counts twice
	Done      bool
	FetchedAt time.Time // of its last page
}

// Progress is how far a pass has come. The zero value has not begun.
type Progress struct {
	StartedAt  time.Time
	FetchedAt  time.Time // of its last page
	FinishedAt time.Time // zero: not finished
	Steps      map[string]Checkpoint
}

// Region is what was last done for a region.
type Region struct {
	Tick       time.Time // the newest tick begun
	FetchedAt  time.Time // when a page was last committed
	FinishedAt time.Time // when a pass was last finished; zero: never
}

// Counts are numbers of rows. Channels counts those found.
type Counts struct {
	Videos    int64
	Positions int64
	Channels  int64
}

// Query asks Search. The zero Region is all regions, MaxAge 0 any age, Limit 0
// twenty hits.
type Query struct {
	// Text is words, all of which must occur. "Quoted words" must occur side by
	// side; a word that ends in * matches every word that begins so. Nothing else
	// is an operator. Endings are cut before words are compared (cats finds cat),
	// so that part of an ending finds nothing. Scripts written without spaces are
	// indexed as runs between punctuation: a word in them matches as the
	// beginning of a run, and is not found inside one. The first 32 words count.
	Text   string
	Region string        // only videos that this region's passes met
	MaxAge time.Duration // only videos published so recently
	Limit  int
}

// Hit is a video that answers a query.
type Hit struct {
	Video
	Category  string // title of its category, empty where unknown
	FetchedAt time.Time
	Charts    []Chart // by region
}

// Chart is how a video did on a region's charts within the retention.
type Chart struct {
	Region string
	Best   int
	Last   int
	LastAt time.Time
}

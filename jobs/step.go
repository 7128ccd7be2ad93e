package jobs

// Kind is a kind of step.
type Kind string

// The kinds of step, by the words of regions.yaml.
const (
	Trending   Kind = "trending"   // a region's chart, 50 videos a page
	Search     Kind = "search"     // a query, 50 videos a page
	Channels   Kind = "channels"   // the channels not yet known, 50 a call
	Categories Kind = "categories" // the region's video categories
)

var kinds = []string{string(Trending), string(Search), string(Channels), string(Categories)}

// Step is one piece of a pass, fetched page by page.
type Step struct {
	Kind  Kind
	Pages int    // the most pages
	Query string // of a search
}

// Name is what checkpoints and attribution call the step: trending, search:music.
func (s Step) Name() string {
	if s.Kind == Search {
		return string(s.Kind) + ":" + s.Query
	}
	return string(s.Kind)
}

// Method is the upstream's name for the step's calls.
func (s Step) Method() string {
	switch s.Kind {
	case Trending:
		return "videos.list"
	case Search:
		return "search.list"
	case Channels:
		return "channels.list"
	}
	return "videoCategories.list"
}
